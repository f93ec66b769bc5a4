"""Results, points, and curve_fit; minimize and least_squares are in _minimize.py."""
from __future__ import annotations

from math import inf, nan

from . import _core
from ._core import Tensor
from ._tensor import tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Iterator


class Result(dict):  # type: ignore[type-arg]
    """The result of minimize: a dict whose entries are attributes too, like SciPy's results.

    x              the best point: a tensor, or tensors, as given
    fun            the loss there
    success        was a minimum reached?
    status         0: yes; 1: a limit was reached; 99: the callback stopped it; 2: for another reason
    jac            the gradient at x, and hess_inv the inverse of the Hessian there: computed on access
    message, stop  the reason for stopping, as text and as a name
    derivatives    "operators"; "jac" if it was given; "differences" if fun needs numbers (message has the reason), or if the chain takes them
                   (fdm); "values" if the chain uses none
    nit, nfev, njev   steps, evaluations, and those of derivatives
    gradient_norm  the largest element of the gradient, with bounds or constraints of the KKT residual
    violation, maxcv   the largest violation of a constraint
    multipliers    of constraints, {"equal": ..., "below": ...}: the gradient of fun is minus their sum with the gradients of the
                   constraints, plus bound_multipliers; None if the chain has none
    bound_multipliers  of bounds, as x: > 0 at an active low bound, < 0 at a high one, else 0; None as above
    active         active elements of below, {"below": ...}, and of x, {"bounds": ...}: their multipliers are not 0
    sensitivities  with sensitivities=True how x moves per unit of b in equal = b and below <= b, {"equal": ..., "below": ...} with an axis of
                   constraints before those of x
    constraint_evals  points at which the constraints were computed
    seconds        the time it took"""

    if TYPE_CHECKING:
        x: Any
        fun: float
        success: bool
        message: str
        stop: str
        derivatives: str
        nit: int
        nfev: int
        gradient_norm: float
        violation: float
        multipliers: Any
        sensitivities: Any
        bound_multipliers: Any
        active: Any
        constraint_evals: int
        seconds: float

    def __missing__(self, name: str) -> Any:
        later = self.__dict__.get("_later", {})
        if name not in later:
            raise KeyError(name)
        self[name] = later[name]()
        return self[name]

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"the result has no '{name}': it has {', '.join(self.keys())}") from None

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "_later":
            self.__dict__[name] = value
        else:
            self[name] = value

    def __reduce__(self) -> Any:
        for name in self.__dict__.get("_later", {}):
            self[name]  # what is computed when asked for
        return (_result_of, (type(self), dict(self)))

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self.keys()]

    def __repr__(self) -> str:
        width = max(map(len, self.keys()), default=0)
        return "\n".join(f"{key:>{width}}: {value!r}" for key, value in self.items())

    def _repr_html_(self) -> str:
        import html

        rows = "".join(f"<tr><th>{html.escape(key)}</th><td><pre>{html.escape(repr(value))}</pre></td></tr>" for key, value in self.items())
        return f"<table>{rows}</table>"


def _result_of(kind: type[Result], entries: dict[str, Any]) -> Result:
    return kind(entries)


# ---- parameters of any form ----

