"""Fits of functions of Parameters: minimize, Minimizer, MinimizerResult, confidence intervals."""
from __future__ import annotations

import math
from math import inf, isfinite, nan

from .. import _core
from .._core import Tensor
from .._tensor import enable_grad, no_grad, tensor
from ._parameters import Parameters
from ._statistics import intervals_as_text, probability_of, report_of, student_below, student_quantile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Iterable, Sequence

SQUARES = ("leastsq", "least_squares")
# lmfit's names of scalar minimisers, as gradus.minimize knows them
SCALARS = {"nelder": "nelder-mead", "lbfgsb": "l-bfgs-b", "powell": "powell", "cg": "cg", "newton": "newton-cg", "bfgs": "bfgs", "tnc": "tnc",
           "cobyla": "cobyla", "slsqp": "slsqp", "trust-constr": "trust-constr", "dogleg": "dogleg", "trust-ncg": "trust-ncg",
           "trust-krylov": "trust-krylov", "trust-exact": "trust-exact"}


def method_of(method: str, who: str = "minimize") -> str:
    """leastsq, or the name gradus.minimize has."""
    name = str(method).lower()
    if name in SQUARES:
        return "leastsq"
    name = {"nelder-mead": "nelder", "l-bfgs-b": "lbfgsb", "newton-cg": "newton"}.get(name, name)
    if name not in SCALARS:
        raise ValueError(f"{who}: there is no method {method!r}: " + ", ".join([*SQUARES, *SCALARS]))
    return SCALARS[name]


def nan_rule(policy: Any, who: str) -> str:
    if policy not in ("raise", "omit", "propagate"):
        raise ValueError(f"{who}: nan_policy is 'raise', 'omit' or 'propagate', not {policy!r}")
    return str(policy)


def _inwards(value: float, low: float, high: float) -> float:
    """The free number of a value within limits (James and Roos 1975)."""
    if low > -inf and high < inf:
        return math.asin(max(-0.999, min(0.999, 2 * (value - low) / (high - low) - 1)))
    if low > -inf:
        return math.sqrt(max(1e-6, (value - low + 1) ** 2 - 1))
    return math.sqrt(max(1e-6, (high - value + 1) ** 2 - 1)) if high < inf else value


def _outwards(free: Any, low: float, high: float) -> Any:
    """The value within limits of a free number, a tensor or a float."""
    if low == -inf and high == inf:
        return free
    if low > -inf and high < inf:
        return low + (high - low) / 2 * ((free.sin() if isinstance(free, Tensor) else math.sin(free)) + 1)
    root = (free * free + 1).sqrt() if isinstance(free, Tensor) else math.sqrt(free * free + 1)
    return low - 1 + root if low > -inf else high + 1 - root


