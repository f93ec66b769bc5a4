"""minimize and least_squares: SciPy's calls as they are, and chains."""
from __future__ import annotations

import functools
from math import inf, isfinite

from . import _core
from ._core import Tensor
from ._evaluate import Evaluation
from ._links import definitions, known_in
from ._numbers import STEPS, Function, f64, joined, numpy_or_none
from ._optim import Chain
from ._solve import Result, _multipliers, _Point
from ._tensor import enable_grad, no_grad, tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Iterable, Sequence, TypeVar

    F = TypeVar("F", bound=Callable[..., Any])

# scipy.optimize's methods as chains: the advice of `gradus minimize --chain NAME` (src/optim/chain/elsewhere.def).  "": the default
# for the problem, nlp where there are constraints.
METHODS = {
    "nelder-mead": "nelder_mead", "powell": "nelder_mead", "cg": "polak_ribiere | strong_wolfe(c2=0.1)", "bfgs": "bfgs | strong_wolfe",
    "newton-cg": "newton_cg | strong_wolfe", "l-bfgs-b": "lbfgs | strong_wolfe", "tnc": "newton_cg | strong_wolfe", "cobyla": "nelder_mead",
    "cobyqa": "nelder_mead", "slsqp": "lbfgs | strong_wolfe", "trust-constr": "lbfgs | strong_wolfe", "trust-ncg": "trust_cg(newton)",
    "trust-krylov": "trust_cg(newton)", "trust-exact": "levenberg_marquardt(newton)", "dogleg": "dogleg(newton)",
}
FOR_CONSTRAINTS = ("cobyla", "cobyqa", "slsqp", "trust-constr")
OF_VALUES = ("nelder-mead", "powell", "cobyla", "cobyqa")
REPLACED = ("powell", "cobyla", "cobyqa")  # nothing like them is here


def warn(text: str, level: int = 5) -> None:
    """At the line that called minimize, or with level 3 least_squares."""
    import warnings

    warnings.warn(text, _core.GradusWarning, stacklevel=level)


# ---- the start ----

def _fits(fun: Callable[..., Any], count: int) -> bool:
    """Can it be called with that many arguments by position?"""
    import inspect

    try:
        inspect.signature(fun).bind(*([None] * count))
    except TypeError:
        return False
    except ValueError:  # of C
        return True
    return True


def _start(fun: Callable[..., Any], x0: Any, args: tuple[Any, ...], dtype: Any) -> tuple[_Point, bool]:
    """x0 as parameters; is it numbers, which SciPy would make an array of?"""
    numbers = isinstance(x0, (list, int, float)) or hasattr(x0, "__array_interface__")
    if isinstance(x0, tuple) and all(isinstance(v, (int, float)) for v in x0) and not _fits(fun, len(x0) + len(args)):
        x0, numbers = list(x0), True
    if isinstance(x0, list) and any(isinstance(v, Tensor) for v in x0):
        numbers = False
    if numbers and dtype is None:
        dtype = "f64"  # as in SciPy
    return _Point(x0, dtype), numbers


class _Problem:
    """Parameters, and functions of them in the form the user has them in."""

    def __init__(self, what: str, fun: Callable[..., Any], x0: Any, args: tuple[Any, ...], dtype: Any) -> None:
        self.what, self.args = what, args
        self.point, self.numbers = _start(fun, x0, args, dtype)
        self.arrays = self.numbers or all(self.point.arrays)
        self.low: Any = None
        self.high: Any = None

    def function(self, fun: Callable[..., Any], args: tuple[Any, ...], what: str, **how: Any) -> Function:
        point = self.point

        def called(of: Callable[..., Any]) -> Callable[..., Any]:
            def call(given: list[Any], *more: Any) -> Any:
                if point.form == "dict":
                    return of(**dict(zip(point.names, given)), **({"args": args} if args else {}))
                return of(*given, *more, *args)
            return call
        for name in ("jac", "hess", "hessp"):
            if callable(how.get(name)):
                how[name] = called(how[name])
        made = Function(what, point.tensors, called(fun), self.arrays, low=self.low, high=self.high, **how)
        made.lift = self.numbers
        return made

    def shown(self, tensors: list[Tensor], of_numbers: bool = False) -> Any:
        """In the form of x0: arrays for lists and arrays, if there is NumPy."""
        np = numpy_or_none()
        if not self.numbers or np is None:
            return self.point.shaped(tensors)
        t = tensors[0]
        if t.ndim == 0 and not of_numbers:
            return t
        return np.array(t.tolist(), dtype=bool if str(t.dtype) == "bool" else float).reshape(t.shape if t.ndim else (1,))

    def here(self, of_numbers: bool = False) -> Any:
        return self.shown([t.detach().copy() for t in self.point.tensors], of_numbers)


# ---- constraints ----