class _Point:
    """x0 as tensors to optimise, and back."""

    def __init__(self, x0: Any, dtype: str | None) -> None:
        self.form = "dict" if isinstance(x0, dict) else "tuple" if isinstance(x0, tuple) else "one"
        parts = list(x0.values()) if self.form == "dict" else list(x0) if self.form == "tuple" else [x0]
        self.names = [str(n) for n in x0] if self.form == "dict" else [f"p{i}" for i in range(len(parts))] if len(parts) > 1 else ["x"]
        self.arrays = [type(p).__module__.split(".")[0] in ("numpy", "pandas") for p in parts]
        self.tensors = []
        for part in parts:
            t = part.detach().copy() if isinstance(part, Tensor) else tensor(part)
            t = t.to(dtype or (t.dtype if t.dtype in ("f32", "f64") else "f64"))
            self.tensors.append((t.copy() if isinstance(part, Tensor) else t).detach().require_grad())
        self.sizes = [t.size for t in self.tensors]

    def call(self, fn: Callable[..., Any], args: tuple[Any, ...], tensors: list[Tensor] | None = None) -> Callable[[], Any]:
        given = self.tensors if tensors is None else tensors
        if self.form == "dict":
            named = dict(zip(self.names, given))
            return lambda: _as_tensor(fn(**named, **({"args": args} if args else {})))
        return lambda: _as_tensor(fn(*given, *args))

    def value(self) -> Any:
        return self.shaped([t.detach().copy() for t in self.tensors])

    def shaped(self, out: list[Tensor]) -> Any:
        """Tensors like the parameters, in the form of x0."""
        shown = [t.numpy() if is_array else t for t, is_array in zip(out, self.arrays)]
        return dict(zip(self.names, shown)) if self.form == "dict" else tuple(shown) if self.form == "tuple" else shown[0]

    def lows_and_highs(self, bounds: Any, caller: str) -> tuple[Any, Any]:
        """Bounds of every element as SciPy's curve_fit takes them: (lows, highs), numbers or one for each element."""
        if bounds is None or hasattr(bounds, "lb") or isinstance(bounds, dict):
            return self._explicit(bounds, caller)
        given = list(bounds)
        if len(given) != 2:
            raise ValueError(f"{caller}: bounds are (lows, highs), each a number or one for each parameter, not {len(given)} entries")
        low, high = self._spread(given[0], -inf, caller), self._spread(given[1], inf, caller)
        for name, a, b in zip(self._element_names(), low, high):
            if a == b:  # SciPy refuses it too; a list of pairs would end here
                raise ValueError(f"{caller}: bounds are (lows, highs), and '{name}' would be held at {a:g}; "
                                 f"fix it on purpose with bounds={{'{name}': ({a:g}, {b:g})}}")
        return self._ordered(low, high, caller)

    def pairs(self, bounds: Any, caller: str) -> tuple[Any, Any]:
        """Bounds of every element as SciPy's minimize takes them: a pair (low, high) for each element; one of numbers is for all."""
        if bounds is None or hasattr(bounds, "lb") or isinstance(bounds, dict):
            return self._explicit(bounds, caller)
        given, total = list(bounds), sum(self.sizes)
        if len(given) == 2 and all(_is_number(b) for b in given):
            return self._ordered([_number(given[0], -inf)] * total, [_number(given[1], inf)] * total, caller)
        if len(given) != total:
            raise ValueError(f"{caller}: bounds are a pair (low, high) for each of {total} elements, or one for all, not {len(given)} "
                             "entries; (lows, highs) are given as {name: (lows, highs)} or as scipy.optimize.Bounds")
        low, high = [], []
        for name, pair in zip(self._element_names(), given):
            ends = [pair] if _is_number(pair) else list(pair)
            if len(ends) != 2 or not all(_is_number(v) for v in ends):
                raise ValueError(f"{caller}: bounds of '{name}' are a pair (low, high), not {pair!r}")
            low.append(_number(ends[0], -inf))
            high.append(_number(ends[1], inf))
        return self._ordered(low, high, caller)

    def _explicit(self, bounds: Any, caller: str) -> tuple[Any, Any]:
        """Nothing, scipy.optimize.Bounds (known by its lb and ub), or {name: (low, high)}."""
        if bounds is None:
            return None, None
        if not isinstance(bounds, dict):
            return self._ordered(self._spread(bounds.lb, -inf, caller), self._spread(bounds.ub, inf, caller), caller)
        unknown = [n for n in bounds if n not in self.names]
        if unknown:
            raise KeyError(f"{caller}: bounds: there is no parameter '{unknown[0]}'")
        low: list[float] = []
        high: list[float] = []
        for name, size in zip(self.names, self.sizes):
            pair = list(bounds.get(name, (None, None)))
            if len(pair) != 2:
                raise ValueError(f"{caller}: bounds of '{name}' are a pair (low, high), not {bounds[name]!r}")
            low += _spread(pair[0], size, -inf, caller)
            high += _spread(pair[1], size, inf, caller)
        return self._ordered(low, high, caller)

    def _spread(self, value: Any, otherwise: float, caller: str) -> list[float]:
        return _spread(value, sum(self.sizes), otherwise, caller)

    def _element_names(self) -> list[str]:
        return [name if size == 1 else f"{name}[{i}]" for name, size in zip(self.names, self.sizes) for i in range(size)]

    def _ordered(self, low: list[float], high: list[float], caller: str) -> tuple[Any, Any]:
        for name, a, b in zip(self._element_names(), low, high):
            if not a <= b or a == inf or b == -inf:  # a number that is none is in no order
                raise ValueError(f"{caller}: bounds of '{name}' are {a:g} and {b:g}: no number is between them")
        return low, high


def _is_number(v: Any) -> bool:
    """None, or anything that float() takes and that has no elements to look at."""
    return v is None or (hasattr(v, "__float__") and not getattr(v, "shape", ()))


def _number(value: Any, otherwise: float) -> float:
    return otherwise if value is None else float(value)