class MinimizerResult:
    """What a fit found: params with standard errors, residual, chisqr, redchi, aic, bic, covar, var_names, init_values, ndata, nvarys, nfree, nfev, success,
    message, method, errorbars; report(), conf_interval().  derivatives: "operators", "jac", "differences" or "values"."""

    model: Any = None

    def _solve(self, params: Parameters, residual: Callable[[list[Any]], Any], method: str, *, scale_covar: bool = True, calc_covar: bool = True,
               callback: Any = None, max_steps: int = 1000, max_nfev: int | None = None, jac: Any = None, nan_policy: str = "raise",
               settings: dict[str, Any] | None = None) -> None:
        """Fits params, which are changed; residual is called with the values of those that vary."""
        from .._numbers import numpy_or_none

        self.params, self.method, self._np, self.scale_covar = params, method, numpy_or_none(), scale_covar
        params._follow()
        for p in params.values():
            p.init_value, p.stderr, p.correl = p.value, None, {}
        self.init_values = {n: p.value for n, p in params.items() if p.vary}
        self.var_names = list(self.init_values)
        self.init_vals = list(self.init_values.values())
        lost = [n for n, p in params.items() if p.expr is None and p.value != p.value]
        if lost:
            raise ValueError(f"fit: parameter '{lost[0]}' has no value to start from: fit(..., {lost[0]}=1), or guess()")
        if not self.var_names:
            raise ValueError("fit: no parameter varies")
        self._problem = (residual, method, dict(scale_covar=scale_covar, calc_covar=calc_covar, max_steps=max_steps, max_nfev=max_nfev, jac=jac,
                                                nan_policy=nan_policy, settings=settings))

        def kept(values: list[Any]) -> Any:
            made = residual(values)
            if not isinstance(made, Tensor):
                if _core.grad_enabled() and isinstance(values[0], Tensor):
                    return made  # numbers, which the caller sees
                made = tensor(made)
            if str(made.dtype) == "bool":
                return made
            made = made.to("f64").drop_names().reshape(-1) if made.ndim else made.to("f64")
            if nan_policy == "propagate" or not made.size or made.isfinite().all().item():
                return made
            if nan_policy == "raise":
                raise ValueError("fit: the residuals have numbers that are not finite: another start, limits of the parameters, or nan_policy='omit'")
            return made[~made.isnan()]
        self.nit, self.errorbars, self.covar = 0, False, None
        if method == "leastsq":
            self._least_squares(kept, callback, max_steps, max_nfev, jac)
        else:
            self._scalar(kept, method, callback, max_steps, max_nfev, calc_covar, settings or {})
        if not calc_covar:
            self._share(None)

    def _least_squares(self, residual: Callable[[list[Any]], Any], callback: Any, max_steps: int, max_nfev: int | None, jac: Any) -> None:
        from .._minimize import _kind, _run
        from .._numbers import Function

        low, high = [self.params[n].min for n in self.var_names], [self.params[n].max for n in self.var_names]
        bounded = any(v > -inf for v in low) or any(v < inf for v in high)
        ends: tuple[Any, Any] = (low, high) if bounded else (None, None)

        def of(values: list[Any]) -> Any:
            made = residual(values)
            return made.reshape(-1) if isinstance(made, Tensor) else made

        def solve(begin: list[float], inside: bool) -> tuple[dict[str, Any], list[float], Function]:
            """From there; inside: the limits by a change of variables, which reaches none of them."""
            tensors = [tensor(v).require_grad() for v in (map(_inwards, begin, low, high) if inside else begin)]
            here: tuple[Any, Any] = (None, None) if inside else ends
            f = Function("fit", tensors, (lambda values: of(list(map(_outwards, values, low, high)))) if inside else of, self._np is not None,
                         low=here[0], high=here[1], jac=None if inside else jac)
            told = None if callback is None else lambda progress: callback(
                progress, [_outwards(t.item(), a, b) if inside else t.item() for t, a, b in zip(tensors, low, high)], None if inside else f)
            r = _run(lambda: _core._least_squares(tuple(tensors), f, here[0], here[1], tuple(self.var_names), told, {
                "max_steps": max_steps, "max_evals": max_nfev, "sigma": 0.0 if self.scale_covar else 1.0}), [f], tensors, [t.detach().copy() for t in tensors])
            values = [t.item() for t in tensors]
            return r, [_outwards(v, a, b) for v, a, b in zip(values, low, high)] if inside else values, f
        r, values, f = solve(self.init_vals, False)
        calls = f.calls if f.numbers else r["evals"]
        if any(v in (a, b) and v != v0 for v, a, b, v0 in zip(values, low, high, self.init_vals)) and r["stop"] != "CALLER":
            # A width of 0 can be a place where nothing pulls away again: is there a better minimum between the limits?
            try:
                between, there, g = solve(self.init_vals, True)
                again, found, h = solve(there, False)
                if again["rss"] < r["rss"] * (1 - 1e-9):
                    calls += sum(k.calls if k.numbers else k_r["evals"] for k, k_r in ((g, between), (h, again)))
                    r, values, f = again, found, h
            except (_core.Error, ValueError):
                pass  # what was found stays
        derivatives, why = _kind([f])
        self.success, self.nfev, self.nit = r["success"], calls, r["steps"]
        self.derivatives, self.message = derivatives, (r["says"] or r["message"]) + (f"; derivatives by differences: {why}" if why else "")
        self.stop = r["stop"]
        self._take(values, residual, r["rss"], r["covariance"])

    def _scalar(self, residual: Callable[[list[Any]], Any], method: str, callback: Any, max_steps: int, max_nfev: int | None, calc_covar: bool,
                settings: dict[str, Any]) -> None:
        from .._minimize import minimize as scipys

        pairs = [(self.params[n].min, self.params[n].max) for n in self.var_names]
        count = len(pairs)

        def of(x: Any) -> Any:
            return residual([x[i] for i in range(count)])
        told = None if callback is None else lambda progress: callback(progress, None, None)
        r = scipys(of, list(self.init_vals), method=method, bounds=pairs if any(isfinite(v) for p in pairs for v in p) else None,
                   callback=told, max_steps=max_steps, max_evals=max_nfev, **settings)
        self.success, self.nfev, self.nit, self.message, self.derivatives, self.stop = r.success, r.nfev, r.nit, r.message, r.derivatives, r.stop
        cov = None
        if calc_covar:
            cov = tensor(r.hess_inv) * 2.0
            if not cov.isfinite().all().item() or any(cov[i, i].item() <= 0 for i in range(count)):
                cov = None
        values = [float(v) for v in tensor(r.x).tolist()]
        self._take(values, residual, r.fun, None)
        if cov is not None:
            self._share((cov * (self.redchi if self.scale_covar else 1.0)).tolist())

    def _take(self, values: list[float], residual: Callable[[list[Any]], Any], loss: float, covariance: Any) -> None:
        for n, value in zip(self.var_names, values):
            self.params[n]._value = value
        self.params._follow()
        with no_grad():
            try:
                found = residual([tensor(v) for v in values])
            except (TypeError, AttributeError):
                found = residual(list(values))
        self._residual = found.detach().reshape(-1)
        self.residual: Any = self._shown(self._residual)
        self.chisqr = self._residual.square().sum().item() if self._residual.size > 1 or self.method == "leastsq" else loss
        self.ndata, self.nvarys = self._residual.size, len(values)
        self.nfree = self.ndata - self.nvarys
        self.redchi = self.chisqr / max(1, self.nfree)
        per = math.log(max(self.chisqr, 1e-250 * self.ndata) / self.ndata) * self.ndata if self.ndata else nan
        self.aic, self.bic = per + 2 * self.nvarys, per + math.log(max(self.ndata, 1)) * self.nvarys
        self._share(None if covariance is None else covariance.tolist())

    def _share(self, rows: Any) -> None:
        """Standard errors and correlations of a covariance, or none."""
        self.covar = None if rows is None else rows if self._np is None else self._np.array(rows)
        self.errorbars = rows is not None and all(isfinite(rows[i][i]) for i in range(len(rows)))
        for i, n in enumerate(self.var_names):
            p = self.params[n]
            p.stderr = math.sqrt(rows[i][i]) if rows is not None and self.errorbars and rows[i][i] >= 0 else None
            p.correl = {} if rows is None or not self.errorbars else {
                m: rows[i][k] / math.sqrt(rows[i][i] * rows[k][k]) for k, m in enumerate(self.var_names) if k != i and rows[i][i] * rows[k][k] > 0}
        for n, p in self.params.items():
            if p.expr is None:
                continue
            p.stderr = None
            if rows is None or not self.errorbars:
                continue
            at = [tensor(self.params[v].value).require_grad() for v in self.var_names]
            with enable_grad():
                value = self.params._with(dict(zip(self.var_names, at)))[n]
            if isinstance(value, Tensor) and value.requires_grad:
                g = [t.item() for t in _core.grad(value, at)]
                p.stderr = math.sqrt(max(0.0, sum(a * rows[i][k] * b for i, a in enumerate(g) for k, b in enumerate(g))))

    def _shown(self, t: Tensor) -> Any:
        return t if self._np is None else self._np.array(t.tolist())

    def _again(self, params: Parameters) -> "MinimizerResult":
        """The same fit from other parameters."""
        residual, method, how = self._problem
        names = self.var_names
        now = [n for n, p in params.items() if p.vary]
        made = MinimizerResult()

        def of(values: list[Any]) -> Any:
            given = dict(zip(now, values))
            return residual([given.get(n, params[n].value) for n in names])
        made._solve(params, of, method, **how)
        return made

    @property
    def uvars(self) -> None:
        """None: values with uncertainties need the package of that name."""
        return None

    def conf_interval(self, p_names: Sequence[str] | None = None, sigmas: Iterable[float] = (1, 2, 3), **unused: Any) -> dict[str, list[tuple[float, float]]]:
        """{name: [(probability, value), ...]} from the lowest end to the highest, the best value in the middle with probability 0.

        The ends are where the fit of all other parameters has a chi-square that the F-test gives the probability to."""
        self.ci_out = {}
        for name in self.var_names if p_names is None else p_names:
            ends = [(probability_of(s), self._end(name, probability_of(s), side)) for side in (-1, 1) for s in (sorted(sigmas, reverse=side < 0))]
            half = len(ends) // 2
            self.ci_out[name] = [*ends[:half], (0.0, self.params[name].value), *ends[half:]]
        return self.ci_out

    def _end(self, name: str, probability: float, side: int) -> float:
        p = self.params[name]
        best = float(p.value)
        if len(self.var_names) < 2:
            raise _core.UnsupportedError("conf_interval: at least two parameters must vary")
        step = p.stderr or abs(best) * 0.1 or 0.1
        want = student_quantile((1 + probability) / 2, self.nfree) / math.sqrt(self.nfree)
        seen: dict[float, float] = {}

        def rise(v: float) -> float:
            """The root of the relative growth of chi-square, which is nearly linear in v."""
            if v not in seen:
                params = self.params.copy()
                params[name].set(value=v, vary=False)
                seen[v] = math.sqrt(max(0.0, self._again(params).chisqr / self.chisqr - 1))
            return seen[v]
        edge = p.max if side > 0 else p.min
        a, fa = best, -want
        b = best + side * step * want * math.sqrt(self.nfree)
        for _ in range(60):
            if (b - edge) * side > 0:
                if rise(edge) < want:
                    return side * inf
                b = edge
            fb = rise(b) - want
            if fb >= 0:
                break
            a, fa, b = b, fb, b + (b - best) * min(2.0, max(0.05, -1.1 * fb / (fb + want) if fb + want > 0 else 2.0))
        else:
            return side * inf
        for _ in range(60):  # a is inside, b outside: regula falsi of Illinois' kind
            if abs(b - a) <= 1e-10 * max(abs(a), abs(b)) or abs(fb) < 1e-12:
                break
            c = b - fb * (b - a) / (fb - fa)
            fc = rise(c) - want
            if (fc >= 0) != (fb >= 0):
                a, fa = b, fb
            else:
                fa /= 2
            b, fb = c, fc
        return b

    def ci_report(self, with_offset: bool = True, ndigits: int = 5, **how: Any) -> str:
        """The confidence intervals as a table."""
        return intervals_as_text(getattr(self, "ci_out", None) or self.conf_interval(**how), ndigits, with_offset)

    def report(self, min_correl: float = 0.1, show_correl: bool = True, **unused: Any) -> str:
        """Statistics, parameters and correlations as text."""
        return report_of(self, self.params, show_correl, min_correl)

    def fit_report(self, modelpars: Any = None, show_correl: bool = True, min_correl: float = 0.1, sort_pars: bool = False, **unused: Any) -> str:
        """report() by lmfit's name."""
        return self.report(min_correl, show_correl)

    def __repr__(self) -> str:
        return self.report()

    def _repr_html_(self) -> str:
        rows = "".join(f"<tr><td>{name}</td><td>{value}</td></tr>" for name, value in (
            ("method", self.method), ("data points", self.ndata), ("chi-square", f"{self.chisqr:.8g}"), ("reduced chi-square", f"{self.redchi:.8g}")))
        return f"<table>{rows}</table>" + self.params._repr_html_()


