"""minimize, curve_fit and fit: whole runs in one call."""
from __future__ import annotations

from functools import partial
from math import inf, log2, nan
from time import monotonic

from . import _core
from ._core import Tensor
from ._links import definitions, known_in
from ._tensor import no_grad, tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Iterator


class Result(dict):  # type: ignore[type-arg]
    """What minimize found: a dict whose entries are attributes too, as SciPy's results are.

    x              the best point: a tensor, or tensors as they were given
    fun            the loss there
    success        was a minimum reached?
    message, stop  why it stopped, in words and as a name
    derivatives    "operators"; where fun is one of numbers "differences", and message says why, or "values" if the chain takes those
    nit, nfev      steps and evaluations
    gradient_norm  the largest element of the gradient, with bounds or constraints of the KKT residual
    violation      the largest violation of a constraint
    multipliers    of constraints, {"equal": ..., "below": ...}: the gradient of fun is minus their sum with the gradients of the
                   constraints, plus bound_multipliers; None where the chain knows none
    bound_multipliers  of bounds, in the form of x: > 0 at a low bound that holds, < 0 at a high one, else 0; None as above
    active         which elements of below hold, {"below": ...}, and of x, {"bounds": ...}: their multipliers are not 0
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
        multipliers: dict[str, Tensor] | None
        bound_multipliers: Any
        active: Any
        constraint_evals: int
        seconds: float

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"the result has no '{name}': it has {', '.join(self.keys())}") from None

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self.keys()]

    def __repr__(self) -> str:
        width = max(map(len, self.keys()), default=0)
        return "\n".join(f"{key:>{width}}: {value!r}" for key, value in self.items())


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
                raise ValueError(f"{caller}: bounds of '{name}' are {a:g} and {b:g}: nothing lies between them")
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


class _Differences:
    """A function of numbers as one of operators: r + J (x - here), with J by central differences, inside bounds."""

    def __init__(self, params: list[Tensor], low: Any, high: Any, call: Callable[[list[Tensor]], Callable[[], Any]]) -> None:
        self.params, self.low, self.high = params, low, high
        self.held = [p.detach().copy() for p in params]  # what the function gets
        self.fn = call(self.held)
        self.calls = 0  # beside one an evaluation

    def value_at(self, x: list[list[float]]) -> Tensor:
        for t, values in zip(self.held, x):
            t.assign(tensor(values, dtype="f64").to(t.dtype).reshape(t.shape))
        self.calls += 1
        with no_grad():
            value = self.fn()
            return (value if isinstance(value, Tensor) else tensor(value)).detach().to("f64").copy()

    def __call__(self) -> Tensor:
        x = [p.detach().reshape(-1).to("f64").tolist() for p in self.params]
        r = self.value_at(x)
        self.calls -= 1
        if not _core.grad_enabled():
            return r
        eps = 2**-23 if any(p.dtype == "f32" for p in self.params) else 2**-52
        slopes, k = [], 0
        for values in x:
            for i, here in enumerate(values):
                ends = (-inf, inf) if self.low is None else (self.low[k], self.high[k])
                weights = _difference(here, eps, *ends)
                total = r * 0
                for at, weight in weights:
                    values[i] = at
                    total = total + weight * (r if at == here else self.value_at(x))
                values[i] = here
                slopes.append(total.reshape(-1))
                k += 1
        moved = _core.cat([(p - p.detach()).reshape(-1).to("f64") for p in self.params], 0)
        linear: Tensor = r + (moved @ _core.stack(slopes)).reshape(r.shape)
        return linear


def _difference(x: float, eps: float, low: float, high: float) -> list[tuple[float, float]]:
    """Points and weights of a slope of second order at x: central, or to the side where there is room."""
    h: float = 2.0 ** round(log2(eps ** (1 / 3) * max(abs(x), 1.0)))
    if low <= x - h and x + h <= high:
        return [(x - h, -1 / (2 * h)), (x + h, 1 / (2 * h))]
    room = max(high - x, x - low)
    if room <= 0:  # held
        return []
    h = min(h, room / 2) * (1 if high - x >= x - low else -1)
    return [(x, -3 / (2 * h)), (x + h, 4 / (2 * h)), (x + 2 * h, -1 / (2 * h))]


def _multipliers(point: _Point, r: dict[str, Any]) -> dict[str, Any]:
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
        out["bound_multipliers"] = point.shaped(parts)
        out["active"] = {**(out["active"] or {}), "bounds": point.shaped([p.abs() > 0 for p in parts])}
    return out


def minimize(fun: Callable[..., Tensor], x0: Any, chain: Any = None, *, args: Any = (),
             bounds: Any = None, equal: Callable[..., Tensor] | None = None, below: Callable[..., Tensor] | None = None,
             callback: Callable[[dict[str, Any]], Any] | None = None, dtype: str | None = None, max_steps: int = 1000,
             max_evals: int | None = None, max_seconds: float | None = None, gradient_tol: float | None = None,
             step_tol: float | None = None, loss_tol: float | None = None, patience: int | None = None,
             noisy: bool = False, plain: bool = False, curvature_products: int | None = None) -> Result:
    """Minimises fun, a function made of operators, from x0.

    x0       a tensor, array, list or number: fun(x); a tuple of them: fun(x, y, ...); a dict: fun(**x)
    args     what fun is given besides, a tuple or one thing
    chain    links: "lbfgs | strong_wolfe", m.newton() | m.backtracking(), "cma_es", ...; None: "lbfgs | strong_wolfe", with constraints
             "nlp", which needs second derivatives (beyond 2000 elements and constraints, or with noisy, augmented_lagrangian)
    bounds   a pair (low, high) for each element, or one for all; {name: (lows, highs)}; an object of scipy.optimize.Bounds.  None and
             infinities are no bounds
    equal, below   constraints, functions that are to be 0, and to be at most 0
    callback is given the progress after each step; it stops the run by returning True or raising StopIteration

    curvature_products   products with the Hessian, at most, to tell a minimum from a saddle where the gradient vanishes: a run that
             ends on one has success False, stop "SADDLE".  0: do not look; None: 30, fewer after short runs of many numbers

    A vector of more than one element counts as residuals: the sum of their squares is minimised.  Where fun returns a number, or
    reads a value of its arguments on the host (float(x[0]), math.sin(x[1]), np.asarray(x)), no gradient flows through that: it is then
    one of numbers, its derivatives are differences, and the result's derivatives and message say so.  detach() of a value that is only
    looked at leaves them to the operators.  The result has x, fun, success,
    message, stop, nit, nfev, constraint_evals (points at which the constraints were computed), gradient_norm, violation, seconds.
    x is the best point that was evaluated.  Ctrl-C, and what fun raises, comes out of here."""
    point = _Point(x0, dtype)
    args = args if isinstance(args, tuple) else (args,)
    low, high = point.pairs(bounds, "minimize")
    text = by_value = "lbfgs | strong_wolfe" if chain is None else str(chain)
    if definitions:
        known_in(point.tensors[0].context)
    if (equal or below) and chain is None:
        text, by_value = "", 'nlp(hessian="bfgs")'
    elif (equal or below) and "augmented_lagrangian" not in text and "nlp" not in text:
        text = _core._link_text("augmented_lagrangian", (("inner", (text,)),), {})
        by_value = _core._link_text("augmented_lagrangian", (("inner", (f"fdm | {by_value}",)),), {})
    options = {"max_steps": max_steps, "max_evals": max_evals, "max_seconds": max_seconds, "gradient_tol": gradient_tol,
               "step_tol": step_tol, "loss_tol": loss_tol, "patience": patience, "noisy": noisy, "plain": plain,
               "curvature_products": curvature_products}
    if dtype == "f32" or any(t.dtype == "f32" for t in point.tensors):
        options["gradient_tol"] = 1e-4 if gradient_tol is None else gradient_tol

    def solve(chain: str, functions: list[Any], values: bool = False) -> dict[str, Any]:
        return _core._minimize(tuple(point.tensors), functions[0], chain, low, high, functions[1], functions[2], callback, options, values)

    functions = [fun, equal, below]
    start, began = [t.detach().copy() for t in point.tensors], monotonic()
    r = solve(text, [f and point.call(f, args) for f in functions])
    why, calls, derivatives = r.get("numbers"), r.get("calls", 0), "operators"
    if why:
        for t, value in zip(point.tensors, start):
            t.assign(value)
        if max_seconds:
            options["max_seconds"] = max(max_seconds - (monotonic() - began), 1e-3)
        linear = [f and _Differences(point.tensors, low, high, partial(point.call, f, args)) for f in functions]
        loss = linear[0]
        assert loss
        if equal or below or loss.value_at([t.reshape(-1).to("f64").tolist() for t in start]).size > 1:  # or residuals
            r, derivatives = solve(by_value, linear), "differences"
        else:
            r, derivatives = _of_values(solve, text, point.call(fun, args), why)
        calls += loss.calls
    return Result(x=point.value(), fun=r["loss"], success=r["success"], stop=r["stop"], derivatives=derivatives,
                  message=_told(r["message"], why if derivatives == "differences" else None), nit=r["steps"], nfev=r["evals"] + calls,
                  constraint_evals=r["constraint_evals"], **_multipliers(point, r), gradient_norm=r["gradient_norm"], violation=r["violation"], seconds=r["seconds"])


def _of_values(solve: Callable[..., dict[str, Any]], chain: str, fun: Callable[[], Any], why: str) -> tuple[dict[str, Any], str]:
    """A chain that asks for values only, or takes its own differences, as it is; else behind differences."""
    functions = [fun, None, None]
    try:
        return solve(chain, functions, True), "values"
    except _core.UnsupportedError as first:
        try:
            return solve(f"fdm | {chain}", functions, True), "differences"
        except _core.UnsupportedError:
            raise _core.UnsupportedError(f"{first}; {why}") from None


def _told(message: str, why: str | None) -> str:
    return f"{message}; derivatives by differences: {why}" if why else message


# ---- fits ----

class CurveFit(Result):
    """What curve_fit found; unpacks and indexes as SciPy's does: popt, pcov = curve_fit(...), curve_fit(...)[0].

    popt, pcov      the parameters and their covariance
    names, params   the names of the parameters, and a dict of them
    stderr          standard errors
    rss, sigma      sum of squared residuals, and their standard deviation
    dof, rank       degrees of freedom, and how many parameters the data determine
    r2              share of the variance that is explained
    success         has it converged, with all parameters determined?
    message, stop   why it stopped, in words and as a name
    derivatives     "operators", or "differences" where f is a function of numbers; message says why
    nit, nfev       steps and evaluations"""

    if TYPE_CHECKING:
        popt: Tensor
        pcov: Tensor
        names: list[str]
        params: dict[str, float]
        stderr: Tensor | None
        rss: float
        sigma: float
        dof: int
        rank: int
        r2: float

    def __iter__(self) -> Iterator[Tensor]:  # popt, pcov
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
    if error.size != 1 and error.shape != y.shape:
        raise ValueError(f"curve_fit: sigma has the shape {error.shape}, ydata {y.shape}: a standard deviation for each point, or one for all")
    if not (error > 0).all().item() or not error.isfinite().all().item():
        raise ValueError("curve_fit: sigma must be finite and above 0")
    return error if error.shape == y.shape else error.reshape(())


def curve_fit(f: Callable[..., Tensor], xdata: Any, ydata: Any, p0: Any = None, sigma: Any = None, absolute_sigma: bool = False,
              bounds: Any = None, *, loss: str = "squares", loss_scale: float = 0.0, max_steps: int = 1000,
              max_evals: int | None = None, max_seconds: float | None = None,
              callback: Callable[[dict[str, Any]], Any] | None = None) -> CurveFit:
    """Fits f(x, a, b, ...), made of operators, to data by nonlinear least squares with exact Jacobians.

    p0        where the parameters start, a number each; if not given, 1, or the middle of the parameter's bounds
    sigma     standard deviations of ydata; absolute_sigma: not only their ratios
    bounds    (lows, highs), each a number for all or one for each parameter; {name: (low, high)}; an object of scipy.optimize.Bounds
    loss      squares, huber, soft_l1, cauchy or tukey: what outliers cost; loss_scale: 0 finds the scale
    max_steps, max_evals, max_seconds   limits of the whole call, also where a loss takes several fits to find its scale

    Gives popt and pcov, and by name stderr, sigma, rss, dof, r2, names, success, message, nit, nfev."""
    x = tuple(tensor(part).to("f64") for part in xdata) if isinstance(xdata, tuple) else tensor(xdata).to("f64")
    y = tensor(ydata).to("f64")
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
    error = None if sigma is None else _deviations(sigma, y)
    params = tuple(point.tensors)

    def residuals(at: Any = params) -> Any:
        made = _as_tensor(f(x, *at))
        if not isinstance(made, Tensor):  # a function of numbers
            if _core.grad_enabled():
                return made
            made = tensor(made).to("f64")
        r = made - y
        if r.shape != y.shape:  # broadcasting would compare each point with all others
            raise ValueError(f"curve_fit: the function gives the shape {made.shape}, ydata has {y.shape}")
        return r if error is None else r / error

    options = {"max_steps": max_steps, "max_evals": max_evals, "max_seconds": max_seconds, "loss": loss, "loss_scale": loss_scale, "sigma": 1.0 if absolute_sigma else 0.0}
    begin, began = [p.detach().copy() for p in params], monotonic()
    r = _core._least_squares(params, residuals, low, high, tuple(names), callback, options)
    why, calls = r.get("numbers"), r.get("calls", 0)
    if why:
        for p, value in zip(params, begin):
            p.assign(value)
        if max_seconds:
            options["max_seconds"] = max(max_seconds - (monotonic() - began), 1e-3)
        alike = _Differences(list(params), low, high, lambda held: lambda: residuals(held))
        r = _core._least_squares(params, alike, low, high, tuple(names), callback, options)
    popt = _core.stack([p.detach() for p in params])
    mean = y.mean().item()
    total = ((y - mean) if error is None else (y - mean) / error).square().sum().item()
    return CurveFit(popt=popt, pcov=r["covariance"], stderr=r["standard_errors"], names=names, rss=r["rss"], sigma=r["sigma"],
                    dof=r["dof"], r2=1 - r["rss"] / total if total > 0 else nan, success=r["success"],
                    message=_told(r["says"] or r["message"], why), derivatives="differences" if why else "operators",
                    stop=r["stop"], nit=r["steps"], nfev=r["evals"] + calls + (alike.calls if why else 0), rank=r["rank"],
                    params=dict(zip(names, popt.tolist())))