class _Constraint:
    """One of the user's: which parts of its values are to be 0, and which at most 0."""

    def __init__(self, function: Function, low: list[float] | None = None, high: list[float] | None = None, kind: str = "") -> None:
        self.function, self.low, self.high, self.kind = function, low, high, kind
        self.seen: tuple[Any, Tensor] | None = None

    def _value(self) -> Tensor:
        return self.function().to("f64")

    def _ends(self, size: int) -> tuple[list[float], list[float]]:
        low, high = self.low or [-inf], self.high or [inf]
        low, high = (low * size if len(low) == 1 else low), (high * size if len(high) == 1 else high)
        if len(low) != size or len(high) != size:
            raise ValueError(f"{self.function.what}: {size} values with {len(low)} low and {len(high)} high limits")
        return low, high

    def _pick(self, v: Tensor, which: list[int], limits: list[float], sign: float) -> Tensor:
        return sign * (v.drop_names().reshape(-1)[which] - tensor([limits[i] for i in which]))

    def equal(self) -> Tensor | None:
        if self.kind == "ineq":
            return None
        v = self._value()
        if self.kind == "eq":
            return v
        low, high = self._ends(v.size)
        same = [i for i in range(v.size) if low[i] == high[i]]
        return self._pick(v, same, low, 1) if same else None

    def below(self) -> Tensor | None:
        if self.kind == "eq":
            return None
        v = self._value()
        if self.kind == "ineq":
            return -v
        low, high = self._ends(v.size)
        ups = [i for i in range(v.size) if high[i] < inf and low[i] != high[i]]
        downs = [i for i in range(v.size) if low[i] > -inf and low[i] != high[i]]
        parts = ([self._pick(v, ups, high, 1)] if ups else []) + ([self._pick(v, downs, low, -1)] if downs else [])
        return joined(parts) if parts else None


def _limits(value: Any) -> list[float]:
    return [float(value)] if isinstance(value, (int, float)) else [float(v) for v in f64(value).reshape(-1).tolist()]


def _constraint(problem: _Problem, given: Any) -> _Constraint:
    """A dict, a LinearConstraint (known by A, lb and ub) or a NonlinearConstraint (known by fun, lb and ub)."""
    if isinstance(given, dict):
        unknown = set(given) - {"type", "fun", "jac", "hess", "args"}
        if unknown or "fun" not in given or str(given.get("type")).lower() not in ("eq", "ineq"):
            raise ValueError(f"minimize: a constraint is a dict with type ('eq' or 'ineq'), fun, and maybe jac and args, not {given!r}")
        args = given.get("args", ())
        jac, hess = given.get("jac"), given.get("hess")
        _usable("a constraint", jac, hess)
        function = problem.function(given["fun"], args if isinstance(args, tuple) else (args,), "a constraint",
                                    jac=jac if callable(jac) or jac in STEPS else None, hess=hess if callable(hess) and callable(jac) else None)
        return _Constraint(function, kind=str(given["type"]).lower())
    if hasattr(given, "A") and hasattr(given, "lb") and hasattr(given, "ub"):
        matrix = f64(given.A.toarray() if hasattr(given.A, "toarray") else given.A)
        matrix = matrix.reshape(1, -1) if matrix.ndim < 2 else matrix
        function = problem.function(lambda *x: matrix @ joined([v.to("f64") for v in x]), (), "a linear constraint")
        return _Constraint(function, _limits(given.lb), _limits(given.ub))
    if hasattr(given, "fun") and hasattr(given, "lb") and hasattr(given, "ub"):
        jac, hess = getattr(given, "jac", None), getattr(given, "hess", None)
        _usable("a nonlinear constraint", jac, hess)
        function = problem.function(given.fun, (), "a nonlinear constraint", jac=jac if callable(jac) else None,
                                    hess=hess if callable(hess) and callable(jac) else None)
        return _Constraint(function, _limits(given.lb), _limits(given.ub))
    raise TypeError(f"minimize: a constraint is a dict, a LinearConstraint or a NonlinearConstraint, not {type(given).__name__}")


def _usable(what: str, jac: Any, hess: Any) -> None:
    """Warns of derivatives that have no effect."""
    if callable(hess) and not callable(jac):
        warn(f"minimize: hess of {what} is not used without jac", 6)
    elif hess is not None and not callable(hess) and hess not in STEPS and not hasattr(hess, "initialize"):
        raise ValueError(f"minimize: hess of {what} is a function hess(x, v), not {hess!r}")


def _together(problem: _Problem, constraints: list[_Constraint], equal: Any, below: Any) -> tuple[list[Function], Any, Any]:
    """All that is to be 0, and all that is to be at most 0, as one function each; None: nothing."""
    functions = [c.function for c in constraints]
    sides: list[list[Any]] = [[], []]
    for side, own in ((0, equal), (1, below)):
        if own is not None:
            functions.append(problem.function(own, problem.args, "equal" if side == 0 else "below"))
            sides[side].append(functions[-1])
    for c in constraints:
        with no_grad():
            here = problem.point.tensors[0]
            first = [c.equal(), c.below()] if here is not None else []
        c.function.probed = c.function.numbers  # nothing was known of operators without gradients
        for side, found in enumerate(first):
            if found is not None:
                sides[side].append(c.equal if side == 0 else c.below)

    def whole(parts: list[Any]) -> Any:
        if not parts:
            return None
        return parts[0] if len(parts) == 1 else lambda: joined([p().to("f64") for p in parts])
    return functions, whole(sides[0]), whole(sides[1])