def _spread(value: Any, count: int, otherwise: float, caller: str) -> list[float]:
    """A number for all, or one for each of `count` elements."""
    if _is_number(value):
        return [_number(value, otherwise)] * count
    flat = _flat(value, otherwise)
    if len(flat) == 1:
        return flat * count
    if len(flat) != count:
        raise ValueError(f"{caller}: bounds: {len(flat)} numbers for {count} elements")
    return flat


def _flat(value: Any, otherwise: float) -> list[float]:
    if isinstance(value, (list, tuple)):
        return [x for v in value for x in ([_number(v, otherwise)] if _is_number(v) else _flat(v, otherwise))]
    found: list[float] = tensor(value).to("f64").reshape(-1).tolist()
    return found


def _as_tensor(value: Any) -> Any:
    return value.value if hasattr(value, "_reference") else value


def _multipliers(point: _Point, r: dict[str, Any], shaped: Callable[[list[Tensor]], Any]) -> dict[str, Any]:
    """What the result says of them, by what they are of."""
    out: dict[str, Any] = {"multipliers": None, "bound_multipliers": None, "active": None}
    found, bounds, equals = r["multipliers"], r["bound_multipliers"], r["equals"]
    if found is not None:
        out["multipliers"] = {"equal": found[:equals], "below": found[equals:]}
        out["active"] = {"below": found[equals:] > 1e-6}
    if bounds is not None:
        parts, at = [], 0
        for t, size in zip(point.tensors, point.sizes):
            parts.append(bounds[at:at + size].reshape(t.shape))
            at += size
        out["bound_multipliers"] = shaped(parts)
        out["active"] = {**(out["active"] or {}), "bounds": shaped([p.abs() > 0 for p in parts])}
    return out


def _told(message: str, why: str | None) -> str:
    return f"{message}; derivatives by differences: {why}" if why else message


# ---- fits ----

class CurveFit(Result):
    """The result of curve_fit; unpacks and indexes like SciPy's: popt, pcov = curve_fit(...), curve_fit(...)[0].

    popt, pcov      the parameters and their covariance
    names, params   the names of the parameters, and a dict of them
    stderr          standard errors
    rss, sigma      sum of squared residuals, and their standard deviation
    dof, rank       degrees of freedom, and how many parameters the data determine
    r2              share of the variance that is explained
    success         has it converged, with all parameters determined?
    message, stop   the reason for stopping, as text and as a name
    derivatives     "operators", "jac", or "differences" where f is a function of numbers; message says why
    nit, nfev       steps and evaluations"""

    if TYPE_CHECKING:
        popt: Any
        pcov: Any
        names: list[str]
        params: dict[str, float]
        stderr: Any
        rss: float
        sigma: float
        dof: int
        rank: int
        r2: float

    def __iter__(self) -> Iterator[Any]:  # popt, pcov
        return iter((self["popt"], self["pcov"]))

    def __len__(self) -> int:
        return 2

    def __getitem__(self, key: Any) -> Any:  # [0], [1] and slices, and the entries by name
        return super().__getitem__(key) if isinstance(key, str) else (self["popt"], self["pcov"])[key]

    def _errors(self) -> list[float]:
        """NaN each where the fit came to none."""
        found: list[float] = [float("nan")] * len(self["names"]) if self["stderr"] is None else self["stderr"].tolist()
        return found

    def __repr__(self) -> str:
        lines = [f"{'parameter':<16}{'value':>16}{'std. error':>16}"]
        for name, value, error in zip(self["names"], self["popt"].tolist(), self._errors()):
            lines.append(f"{name:<16}{value:>16.8g}{error:>16.4g}")
        lines.append(f"residual standard deviation {self['sigma']:.6g} with {self['dof']} degrees of freedom")
        return "\n".join(lines + [f"{self['nit']} steps, {self['nfev']} evaluations: {self['message']}"])

    def _repr_html_(self) -> str:
        import html

        rows = "".join(f"<tr><td>{html.escape(n)}</td><td>{v:.8g}</td><td>{e:.4g}</td></tr>" for n, v, e in
                       zip(self["names"], self["popt"].tolist(), self._errors()))
        return f"<table><tr><th>parameter</th><th>value</th><th>std. error</th></tr>{rows}</table>"


def _parameter_names(f: Callable[..., Any], given: Any) -> list[str]:
    import inspect

    parameters = list(inspect.signature(f).parameters.values())
    if not parameters or parameters[0].kind != inspect.Parameter.VAR_POSITIONAL:  # f(*args) takes x there too
        parameters = parameters[1:]
    names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if given is None:
        if not names or len(names) != len(parameters):
            raise ValueError("curve_fit: p0 is needed where the function does not name its parameters")
        return names
    needed = sum(p.default is p.empty for p in parameters if p.name in names)
    if not any(p.kind == p.VAR_POSITIONAL for p in parameters) and not needed <= given <= len(names):
        raise ValueError(f"curve_fit: p0 has {given} numbers, the function takes {len(names)}: {', '.join(names)}")
    return names[:given] if given <= len(names) else [f"p{i}" for i in range(given)]