class Minimizer:
    """A function of Parameters that returns residuals, or one number, and the parameters to fit.

    iter_cb is called after each step with the parameters, the number of the step and the residuals, and stops the fit by returning True."""

    def __init__(self, userfcn: Callable[..., Any], params: Parameters, fcn_args: Any = None, fcn_kws: Any = None, iter_cb: Any = None, scale_covar: bool = True,
                 nan_policy: str = "raise", reduce_fcn: Any = None, calc_covar: bool = True, max_nfev: int | None = None, **settings: Any) -> None:
        if not isinstance(params, Parameters):
            raise TypeError(f"Minimizer: params are Parameters, not {type(params).__name__}")
        if reduce_fcn is not None:
            raise _core.UnsupportedError("Minimizer: reduce_fcn is not supported: return one number from the function")
        self.userfcn, self.params, self.iter_cb = userfcn, params, iter_cb
        self.userargs = () if fcn_args is None else fcn_args if isinstance(fcn_args, tuple) else tuple(fcn_args) if isinstance(fcn_args, list) else (fcn_args,)
        self.userkws = dict(fcn_kws or {})
        self.scale_covar, self.nan_policy, self.calc_covar, self.max_nfev = scale_covar, nan_rule(nan_policy, "Minimizer"), calc_covar, max_nfev
        self.kws = settings
        self.result: MinimizerResult | None = None

    def _called(self, params: Parameters) -> tuple[Callable[[list[Any]], Any], list[str]]:
        names = [n for n, p in params.items() if p.vary]

        def residual(values: list[Any]) -> Any:
            given = [v if isinstance(v, Tensor) else float(v) for v in values]
            return self.userfcn(params._at(dict(zip(names, given))), *self.userargs, **self.userkws)
        return residual, names

    def minimize(self, method: str = "leastsq", params: Parameters | None = None, **settings: Any) -> MinimizerResult:
        """Fits by that method: leastsq, or a name of a scalar minimiser, of the sum of squares."""
        settings = {**self.kws, **settings}
        params = (self.params if params is None else params).copy()
        residual, names = self._called(params)
        known = method_of(method)
        how: dict[str, Any] = {"max_nfev": settings.pop("max_nfev", self.max_nfev), "max_steps": settings.pop("max_steps", 1000)}
        dfun, by_rows = settings.pop("Dfun", None), not settings.pop("col_deriv", False)
        if known == "leastsq":
            refuse_unknown(settings)
            if dfun is not None:
                def slopes(values: list[Any]) -> Any:
                    made = tensor(dfun(params._at(dict(zip(names, [float(v) for v in values]))), *self.userargs, **self.userkws)).to("f64").detach()
                    return made if by_rows else made.T
                how["jac"] = slopes
            settings = {}
        elif dfun is not None:
            raise TypeError("minimize: Dfun is for leastsq")
        told = None
        if self.iter_cb is not None:
            def told(progress: Any, values: Any, f: Any) -> Any:
                here = params if values is None else params._at(dict(zip(names, values)))
                with no_grad():
                    found = None if f is None else f()
                return self.iter_cb(here, progress["step"], found if found is None or result._np is None else result._np.array(found.tolist()), *self.userargs, **self.userkws)
        result = MinimizerResult()
        result._solve(params, residual, known, scale_covar=self.scale_covar, calc_covar=self.calc_covar, callback=told, nan_policy=self.nan_policy,
                      settings=settings, **how)
        result.method = str(method)
        self.result = result
        return result

    def leastsq(self, params: Parameters | None = None, **settings: Any) -> MinimizerResult:
        """minimize("leastsq")."""
        return self.minimize("leastsq", params, **settings)

    def least_squares(self, params: Parameters | None = None, **settings: Any) -> MinimizerResult:
        """minimize("least_squares")."""
        return self.minimize("least_squares", params, **settings)

    def scalar_minimize(self, method: str = "Nelder-Mead", params: Parameters | None = None, **settings: Any) -> MinimizerResult:
        """minimize() with a scalar minimiser."""
        return self.minimize(method, params, **settings)