# ---- settings of SciPy ----

OPTIONS = {"maxiter": "max_steps", "maxfev": "max_evals", "maxfun": "max_evals", "gtol": "gradient_tol", "ftol": "loss_tol", "xtol": "step_tol",
           "fatol": "loss_tol", "xatol": "step_tol", "xrtol": "step_tol"}
STEP_OPTIONS = ("eps", "finite_diff_rel_step")
HARMLESS = ("disp", "iprint", "verbose", "workers")  # what they show is in the result


def _options(given: Any, settings: dict[str, Any], chain: str, tol: Any) -> tuple[str, float | None, bool]:
    """Options of SciPy's methods: settings of the run, the step of differences, and is the end to be shown?"""
    step, show = None, False
    simplex: dict[str, Any] = {}
    for key, value in dict(given or {}).items():
        if key in OPTIONS:
            if chain.startswith("nelder_mead") and key in ("xatol", "fatol"):
                simplex["tol"] = min(float(value), simplex.get("tol", inf))
            elif value is not None:
                settings[OPTIONS[key]] = value
        elif key in STEP_OPTIONS:
            step = float(value) if isinstance(value, (int, float)) else None
            if value is not None and step is None:
                warn(f"minimize: option '{key}' of several numbers is not used")
        elif key in HARMLESS:
            show = show or bool(value) and key == "disp"
        elif key == "maxcor" and chain.startswith("lbfgs"):
            chain = chain.replace("lbfgs", f"lbfgs(history_size={int(value)})", 1)
        elif key == "adaptive" and chain.startswith("nelder_mead"):
            simplex["adaptive"] = bool(value)
        elif key in settings:
            settings[key] = value
        else:
            warn(f"minimize: unknown option '{key}': it is not used")
    if tol is not None:
        if chain.startswith("nelder_mead"):
            simplex.setdefault("tol", float(tol))
        else:
            settings["gradient_tol"] = tol if settings["gradient_tol"] is None else settings["gradient_tol"]
    if simplex:
        text = _core._link_text("nelder_mead", tuple(simplex.items()), {})
        chain = chain.replace("nelder_mead", text, 1)
    return chain, step, show


def chain_of(method: Any, constrained: bool) -> str | None:
    """The chain of a method of SciPy; None: the default of the problem."""
    if method is None:
        return None
    if callable(method) and not isinstance(method, Chain):
        raise TypeError("minimize: method is a name or a chain; functions of one's own are links: gradus.link")
    text = str(method)
    known = METHODS.get(text.lower())
    if known is None:
        return text
    return None if constrained and text.lower() in FOR_CONSTRAINTS else known