def _check_finite(what: str, t: Tensor) -> None:
    if not t.isfinite().all().item():
        raise ValueError(f"curve_fit: {what} has numbers that are not finite")


def _inside(low: float, high: float) -> float:
    """Where a parameter with bounds starts: in the middle, 1 from its only bound, or at 1 where it has none."""
    if low == -inf and high == inf:
        return 1.0
    return (low + high) / 2 if high - low < inf else low + 1 if low > -inf else high - 1


def _deviations(sigma: Any, y: Tensor) -> Tensor:
    error = tensor(sigma).to("f64")
    if error.ndim == 2 and y.ndim == 1 and error.shape == (y.size, y.size) and y.size > 1:
        try:
            return _core.solve(_core.cholesky(error), _core._eye(y.size, y.size, "f64"))  # whitens residuals
        except _core.Error as why:
            raise ValueError(f"curve_fit: sigma as a covariance must be positive definite: {why}") from None
    if error.size != 1 and error.shape != y.shape:
        raise ValueError(f"curve_fit: sigma has the shape {error.shape}, ydata {y.shape}: a standard deviation for each point, or one for all, "
                         "or the covariance of the points")
    if not (error > 0).all().item() or not error.isfinite().all().item():
        raise ValueError("curve_fit: sigma must be finite and above 0")
    return error if error.shape == y.shape else error.reshape(())


def _weighted(r: Tensor, error: Tensor | None) -> Tensor:
    return r if error is None else error @ r if error.ndim == 2 and r.ndim == 1 else r / error