def refuse_unknown(settings: dict[str, Any]) -> None:
    """Tolerances of MINPACK have no effect: a fit ends at rounding.  Others warn."""
    from .._minimize import warn

    for name in settings:
        if name not in ("ftol", "xtol", "gtol", "epsfcn"):
            warn(f"minimize: unknown option '{name}': it is not used", 4)


def minimize(fcn: Callable[..., Any], params: Parameters, method: str = "leastsq", args: Any = None, kws: Any = None, iter_cb: Any = None, scale_covar: bool = True,
             nan_policy: str = "raise", reduce_fcn: Any = None, calc_covar: bool = True, max_nfev: int | None = None, **settings: Any) -> MinimizerResult:
    """Fits Parameters so that the sum of squares of fcn(params, *args, **kws) is least, as lmfit.minimize does.

    gradus.minimize is the same if its second argument is a Parameters."""
    return Minimizer(fcn, params, args, kws, iter_cb, scale_covar, nan_policy, reduce_fcn, calc_covar, max_nfev).minimize(method, **settings)


def conf_interval(minimizer: Any, result: MinimizerResult, p_names: Sequence[str] | None = None, sigmas: Iterable[float] = (1, 2, 3), trace: bool = False,
                  **unused: Any) -> dict[str, list[tuple[float, float]]]:
    """Confidence intervals by the F-test: see MinimizerResult.conf_interval."""
    if trace:
        raise _core.UnsupportedError("conf_interval: trace is not supported")
    return result.conf_interval(p_names, sigmas)