def _callback(problem: _Problem, callback: Any) -> Any:
    """Called after each step: with intermediate_result, with progress, or with xk, by the name of its argument."""
    if callback is None:
        return None
    import inspect

    try:
        parameters = [p for p in inspect.signature(callback).parameters.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    except (TypeError, ValueError):
        parameters = []
    names = [p.name for p in parameters]
    if names == ["progress"]:
        return callback
    if names == ["intermediate_result"]:
        return lambda progress: callback(intermediate_result=Result(x=problem.here(), fun=progress["loss_after"] if isfinite(
            progress["loss_after"]) else progress["loss"], nit=progress["step"], nfev=progress["evals"]))
    if sum(p.default is p.empty for p in parameters) == 2:
        return lambda progress: callback(problem.here(), Result(x=problem.here(), fun=progress["loss"], **{
            "nit": progress["step"], "nfev": progress["evals"], "constr_violation": progress["violation"]}))
    return lambda progress: callback(problem.here())


STATUS = {"MAX_STEPS": 1, "MAX_EVALS": 1, "TIME": 1, "CALLER": 99}


# ---- minimize ----

def _third_is_chain(fn: F) -> F:
    """A text or Chain in third place is the chain, as in minimize(fun, x0, "adam | lr(0.1)")."""

    @functools.wraps(fn)
    def minimize(fun: Any, x0: Any, *given: Any, **settings: Any) -> Any:
        if isinstance(x0, dict) and hasattr(x0, "valuesdict"):
            from .models import minimize as of_parameters

            return of_parameters(fun, x0, *given, **settings)  # type: ignore[arg-type]
        if given and isinstance(given[0], (str, Chain)):
            if len(given) > 1:
                raise TypeError("minimize: after a chain in third place arguments are given by name")
            if settings.get("chain") is not None:
                raise TypeError("minimize: two chains were given")
            return fn(fun, x0, **{**settings, "chain": given[0]})
        return fn(fun, x0, *given, **settings)
    return minimize  # type: ignore[return-value]


@_third_is_chain
def minimize(fun: Callable[..., Any], x0: Any, args: Any = (), method: Any = None, jac: Any = None, hess: Any = None, hessp: Any = None,
             bounds: Any = None, constraints: Any = (), tol: float | None = None, callback: Callable[..., Any] | None = None,
             options: Any = None, *, chain: Any = None, equal: Callable[..., Any] | None = None, below: Callable[..., Any] | None = None,
             dtype: Any = None, max_steps: int = 1000, max_evals: int | None = None, max_seconds: float | None = None,
             gradient_tol: float | None = None, step_tol: float | None = None, loss_tol: float | None = None, patience: int | None = None,
             noisy: bool = False, plain: bool = False, curvature_products: int | None = None, jit: bool = False,
             evaluate: Any = None, sensitivities: bool = False) -> Result:
    """Minimises fun from x0.  The arguments are those of scipy.optimize.minimize; a text or Chain in third place is the chain.

    x0       Parameters: the call is lmfit's, see gradus.models.minimize; numbers, a list or an array: fun(x), and x of the result is an array; a tensor: fun(x); a tuple of tensors, lists or arrays, or
             of numbers if fun takes as many: fun(x, y, ...); a dict: fun(**x)
    args     further arguments of fun, a tuple or one object
    method   a name of scipy.optimize.minimize, which stands for a chain, or a chain
    jac      the gradient, a function; True: fun returns (value, gradient); "2-point", "3-point" or "cs": differences
    hess, hessp   the Hessian, or its product with a vector: hess(x, *args), hessp(x, v, *args).  They need jac
    bounds   a pair (low, high) for each element, or one for all; {name: (lows, highs)}; an object of scipy.optimize.Bounds.  None and
             infinities are no bounds
    constraints   dicts with type "eq" (fun is 0) or "ineq" (fun is at least 0), fun, jac, args; LinearConstraint, NonlinearConstraint of
             scipy.optimize; one or a list
    equal, below  constraints as functions that must be 0, and at most 0
    tol      gradient_tol, of nelder_mead its tol
    callback is called after each step with xk, or by the name of its only argument with intermediate_result, or progress, a dict.  It
             stops the run by returning True or raising StopIteration
    options  of SciPy's methods: maxiter, maxfev, gtol, ftol, xtol, eps, disp and others, or arguments from here.  Unknown ones warn
    chain    links: "lbfgs | strong_wolfe", m.newton() | m.backtracking(), ...; None: "lbfgs | strong_wolfe", with constraints
             "nlp", which needs second derivatives (beyond 2000 elements and constraints, or with noisy, augmented_lagrangian)
    jit      fun is recorded and replayed, see gradus.jit: it must do the same each time
    evaluate names of what fun computes in one call, a text or a sequence: "loss" or "residuals", and of gradient, equal, below,
             equal_jacobian, below_jacobian, hessian, residual_jacobian.  Then fun(x, request) returns a dict of the names in
             request.wanted (others are ignored); request.new_point is False if x is that of the call before; the Hessian is that of
             request.weight * loss + request.multipliers @ (equal, below).  Values without their derivative in the names are made of operators
    sensitivities   adds to the result how x moves per unit of b in equal = b and below <= b, {"equal": [rows, ...], "below": ...}

    curvature_products   products with the Hessian, at most, to distinguish a minimum from a saddle where the gradient vanishes: a run that
             ends on one has success False, stop "SADDLE".  0: no check; None: 30, fewer after short runs of many numbers

    fun is called with tensors first, unless jac is given.  Where it raises, returns a number, or reads a value of its arguments on the host
    (float(x[0]), math.sin(x[1]), np.asarray(x)), it is called with arrays instead, its derivatives are differences, and the result's
    derivatives and message say so.  A vector of more than one element counts as residuals: the sum of their squares is minimised.
    x is the best point that was evaluated.  Ctrl-C and exceptions of fun are raised from here."""
    args = args if isinstance(args, tuple) else (args,)
    given = [] if constraints is None else list(constraints) if isinstance(constraints, (list, tuple)) else [constraints]
    constrained = bool(given or equal or below)
    if chain is not None and method is not None:
        raise TypeError("minimize: method and chain are given; one is enough")
    named = str(method).lower() if method is not None else ""
    text = str(chain) if chain is not None else chain_of(method, constrained)
    if named in REPLACED and not constrained:
        warn(f"minimize: there is no method {method}: {text} is used", 4)
    problem = _Problem("minimize", fun, x0, args if evaluate is None else (None, *args), dtype)
    low, high = problem.low, problem.high = problem.point.pairs(bounds, "minimize")
    tensors = problem.point.tensors
    if definitions:
        known_in(tensors[0].context)
    settings: dict[str, Any] = {
        "max_steps": max_steps, "max_evals": max_evals, "max_seconds": max_seconds, "gradient_tol": gradient_tol, "step_tol": step_tol,
        "loss_tol": loss_tol, "patience": patience, "noisy": noisy, "plain": plain, "curvature_products": curvature_products}
    text, step, show = _options(options, settings, "lbfgs | strong_wolfe" if text is None else text, tol) if options or tol is not None else (
        "lbfgs | strong_wolfe" if text is None else text, None, False)
    if text == "nelder_mead" or text.startswith("nelder_mead("):
        settings["max_steps"] = settings["max_steps"] if settings["max_steps"] != 1000 else max(1000, 500 * sum(problem.point.sizes))
    default = chain is None and chain_of(method, constrained) is None
    if any(str(t.dtype) == "f32" for t in tensors) and settings["gradient_tol"] is None:
        settings["gradient_tol"] = 1e-4
    loss = problem.function(fun, args, "fun", **_derivatives(jac, hess, hessp, named), step=step)
    if loss.numbers and loss.jac is None and not loss.pair and settings["gradient_tol"] is None:
        settings["gradient_tol"] = 1e-5  # differences are not as exact
    items = [_constraint(problem, c) for c in given]
    functions, equals, belows = _together(problem, items, equal, below)
    begin = [t.detach().copy() for t in tensors]
    if evaluate is not None:
        for name, other in (("equal", equal), ("below", below), ("constraints", given), ("jac", jac), ("hess", hess), ("hessp", hessp), ("jit", jit)):
            if other is not None and other != [] and other is not False:
                raise TypeError(f"minimize: {name} and evaluate are given; with evaluate, fun computes all")
        whole = Evaluation(problem, fun, args, evaluate)
        text = "" if default else text
        r = _core._minimize(tuple(tensors), whole.call, text, low, high, None, None, _callback(problem, callback), settings, False, whole.gives,
                            sensitivities)
        result = _result(problem, whole, r, [], show, False)
        result["derivatives"] = _used("operators" if whole.operators else "evaluate", r)
        return result

    def solve() -> dict[str, Any]:
        way = text
        if constrained and default:
            lacking = [f for f in (loss, *functions) if f.numbers and f.hess is None and f.hessp is None]
            way = 'nlp(hessian="bfgs")' if lacking else ""
            used = [f.what for f in (loss, *functions) if f.numbers and f not in lacking]
            if lacking and used:
                warn(f"minimize: hess of {used[0]} is not used: {lacking[0].what} has none, and quasi-Newton updates take the place of all")
        elif constrained and "augmented_lagrangian" not in text and "nlp" not in text:
            way = _core._link_text("augmented_lagrangian", (("inner", (text,)),), {})
        return _core._minimize(tuple(tensors), loss, way, low, high, equals, belows, _callback(problem, callback), {**settings, "traced": jit},
                               False, 0, sensitivities)
    r = _run(solve, [loss, *functions], tensors, begin)
    return _result(problem, loss, r, [loss, *functions], show, jit)


def _derivatives(jac: Any, hess: Any, hessp: Any, method: str) -> dict[str, Any]:
    if jac is False:
        jac = None
    if jac is not None and jac is not True and not callable(jac) and jac not in STEPS:
        raise ValueError(f"minimize: jac is a function, True, {', '.join(map(repr, STEPS))} or None, not {jac!r}")
    if method in OF_VALUES and jac is not None:
        warn(f"minimize: method {method} needs no derivatives: jac is not used")
    for name, value in (("hess", hess), ("hessp", hessp)):
        if value is None:
            continue
        if not callable(value):
            if value not in STEPS and not hasattr(value, "initialize"):  # an update strategy of SciPy, what quasi-Newton links do
                raise ValueError(f"minimize: {name} is a function, not {value!r}")
        elif jac is None:
            warn(f"minimize: {name} is not used without jac: second derivatives are those of the operators")
    return {"jac": jac, "hess": hess if callable(hess) and jac is not None else None,
            "hessp": hessp if callable(hessp) and jac is not None else None}


def _run(solve: Callable[[], dict[str, Any]], functions: list[Function], tensors: list[Tensor], begin: list[Tensor]) -> dict[str, Any]:
    """Once more from the start for each function that is found to be one of numbers on the way."""
    for _ in range(len(functions) + 1):
        kinds = [f.numbers for f in functions]
        r = solve()
        why = r.get("numbers")
        if why is None:
            return r
        for t, value in zip(tensors, begin):
            t.assign(value)
        late = next((f for f, before in zip(functions, kinds) if not before and not f.numbers), None)
        if late is None:
            raise _core.UnsupportedError(why)
        late.numbers, late.why = True, why
    raise _core.UnsupportedError("a function reads values on the host in some calls, and none in others")


def _kind(functions: Iterable[Function]) -> tuple[str, str]:
    """Where derivatives came from, and why."""
    numbers = [f for f in functions if f.numbers]
    if not numbers:
        return "operators", ""
    by = [f for f in numbers if not f.jac and not f.pair]
    if not by:
        return "jac", ""
    why = next((f.why for f in by if f.why), "")
    return ("differences" if any(f.asked for f in by) else "values"), why


def _used(derivatives: str, r: dict[str, Any]) -> str:
    """What the chain did with them: links of values alone ask for none, and fdm takes differences of any function."""
    if r["derivatives"] == "none":
        return "values" if r["steps"] else derivatives
    return "differences" if r["derivatives"] == "differences" else derivatives


def _result(problem: _Problem, loss: Function | Evaluation, r: dict[str, Any], functions: list[Function], show: bool, jit: bool) -> Result:
    derivatives, why = _kind(functions)
    derivatives = _used(derivatives, r)
    message = r["message"]
    if derivatives == "differences" and why:
        message = f"{message}; derivatives by differences: {why}"
    result = Result(x=problem.here(loss.numbers), fun=r["loss"], success=r["success"], status=0 if r["success"] else STATUS.get(r["stop"], 2),
                    stop=r["stop"], message=message, derivatives=derivatives, nit=r["steps"], nfev=r["evals"] if jit and not loss.numbers else loss.calls,
                    njev=loss.slopes if loss.numbers else r["evals"], constraint_evals=r["constraint_evals"], **_multipliers(problem.point, r, problem.shown),
                    gradient_norm=r["gradient_norm"], violation=r["violation"], maxcv=r["violation"], seconds=r["seconds"])
    if r.get("sensitivities") is not None:
        result["sensitivities"] = _sensitivities(problem, r["sensitivities"], r["equals"])
    result._later = {"jac": lambda: _gradient(problem, loss), "hess_inv": lambda: _inverse(problem, loss)}
    if show:
        print(f"{message}\n         Current function value: {result.fun:f}\n         Iterations: {result.nit}\n"
              f"         Function evaluations: {result.nfev}")
    return result


def _sensitivities(problem: _Problem, found: Tensor, equals: int) -> dict[str, Any]:
    """[elements, rows] by side, in the form of x with an axis of rows in front."""
    point, sides = problem.point, {}
    for side, rows in (("equal", found[:, :equals]), ("below", found[:, equals:])):
        parts, at = [], 0
        for t, size in zip(point.tensors, point.sizes):
            parts.append(rows[at:at + size].T.reshape(rows.shape[1], *t.shape))
            at += size
        sides[side] = problem.shown(parts)
    return sides


def _slopes(problem: _Problem, loss: Function | Evaluation, create: bool) -> list[Tensor]:
    tensors = problem.point.tensors
    given = loss.gradient() if isinstance(loss, Evaluation) else None
    if given is not None:
        parts, at = [], 0
        for t, size in zip(tensors, problem.point.sizes):
            parts.append(given[at:at + size].reshape(t.shape))
            at += size
        return parts
    with enable_grad():
        value = loss()
        value = value.drop_names().reshape(-1).square().sum() if value.size > 1 else value
        if not value.requires_grad:
            return [t.detach() * 0 for t in tensors]
        return list(_core.grad(value, tensors, create_graph=create))


def _gradient(problem: _Problem, loss: Function | Evaluation) -> Any:
    return problem.shown([g.detach() for g in _slopes(problem, loss, False)], loss.numbers)


def _inverse(problem: _Problem, loss: Function | Evaluation) -> Any:
    """The inverse of the Hessian at x, over all elements: exact, or by differences; what it is infinite for is NaN."""
    rows = []
    slopes = joined(_slopes(problem, loss, True)).to("f64")
    for i in range(slopes.size):
        row = [t.detach() * 0 for t in problem.point.tensors]
        if slopes.requires_grad:
            row = list(_core.grad(slopes[i], problem.point.tensors, retain_graph=True))
        rows.append(joined([g.detach() for g in row]).to("f64"))
    h = _core.stack(rows)
    try:
        inverse = _core.solve((h + h.T) * 0.5, _core._eye(h.shape[0], h.shape[0], "f64"))
    except _core.Error:
        inverse = h * float("nan")
    np = numpy_or_none()
    return np.array(inverse.tolist()) if problem.arrays and np is not None else inverse


# ---- least squares ----

# SciPy's names, ours, and where each bends in units of our scale (GD_LSQ_LOSS_LIST): f_scale is the place itself
OWN_LOSSES = ("arctan",)
LOSSES = {"linear": ("squares", 1.0), "squares": ("squares", 1.0), "soft_l1": ("soft_l1", 1.287), "huber": ("huber", 1.345),
          "cauchy": ("cauchy", 2.385), "tukey": ("tukey", 4.685)}


def _arctan(z: Tensor) -> tuple[Tensor, Tensor]:
    return z.atan(), 1 / (1 + z.square())


# rho'(z) of SciPy's losses, z = (residual / f_scale)^2
WEIGHTS: dict[str, Callable[[Tensor], Tensor]] = {
    "soft_l1": lambda z: (1 + z).rsqrt(), "huber": lambda z: _core.where(z <= 1, z * 0 + 1, _core.maximum(z, 1.0).rsqrt()), "cauchy": lambda z: 1 / (1 + z),
    "tukey": lambda z: (1 - z).clamp(0.0, 1.0).square()}


class _Bent:
    """Residuals r bent to g, so that g^2 = f_scale^2 rho((r / f_scale)^2): their squares are the loss, exactly."""

    def __init__(self, loss: Callable[..., Any], scale: float) -> None:
        self.loss, self.scale = loss, scale

    def _rho(self, z: Tensor) -> tuple[Tensor, Tensor]:
        if self.loss is _arctan:
            return _arctan(z)
        np = numpy_or_none()
        found = self.loss(np.array(z.tolist()) if np is not None else z)
        shape = tuple(getattr(found, "shape", ()))
        if isinstance(found, (list, tuple)):
            shape = (len(found), *getattr(found[0] if found else None, "shape", ()))
        if len(shape) != 2 or shape[0] < 2 or shape[1] != z.size:
            raise ValueError("least_squares: loss is a function of z that gives rho(z), rho'(z) and rho''(z) as rows")
        return tensor(found[0]).to("f64"), tensor(found[1]).to("f64")

    def _parts(self, r: Tensor) -> tuple[Tensor, Tensor]:
        """g / r and dg / dr."""
        z = (r / self.scale).square()
        rho, rho1 = self._rho(z)
        if (rho < 0).any().item() or (rho1 < 0).any().item():
            raise ValueError("least_squares: loss is a growing function from 0 on")
        small = z < 1e-30
        ratio = _core.where(small, rho1, rho / _core.where(small, z * 0 + 1, z)).sqrt()
        return ratio, _core.where(ratio > 0, rho1 / _core.where(ratio > 0, ratio, ratio * 0 + 1), ratio * 0)

    def of(self, made: Any) -> Any:
        operators = isinstance(made, Tensor)
        r = (made if operators else tensor(made)).to("f64").reshape(-1)
        ratio, slope = self._parts(r.detach())
        bent = r.detach() * ratio
        if operators and made.requires_grad and _core.grad_enabled():
            return _core._custom(bent, (r,), lambda grad: [grad * slope])
        return bent if operators else bent.numpy() if numpy_or_none() is not None else bent

    def chained(self, jac: Callable[..., Any], plain: Callable[..., Any]) -> Callable[..., Any]:
        """The derivative of the bent residuals of that of the plain ones."""
        def slopes(given: list[Any], *more: Any) -> Any:
            r = tensor(plain(given, *more)).to("f64").detach().reshape(-1)
            matrix = jac(given, *more)
            matrix = f64(matrix.toarray() if hasattr(matrix, "toarray") else matrix)
            return matrix.reshape(r.size, -1) * self._parts(r)[1].reshape(-1, 1)
        return slopes


class LeastSquares(Result):
    """The result of least_squares: the entries of scipy.optimize.least_squares and more.

    x               the parameters, as given in x0
    cost            half of the sum of squares, or of the loss
    fun, jac        residuals and their Jacobian at x
    grad, optimality   the gradient of the cost, and its largest element, with bounds of the KKT residual
    active_mask     -1 and 1 at a low and high bound that holds
    nfev, njev      evaluations of residuals and of Jacobians
    status, success, message, stop   why it ended
    derivatives     "operators", "jac" or "differences"
    linear_solver   what solved for the steps: "QR", for sparse Jacobians "LDL", "Schur complement", "LSMR" or "CHOLMOD 3.0.14"
    nit, rank, covariance   steps; the number of parameters that the residuals determine; sigma^2 (J^T J)^-1
    seconds         the time it took"""


def least_squares(fun: Callable[..., Any], x0: Any, jac: Any = None, bounds: Any = (-inf, inf), method: str = "trf", ftol: float | None = 1e-8,
                  xtol: float | None = 1e-8, gtol: float | None = 1e-8, x_scale: Any = None, loss: Any = "linear", f_scale: float = 1.0,
                  diff_step: Any = None, tr_solver: Any = None, tr_options: Any = None, jac_sparsity: Any = None, max_nfev: int | None = None,
                  verbose: int = 0, args: Any = (), kwargs: Any = None, callback: Callable[..., Any] | None = None, workers: Any = None, *,
                  jit: bool = False, max_steps: int = 1000, max_seconds: float | None = None) -> LeastSquares:
    """Minimises half the sum of squares of what fun returns.  The arguments are those of scipy.optimize.least_squares.

    One method is used for "trf", "dogbox" and "lm": Levenberg-Marquardt in a trust region with bounds as an active set, scaled by the columns
    of the Jacobian; x_scale, tr_solver and jac_sparsity other than the defaults warn.  loss: linear, soft_l1, huber, cauchy, arctan or tukey,
    with f_scale, or a function of z = (residual / f_scale)^2 that gives rho(z) and its first two derivatives as rows.  fun is called as in minimize: tensors first, else arrays with jac or differences."""
    if method not in ("trf", "dogbox", "lm"):
        raise ValueError(f"least_squares: method is 'trf', 'dogbox' or 'lm', not {method!r}")
    if not callable(loss) and loss not in LOSSES and loss not in OWN_LOSSES:
        raise ValueError(f"least_squares: there is no loss {loss!r}: {', '.join([*LOSSES, *OWN_LOSSES])}")
    if not f_scale > 0:
        raise ValueError(f"least_squares: f_scale is above 0, not {f_scale!r}")
    usual: list[tuple[str, Any, tuple[Any, ...]]] = [
        ("x_scale", x_scale, (None, "jac", 1.0)), ("tr_solver", tr_solver, (None, "exact", "lsmr")), ("tr_options", tr_options, (None, {})),
        ("jac_sparsity", jac_sparsity, (None,)), ("workers", workers, (None, 1))]
    for name, value, fine in usual:
        if not any(value is u or (isinstance(value, (str, float, int, dict)) and value == u) for u in fine):
            warn(f"least_squares: {name} is not used", 3)
    args = args if isinstance(args, tuple) else (args,)
    call = functools.partial(fun, **kwargs) if kwargs else fun
    problem = _Problem("least_squares", fun, x0, args, None)
    low: Any
    high: Any
    if isinstance(bounds, (tuple, list)) and len(bounds) == 2 and bounds[0] is not None:
        low, high = [problem.point._spread(b, e, "least_squares") for b, e in zip(bounds, (-inf, inf))]
        problem.point._ordered(low, high, "least_squares")
    else:
        low, high = problem.point.pairs(bounds, "least_squares")
    if low is not None and all(v == -inf for v in low) and all(v == inf for v in high):
        low = high = None
    problem.low, problem.high = low, high
    how: dict[str, Any] = {"jac": functools.partial(jac, **kwargs) if callable(jac) and kwargs else jac}
    if jac is not None and not callable(jac) and jac not in STEPS:
        raise ValueError(f"least_squares: jac is a function, {', '.join(map(repr, STEPS))} or None, not {jac!r}")
    if jac in STEPS and not problem.numbers:
        how["jac"] = None  # its default there
    if jac == "2-point":
        how["jac"] = None if diff_step is None else jac
    if isinstance(diff_step, (int, float)):
        how["step"] = float(diff_step)
    elif diff_step is not None:
        warn("least_squares: diff_step of several numbers is not used", 3)
    residuals = problem.function(call, args, "fun", **how)
    tensors = problem.point.tensors
    begin = [t.detach().copy() for t in tensors]
    own = loss if callable(loss) else _arctan if loss == "arctan" else None
    if own is not None:
        plain, bent = residuals.call, _Bent(own, float(f_scale))
        residuals.call = lambda given, *more: bent.of(plain(given, *more))
        residuals.jac = residuals.jac and bent.chained(residuals.jac, plain)
    core = ("squares", 1.0) if own is not None else LOSSES[loss]
    options = {"max_steps": max_steps, "max_evals": max_nfev, "max_seconds": max_seconds, "loss": core[0],
               "loss_scale": float(f_scale) / core[1] if core[0] != "squares" else 0.0}
    exact = {k: v for k, v in (("step_tol", xtol), ("loss_tol", ftol), ("gradient_tol", gtol)) if v is not None and v < 1e-8}
    options.update(exact)
    names = tuple(problem.point.names)
    if jit:
        residuals.record()
    r = _run(lambda: _core._least_squares(tuple(tensors), residuals, low, high, names, _callback(problem, callback), options), [residuals],
             tensors, begin)
    weight = WEIGHTS.get(loss) if own is None else None
    return _fitted(problem, residuals, r, verbose, None if weight is None else lambda f: weight((f / float(f_scale)).square()), None if own is None else plain)


def _fitted(problem: _Problem, residuals: Function, r: dict[str, Any], verbose: int, weight: Callable[[Tensor], Tensor] | None,
            plain: Callable[..., Any] | None) -> LeastSquares:
    tensors = problem.point.tensors
    with enable_grad():
        value = residuals()
        value = value.drop_names().reshape(-1)
        rows = [joined([g.detach() for g in _core.grad(value[i], tensors, retain_graph=True)]) if value.requires_grad
                else joined([t.detach() * 0 for t in tensors]) for i in range(value.size)]
    jacobian = _core.stack(rows) if rows else None
    np = numpy_or_none()

    def shown(t: Any) -> Any:
        return np.array(t.tolist()) if t is not None and problem.arrays and np is not None else t
    derivatives, why = _kind([residuals])
    value = value.detach()
    pull = value if weight is None else value * weight(value.to("f64")).to(value.dtype)  # of the gradient of the cost
    if plain is not None:
        with no_grad():
            made = plain(residuals._given(residuals._values()) if residuals.numbers else list(tensors))
        shown_value = (made if isinstance(made, Tensor) else tensor(made)).detach().reshape(-1)
    else:
        shown_value = value
    message = f"{r['says'] or r['message']}" + (f"; derivatives by differences: {why}" if derivatives == "differences" and why else "")
    status = 1 if r["stop"] == "GRADIENT" else 3 if r["stop"] == "STEP" else 2 if r["success"] else 0 if STATUS.get(r["stop"]) == 1 else -1
    result = LeastSquares(
        x=problem.here(residuals.numbers), cost=r["loss"] / 2, fun=shown(shown_value), jac=shown(jacobian),
        grad=shown(None if jacobian is None else pull @ jacobian.to(value.dtype)), optimality=r["gradient_norm"], active_mask=shown(r["active"]),
        nfev=residuals.calls + (plain is not None), njev=residuals.slopes if residuals.numbers else r["evals"], status=status,
        success=r["success"], message=message, stop=r["stop"], derivatives=derivatives, nit=r["steps"], rank=r["rank"],
        covariance=shown(r["covariance"]), linear_solver=r["linear_solver"], seconds=r["seconds"])
    if verbose:
        print(f"{message}\nFunction evaluations {result.nfev}, final cost {result.cost:.4e}, first-order optimality {result.optimality:.2e}.")
    return result