def curve_fit(f: Callable[..., Any], xdata: Any, ydata: Any, p0: Any = None, sigma: Any = None, absolute_sigma: bool = False,
              check_finite: bool | None = None, bounds: Any = None, method: str | None = None, jac: Any = None, *, full_output: bool = False,
              nan_policy: str | None = None, loss: str = "squares", loss_scale: float = 0.0, max_steps: int = 1000,
              max_evals: int | None = None, max_seconds: float | None = None, maxfev: int | None = None, max_nfev: int | None = None,
              ftol: float | None = None, xtol: float | None = None, gtol: float | None = None,
              callback: Callable[[dict[str, Any]], Any] | None = None, jit: bool = False) -> CurveFit:
    """Fits f(x, a, b, ...) to data by nonlinear least squares.  The arguments are those of scipy.optimize.curve_fit.

    p0        starting values of the parameters; if not given, 1, or the middle of the parameter's bounds
    sigma     standard deviations of ydata, or their covariance; absolute_sigma: not only their ratios
    bounds    (lows, highs), each a number for all or one for each parameter; {name: (low, high)}; an object of scipy.optimize.Bounds
    jac       derivatives of f by the parameters, [points, parameters]: jac(x, a, b, ...)
    method    "lm", "trf" and "dogbox" are one here, see least_squares
    nan_policy   "raise", or "omit": points with NaN in ydata are left out
    loss      squares, huber, soft_l1, cauchy or tukey; loss_scale: 0 estimates the scale
    max_steps, max_evals, max_seconds   limits of the whole call, even if a loss needs several fits to find its scale
    callback  is given the progress after each step, a dict
    jit       f is recorded and replayed, see gradus.jit: it must do the same each time

    f gets tensors first, and exact Jacobians come from its operators; a function of numbers gets arrays, and differences or jac.

    Gives popt and pcov, arrays where the data are lists or arrays, and by name stderr, sigma, rss, dof, r2, names, success, message, nit,
    nfev; with full_output popt, pcov, infodict, message, ier as SciPy does."""
    from ._minimize import STATUS, _kind, _run
    from ._numbers import STEPS, Function, numpy_or_none

    if method not in (None, "lm", "trf", "dogbox"):
        raise ValueError(f"curve_fit: method is 'lm', 'trf' or 'dogbox', not {method!r}")
    if nan_policy not in (None, "raise", "omit"):
        raise ValueError(f"curve_fit: nan_policy is 'raise' or 'omit', not {nan_policy!r}")
    if jac is not None and not callable(jac) and jac not in STEPS:
        raise ValueError(f"curve_fit: jac is a function, {', '.join(map(repr, STEPS))} or None, not {jac!r}")
    np = numpy_or_none()
    as_tensors = isinstance(ydata, (Tensor, _core._Virtual)) or np is None
    raw = tuple(xdata) if isinstance(xdata, tuple) else xdata
    x = tuple(tensor(part).to("f64") for part in raw) if isinstance(raw, tuple) else tensor(raw).to("f64")
    y = tensor(ydata).to("f64")
    weights = None if sigma is None else _deviations(sigma, y)
    if nan_policy == "omit":
        keep = (y == y).reshape(-1)  # not NaN
        y = y.reshape(-1)[keep]
        x = tuple(part[keep] for part in x) if isinstance(x, tuple) else x[..., keep]
        weights = weights[keep] if weights is not None and weights.ndim == 1 else weights
    if check_finite is not False:
        _check_finite("ydata", y)
        for part in x if isinstance(x, tuple) else (x,):
            _check_finite("xdata", part)
    start = None if p0 is None else [float(p0)] if isinstance(p0, (int, float)) else [float(v) for v in p0]
    names = _parameter_names(f, None if start is None else len(start))
    point = _Point({name: value for name, value in zip(names, start or [1.0] * len(names))}, "f64")
    low, high = point.lows_and_highs(bounds, "curve_fit")
    if start is None and low is not None:
        for t, a, b in zip(point.tensors, low, high):
            t.assign(_inside(a, b))
    params = tuple(point.tensors)
    plain_x: Any = None if np is None else tuple(np.array(p.tolist()) for p in x) if isinstance(x, tuple) else np.array(x.tolist())

    def residuals(given: list[Any]) -> Any:
        made = _as_tensor(f(x if not given or isinstance(given[0], Tensor) else plain_x, *given))
        if not isinstance(made, Tensor):  # a function of numbers
            if _core.grad_enabled():
                return made
            made = tensor(made)
        made = made.to("f64")
        r = made - y
        if r.shape != y.shape:  # broadcasting would compare each point with all others
            raise ValueError(f"curve_fit: the function gives the shape {made.shape}, ydata has {y.shape}")
        return _weighted(r, weights)

    def slopes(given: list[Any]) -> Any:
        found = tensor(jac(x if not given or isinstance(given[0], Tensor) else plain_x, *given)).to("f64").detach()
        if found.shape != (y.size, len(params)):
            raise ValueError(f"curve_fit: jac gives the shape {found.shape}, ({y.size}, {len(params)}) is needed: points by parameters")
        return found if weights is None else weights @ found if weights.ndim == 2 else found / (
            weights.reshape(-1, 1) if weights.ndim else weights)
    model = Function("curve_fit", list(params), residuals, np is not None, jac=slopes if callable(jac) else jac, low=low, high=high)
    options: dict[str, Any] = {"max_steps": max_steps, "max_evals": max_nfev or maxfev or max_evals, "max_seconds": max_seconds, "loss": loss,
                               "loss_scale": loss_scale, "sigma": 1.0 if absolute_sigma else 0.0}
    options.update({k: v for k, v in (("loss_tol", ftol), ("step_tol", xtol), ("gradient_tol", gtol)) if v is not None})
    begin = [p.detach().copy() for p in params]
    if jit:
        model.record()
    r = _run(lambda: _core._least_squares(params, model, low, high, tuple(names), callback, options), [model], list(params), begin)
    derivatives, why = _kind([model])
    popt = _core.stack([p.detach() for p in params])
    mean = y.mean().item()
    total = _weighted(y - mean, weights).square().sum().item()

    def shown(t: Any) -> Any:
        return t if as_tensors or t is None else np.array(t.tolist())
    fitted = CurveFit(popt=shown(popt), pcov=shown(r["covariance"]), stderr=shown(r["standard_errors"]), names=names, rss=r["rss"], sigma=r["sigma"],
                      dof=r["dof"], r2=1 - r["rss"] / total if total > 0 else nan, success=r["success"],
                      message=_told(r["says"] or r["message"], why if derivatives == "differences" else None), derivatives=derivatives,
                      stop=r["stop"], nit=r["steps"], nfev=model.calls if model.numbers else r["evals"], rank=r["rank"],
                      params=dict(zip(names, popt.tolist())))
    if full_output:
        with _core_no_grad():
            ier = 1 if r["success"] else 5 if STATUS.get(r["stop"]) == 1 else 4
            return (fitted.popt, fitted.pcov, {"nfev": fitted.nfev, "fvec": shown(model().reshape(-1))}, fitted.message, ier)  # type: ignore[return-value]
    return fitted


def _core_no_grad() -> Any:
    from ._tensor import no_grad

    return no_grad()