def ci_report(found: dict[str, list[tuple[float, float]]], with_offset: bool = True, ndigits: int = 5) -> str:
    """Confidence intervals as a table."""
    return intervals_as_text(found, ndigits, with_offset)


def report_ci(found: dict[str, list[tuple[float, float]]], with_offset: bool = True, ndigits: int = 5) -> None:
    """Prints ci_report."""
    print(ci_report(found, with_offset, ndigits))


def fit_report(inpars: Any, modelpars: Any = None, show_correl: bool = True, min_correl: float = 0.1, sort_pars: bool = False, **unused: Any) -> str:
    """The report of a result, or of Parameters."""
    if isinstance(inpars, Parameters):
        return report_of(None, inpars, show_correl, min_correl)
    return str(inpars.report(min_correl, show_correl))


def report_fit(inpars: Any, **how: Any) -> None:
    """Prints fit_report."""
    print(fit_report(inpars, **how))


def f_compare(best_fit: MinimizerResult, new_fit: MinimizerResult) -> float:
    """The probability by the F-test that the parameter which new_fit holds is not at that value."""
    grown = max(0.0, new_fit.chisqr / best_fit.chisqr - 1) * best_fit.nfree
    if best_fit.nvarys - new_fit.nvarys != 1:
        raise _core.UnsupportedError("f_compare: the fits differ by one parameter")
    return 2 * student_below(math.sqrt(grown), best_fit.nfree) - 1
