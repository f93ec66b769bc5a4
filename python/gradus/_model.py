"""Models and parameters after the idea of lmfit: fits of Python functions or expressions, with statistics of the library."""
from __future__ import annotations

import ast
import math
from math import inf, nan

from . import _core
from ._core import Tensor
from ._tensor import enable_grad, no_grad, tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Iterator, Mapping


# ---- expressions ----

_FUNCTIONS = ("exp", "log", "log10", "sqrt", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "erf", "erfc", "lgamma", "abs",
              "sign", "floor", "ceil", "log1p", "expm1", "atan2", "maximum", "minimum", "where")
_ALSO = {"arcsin": "asin", "arccos": "acos", "arctan": "atan", "arctan2": "atan2", "fabs": "abs", "ln": "log", "max": "maximum", "min": "minimum"}
_CONSTANTS = {"pi": math.pi, "e": math.e}
_BINARY: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: lambda a, b: a + b, ast.Sub: lambda a, b: a - b, ast.Mult: lambda a, b: a * b, ast.Div: lambda a, b: a / b,
    ast.Pow: lambda a, b: a ** b, ast.BitXor: lambda a, b: a ** b}
_COMPARE: dict[type, Callable[[Any, Any], Any]] = {
    ast.Lt: lambda a, b: a < b, ast.LtE: lambda a, b: a <= b, ast.Gt: lambda a, b: a > b, ast.GtE: lambda a, b: a >= b}


class Expression:
    """Arithmetic of names, numbers and functions, evaluated with tensors or numbers; nothing else can be written in one."""

    def __init__(self, text: str) -> None:
        self.text = text
        try:
            self.tree = ast.parse(text.replace("^", "**").strip(), mode="eval").body
        except SyntaxError as error:
            raise _core.ParseError(f"the expression {text!r} cannot be read: {error.msg}") from None
        self.names = list(dict.fromkeys(self._names(self.tree)))

    def _names(self, node: Any) -> Iterator[str]:
        if isinstance(node, ast.Name):
            if node.id not in _CONSTANTS:
                yield node.id
        elif isinstance(node, ast.Call):
            if not isinstance(node.func, ast.Name) or node.keywords or _ALSO.get(node.func.id, node.func.id) not in _FUNCTIONS:
                raise _core.ParseError(f"{self.text!r}: there is no function '{ast.unparse(node.func)}': {', '.join(_FUNCTIONS)}")
            for a in node.args:
                yield from self._names(a)
        elif isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
            yield from self._names(node.left)
            yield from self._names(node.right)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
            yield from self._names(node.operand)
        elif isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _COMPARE:
            yield from self._names(node.left)
            yield from self._names(node.comparators[0])
        elif not (isinstance(node, ast.Constant) and isinstance(node.value, (int, float)) and not isinstance(node.value, bool)):
            raise _core.ParseError(f"{self.text!r}: '{ast.unparse(node)}' is not arithmetic")

    def __call__(self, values: Mapping[str, Any]) -> Any:
        return self._of(self.tree, values)

    def _of(self, node: Any, values: Mapping[str, Any]) -> Any:
        if isinstance(node, ast.Constant):
            return float(node.value)  # type: ignore[arg-type]
        if isinstance(node, ast.Name):
            if node.id in values:
                return values[node.id]
            if node.id in _CONSTANTS:
                return _CONSTANTS[node.id]
            raise _core.ParseError(f"{self.text!r}: there is no parameter or column '{node.id}'")
        if isinstance(node, ast.BinOp):
            return _BINARY[type(node.op)](self._of(node.left, values), self._of(node.right, values))
        if isinstance(node, ast.UnaryOp):
            inner = self._of(node.operand, values)
            return -inner if isinstance(node.op, ast.USub) else inner
        if isinstance(node, ast.Compare):
            return _COMPARE[type(node.ops[0])](self._of(node.left, values), self._of(node.comparators[0], values))
        name = _ALSO.get(node.func.id, node.func.id)
        args = [self._of(a, values) for a in node.args]
        found = getattr(_core, name)(*[a if isinstance(a, Tensor) else tensor(float(a)) for a in args])
        return found if any(isinstance(a, Tensor) for a in args) else found.item()


# ---- parameters ----

class Parameter:
    """A number of a model: value, vary (is it fitted?), min and max, or expr, an expression of others that it follows.

    After a fit stderr is its standard error and correl its correlations with others."""

    def __init__(self, name: str, value: float | None = None, vary: bool = True, min: float = -inf, max: float = inf,
                 expr: str | None = None) -> None:
        if not name.isidentifier():
            raise ValueError(f"'{name}' is no name of a parameter")
        self.name, self.vary, self.min, self.max = name, bool(vary), -inf if min is None else float(min), inf if max is None else float(max)
        if not self.min < self.max:
            raise ValueError(f"parameter '{name}': min {self.min:g} is not below max {self.max:g}")
        self._expression: Expression | None = None
        self._value = nan if value is None else float(value)
        self.expr = expr
        self.stderr: float | None = None
        self.correl: dict[str, float] = {}
        self.init_value = self._value

    @property
    def value(self) -> float:
        """The number, within min and max."""
        return self._value if self._value != self._value else max(self.min, min(self.max, self._value))

    @value.setter
    def value(self, value: float) -> None:
        self._value = float(value)
        self._expression = None

    @property
    def expr(self) -> str | None:
        """The expression it follows, or None."""
        return self._expression.text if self._expression else None

    @expr.setter
    def expr(self, text: str | None) -> None:
        self._expression = Expression(text) if text else None
        if self._expression:
            self.vary = False

    def set(self, value: float | None = None, vary: bool | None = None, min: float | None = None, max: float | None = None,
            expr: str | None = None) -> None:
        """Sets what is given; expr "" takes the expression away."""
        if value is not None:
            self.value = value
        if vary is not None:
            self.vary = bool(vary)
            if vary:
                self._expression = None
        self.min, self.max = self.min if min is None else float(min), self.max if max is None else float(max)
        if not self.min < self.max:
            raise ValueError(f"parameter '{self.name}': min {self.min:g} is not below max {self.max:g}")
        if expr is not None:
            self.expr = expr

    def __float__(self) -> float:
        return self.value

    def __repr__(self) -> str:
        error = f" +/- {self.stderr:.3g}" if self.stderr is not None else "" if self.vary or self.expr else " (fixed)"
        limits = f", bounds=[{self.min:g}:{self.max:g}]" if self.min > -inf or self.max < inf else ""
        follows = f", expr={self.expr!r}" if self.expr else ""
        return f"<Parameter '{self.name}', value={self.value:.8g}{error}{limits}{follows}>"


class Parameters(dict):  # type: ignore[type-arg]
    """Parameters by name: params.add("a", value=1, min=0), params["a"].value."""

    def add(self, name: Any, value: float | None = None, vary: bool = True, min: float = -inf, max: float = inf, expr: str | None = None) -> None:
        """One more, or another of that name; a Parameter is taken as it is."""
        self[name.name if isinstance(name, Parameter) else name] = name if isinstance(name, Parameter) else Parameter(name, value, vary, min, max, expr)

    def add_many(self, *rows: Any) -> None:
        """Several: (name, value, vary, min, max, expr), as many of these as are wanted."""
        for row in rows:
            self.add(*(row if isinstance(row, tuple) else (row,)))

    def __setitem__(self, name: str, value: Any) -> None:
        if not isinstance(value, Parameter):
            raise TypeError(f"Parameters: a Parameter is needed, not {type(value).__name__}; params['{name}'].value = ... sets a number")
        super().__setitem__(name, value)

    def valuesdict(self) -> dict[str, float]:
        """The values by name, those of expressions computed."""
        return {n: float(v.item() if isinstance(v, Tensor) else v) for n, v in self._with({}).items()}

    def _with(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """All values, with some in place of their own; expressions after what they use."""
        values: dict[str, Any] = {n: given.get(n, p.value) for n, p in self.items() if p._expression is None or n in given}
        waiting = [p for n, p in self.items() if n not in values]
        while waiting:
            ready = [p for p in waiting if all(u in values for u in p._expression.names)]
            if not ready:
                p = waiting[0]
                lost = next(u for u in p._expression.names if u not in values)
                raise _core.ParseError(f"parameter '{p.name}': its expression needs '{lost}', " + ("which follows it" if lost in self else "which is no parameter"))
            for p in ready:
                values[p.name] = p._expression(values)
            waiting = [p for p in waiting if p not in ready]
        return {n: values[n] for n in self}

    def copy(self) -> "Parameters":
        """Parameters of their own."""
        import copy

        return copy.deepcopy(self)

    def __deepcopy__(self, memo: Any) -> "Parameters":
        out = Parameters()
        for name, p in self.items():
            q = Parameter(name, p._value, p.vary, p.min, p.max, p.expr)
            q.vary, q.stderr, q.correl, q.init_value = p.vary, p.stderr, dict(p.correl), p.init_value
            out[name] = q
        return out

    def __reduce__(self) -> Any:
        return (_parameters_of, (dict(self),))

    def pretty_print(self) -> None:
        """Prints a table."""
        print(self)

    def __repr__(self) -> str:
        lines = [f"{'name':<14}{'value':>14}{'min':>12}{'max':>12}{'stderr':>12}  vary   expr"]
        for name, value in self.valuesdict().items():
            p = self[name]
            lines.append(f"{name:<14}{value:>14.7g}{p.min:>12.4g}{p.max:>12.4g}{'' if p.stderr is None else f'{p.stderr:.4g}':>12}  {p.vary!s:<6} {p.expr or ''}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        import html

        rows = "".join(f"<tr><td>{html.escape(n)}</td><td>{v:.8g}</td><td>{'' if self[n].stderr is None else f'{self[n].stderr:.4g}'}</td>"
                       f"<td>{self[n].min:g}</td><td>{self[n].max:g}</td><td>{self[n].vary}</td><td>{html.escape(self[n].expr or '')}</td></tr>"
                       for n, v in self.valuesdict().items())
        return f"<table><tr><th>name</th><th>value</th><th>std. error</th><th>min</th><th>max</th><th>vary</th><th>expr</th></tr>{rows}</table>"


def _parameters_of(items: dict[str, Parameter]) -> Parameters:
    out = Parameters()
    for name, p in items.items():
        out[name] = p
    return out


# ---- models ----

class Model:
    """A function, or an expression, with names for its parameters.

        model = gd.Model(lambda x, a, b: a * gd.exp(-b * x))       # or gd.Model("a*exp(-b*x)")
        result = model.fit(y, x=x, a=1, b=0.5)
        print(result.report())

    independent_vars   names of what is given with the data; None: the first argument of a function, "x" of an expression (or "t")
    prefix             goes before the names of the parameters; models are joined by +, -, * and /
    A function is made of operators, or of NumPy: see curve_fit."""

    def __init__(self, func: Any, independent_vars: Any = None, param_names: Any = None, prefix: str = "", name: str | None = None) -> None:
        import inspect

        self.prefix, self.hints = prefix, {}  # type: ignore[var-annotated]
        self.parts: tuple[Model, Model, str] | None = None
        self._options: dict[str, Any] = {}
        defaults: dict[str, float] = {}
        if isinstance(func, str):
            expression = Expression(func)
            self.independent_vars = _names(independent_vars) or [n for n in ("x", "t") if n in expression.names][:1]
            own = _names(param_names) or [n for n in expression.names if n not in self.independent_vars]
            self.func: Callable[..., Any] = lambda **values: expression(values)
            self.name = name or func
        else:
            parameters = [p for p in inspect.signature(func).parameters.values() if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
            if not parameters and param_names is None:
                raise ValueError("Model: the function names no arguments: give independent_vars and param_names")
            self.independent_vars = _names(independent_vars) or [parameters[0].name]
            for p in parameters:
                if isinstance(p.default, (int, float)) and not isinstance(p.default, bool):
                    defaults[p.name] = float(p.default)
                elif p.default is not p.empty and p.name not in self.independent_vars:
                    self._options[p.name] = p.default  # no number: a setting
            own = _names(param_names) or [p.name for p in parameters if p.name not in self.independent_vars and p.name not in self._options]
            self.func, self.name = func, name or str(getattr(func, "__name__", "model"))
        if not self.independent_vars:
            raise ValueError("Model: which names are of the data? independent_vars=[...]")
        self._own = own
        self.defaults = {prefix + n: v for n, v in defaults.items() if n in own}

    @property
    def param_names(self) -> list[str]:
        """The names of the parameters, prefix included."""
        if self.parts:
            return list(dict.fromkeys(self.parts[0].param_names + self.parts[1].param_names))
        return [self.prefix + n for n in self._own]

    def set_param_hint(self, name: str, **hint: Any) -> None:
        """What make_params gives a parameter: value, vary, min, max, expr."""
        self.hints.setdefault(name if name.startswith(self.prefix) else self.prefix + name, {}).update(hint)

    def _all_hints(self) -> dict[str, dict[str, Any]]:
        out: dict[str, dict[str, Any]] = {}
        for part in self.parts[:2] if self.parts else ():
            out.update(part._all_hints())
        out.update(self.hints)
        return out

    def _all_defaults(self) -> dict[str, float]:
        out: dict[str, float] = {}
        for part in self.parts[:2] if self.parts else ():
            out.update(part._all_defaults())
        return {**out, **self.defaults}

    def make_params(self, **values: Any) -> Parameters:
        """Parameters with those values: numbers, or dicts with value, min, max, vary, expr."""
        out, defaults, hints = Parameters(), self._all_defaults(), self._all_hints()
        for name in self.param_names:
            hint = dict(hints.get(name, {}))
            given = values.get(name, values.get(name[len(self.prefix):] if self.prefix and name.startswith(self.prefix) else name))
            hint.update(given if isinstance(given, dict) else {} if given is None else {"value": given})
            hint.setdefault("value", defaults.get(name))
            out.add(name, **hint)
        for name, hint in hints.items():
            if name not in out:
                out.add(name, **hint)
        unknown = [n for n in values if n not in out and self.prefix + n not in out]
        if unknown:
            raise KeyError(f"make_params: the model has no parameter '{unknown[0]}': it has {', '.join(self.param_names)}")
        return out

    def guess(self, data: Any, **independent: Any) -> Parameters:
        """Parameters to start from: of some hundred tries, scaled by the data and within limits, those with the least squares."""
        y = tensor(data).to("f64")
        x = {n: tensor(independent[n]).to("f64") for n in self.independent_vars}
        params = self.make_params()
        free = [n for n in self.param_names if params[n].vary and params[n].value != params[n].value or params[n].vary and n not in self._all_hints()]
        spread = [max(abs(float(v)), 1e-12) for t in (y, *x.values()) for v in (t.min().item(), t.max().item(), t.mean().item(), t.max().item() - t.min().item())]
        scales = [1.0, *spread, *[1 / s for s in spread], *[-s for s in spread], *[y.min().item(), y.max().item(), y.mean().item()]]
        best, least = {n: 1.0 for n in free}, inf
        with no_grad():
            for k in range(400):
                values = {n: scales[int(len(scales) * (((k + 1) * root) % 1))] * (0.5 + ((k + 1) * root * 7.0) % 1)
                          for n, root in zip(free, _roots(len(free)))}
                for n in free:
                    values[n] = max(params[n].min, min(params[n].max, values[n]))
                cost = (self._values(params._with(values), x) - y).square().sum().item()
                if cost < least:
                    best, least = values, cost
        for n, v in best.items():
            params[n].value = v
        return params

    def _values(self, values: Mapping[str, Any], independent: Mapping[str, Any]) -> Any:
        if self.parts:
            left, right, sign = self.parts
            a, b = left._values(values, independent), right._values(values, independent)
            return a + b if sign == "+" else a - b if sign == "-" else a * b if sign == "*" else a / b
        return self.func(**{n: independent[n] for n in self.independent_vars}, **{n: values[self.prefix + n] for n in self._own}, **self._options)

    def eval(self, params: Parameters | None = None, **given: Any) -> Any:
        """The model's values: eval(params, x=x), eval(x=x, a=1, b=2)."""
        from ._numbers import numpy_or_none

        np = numpy_or_none()
        own = [n for n in self._everything() if n in given]
        values = (params if params is not None else self.make_params())._with({n: v for n, v in given.items() if n in self.param_names})
        missing = [n for n in self.independent_vars if n not in own]
        if missing:
            raise TypeError(f"eval: '{missing[0]}' is not given")
        raw = {n: given[n] for n in own}
        try:
            with no_grad():
                out = self._values({n: v if isinstance(v, Tensor) else tensor(float(v)) for n, v in values.items()},
                                   {n: tensor(v).to("f64") for n, v in raw.items()})
        except (TypeError, AttributeError):
            out = self._values(values, raw)
        tensors = any(isinstance(v, Tensor) for v in raw.values())
        return np.array(out.tolist()) if isinstance(out, Tensor) and not tensors and np is not None else out

    def _everything(self) -> list[str]:
        if self.parts:
            return list(dict.fromkeys(self.parts[0]._everything() + self.parts[1]._everything()))
        return list(self.independent_vars)

    def fit(self, data: Any, params: Parameters | None = None, weights: Any = None, method: str = "leastsq", scale_covar: bool = True,
            callback: Any = None, y: str | None = None, max_steps: int = 1000, **given: Any) -> "ModelResult":
        """Fits the parameters to data: fit(y, params, x=x), fit(y, x=x, a=1, b=2), or fit(table, params, y="y") with columns by name.

        weights multiply the residuals: 1 / standard deviation; scale_covar=False: they are known, not only their ratios.
        Values for parameters go before those in params."""
        if method not in ("leastsq", "least_squares"):
            raise ValueError(f"fit: method is 'leastsq' or 'least_squares', not {method!r}")
        if y is not None:
            table, data = data, data[y]
            given = {**{n: table[n] for n in self._everything() if n not in given}, **given}
        params = self.make_params(**{n: v for n, v in given.items() if n in self.param_names}) if params is None else params.copy()
        for n, v in given.items():
            if n in params:
                params[n].set(**(v if isinstance(v, dict) else {"value": float(v)}))
        unknown = [n for n in given if n not in params and n not in self._everything()]
        if unknown:
            raise TypeError(f"fit: there is no parameter or variable '{unknown[0]}'")
        for n in self._everything():
            if n not in given:
                raise TypeError(f"fit: '{n}' is not given")
        lost = [n for n, p in params.items() if p.expr is None and p.value != p.value]
        if lost:
            raise ValueError(f"fit: parameter '{lost[0]}' has no value to start from: fit(..., {lost[0]}=1), or guess()")
        return ModelResult(self, params, data, weights, {n: given[n] for n in self._everything()}, scale_covar, callback, max_steps)

    def _join(self, other: Any, sign: str) -> Any:
        if not isinstance(other, Model):
            return NotImplemented
        shared = set(self.param_names) & set(other.param_names)
        if shared:
            raise NameError(f"both models have a parameter '{sorted(shared)[0]}': give one of them a prefix")
        made = Model.__new__(Model)
        made.prefix, made.hints, made.parts, made._options, made.defaults = "", {}, (self, other, sign), {}, {}
        made.independent_vars = list(dict.fromkeys(self.independent_vars + other.independent_vars))
        made._own, made.name = [], f"({self.name} {sign} {other.name})"
        return made

    def __add__(self, other: Any) -> Any:
        return self._join(other, "+")

    def __sub__(self, other: Any) -> Any:
        return self._join(other, "-")

    def __mul__(self, other: Any) -> Any:
        return self._join(other, "*")

    def __truediv__(self, other: Any) -> Any:
        return self._join(other, "/")

    def components(self) -> "list[Model]":
        """The models it is joined of."""
        return self.parts[0].components() + self.parts[1].components() if self.parts else [self]

    def __repr__(self) -> str:
        return f"<gradus.Model: {self.name}>"


def _names(given: Any) -> list[str]:
    return [] if given is None else [given] if isinstance(given, str) else list(given)


def _roots(count: int) -> list[float]:
    """Steps of a sequence that fills a cube evenly (Roberts 2018)."""
    g = 1.5
    for _ in range(60):
        g = (1 + g) ** (1 / (count + 1))
    return [(1 / g) ** (i + 1) % 1 for i in range(count)]


class ModelResult:
    """A fit: params with standard errors, best_fit, residual, chisqr, redchi, aic, bic, rsquared, covar, ndata, nvarys, nfree, nfev, success,
    message; report(), eval(), predict(), eval_uncertainty(), eval_components(), plot()."""

    def __init__(self, model: Model, params: Parameters, data: Any, weights: Any, given: dict[str, Any], scale_covar: bool, callback: Any,
                 max_steps: int) -> None:
        from ._minimize import _kind, _run
        from ._numbers import Function, numpy_or_none

        self.model, self.params, self.userkws, self._np = model, params, given, numpy_or_none()
        np = self._np
        self.data, self.weights, self.scale_covar = data, weights, scale_covar
        self._y = tensor(data).to("f64")
        self._x = {n: tensor(v).to("f64") for n, v in given.items()}
        self._raw = self._x if np is None else {n: np.array(t.tolist()) for n, t in self._x.items()}
        scale = None if weights is None else tensor(weights).to("f64")
        self.init_params = params.copy()
        self.init_values = params.valuesdict()
        self.init_fit = model.eval(params, **given)
        self.var_names = [n for n, p in params.items() if p.vary]
        if not self.var_names:
            raise ValueError("fit: no parameter varies")
        tensors = [tensor(params[n].value).require_grad() for n in self.var_names]
        low, high = [params[n].min for n in self.var_names], [params[n].max for n in self.var_names]
        bounded = any(v > -inf for v in low) or any(v < inf for v in high)

        def residual(values: list[Any]) -> Any:
            operators = not values or isinstance(values[0], Tensor)
            made = model._values(params._with(dict(zip(self.var_names, values if operators else [float(v) for v in values]))), self._x if operators else self._raw)
            if not isinstance(made, Tensor):
                made = tensor(made)
                if operators and _core.grad_enabled():
                    return made
            r = made.to("f64") - self._y
            if r.shape != self._y.shape:
                raise ValueError(f"fit: the model gives the shape {made.shape}, the data have {self._y.shape}")
            return r if scale is None else r * scale
        f = Function("fit", tensors, residual, np is not None, low=low if bounded else None, high=high if bounded else None)
        r = _run(lambda: _core._least_squares(tuple(tensors), f, low if bounded else None, high if bounded else None, tuple(self.var_names), callback,
                                              {"max_steps": max_steps, "sigma": 0.0 if scale_covar else 1.0}), [f], tensors, [t.detach().copy() for t in tensors])
        derivatives, why = _kind([f])
        self.success, self.nfev, self.nit = r["success"], f.calls if f.numbers else r["evals"], r["steps"]
        self.derivatives, self.message = derivatives, (r["says"] or r["message"]) + (f"; derivatives by differences: {why}" if why else "")
        self.stop = r["stop"]
        self._take(r, [t.item() for t in tensors])

    def _take(self, r: dict[str, Any], values: list[float]) -> None:
        cov = r["covariance"]
        rows = None if cov is None else cov.tolist()
        self.covar = None if rows is None else (rows if self._np is None else self._np.array(rows))
        self.errorbars = rows is not None and all(math.isfinite(rows[i][i]) for i in range(len(values)))
        for i, n in enumerate(self.var_names):
            p = self.params[n]
            p._value = values[i]
            p.stderr = math.sqrt(rows[i][i]) if rows is not None and self.errorbars and rows[i][i] >= 0 else None
            p.correl = {} if rows is None or not self.errorbars else {
                m: rows[i][k] / math.sqrt(rows[i][i] * rows[k][k]) for k, m in enumerate(self.var_names) if k != i and rows[i][i] * rows[k][k] > 0}
        self._follow(rows)
        self.best_values = self.params.valuesdict()
        self.best_fit = self.model.eval(self.params, **self.userkws)
        self.ndata, self.nvarys = self._y.size, len(values)
        self.nfree = self.ndata - self.nvarys
        self.chisqr = r["rss"]
        self.redchi = self.chisqr / self.nfree if self.nfree > 0 else nan
        per = math.log(max(self.chisqr, 5e-324) / self.ndata) * self.ndata
        self.aic, self.bic = per + 2 * self.nvarys, per + math.log(self.ndata) * self.nvarys
        fit = tensor(self.best_fit).to("f64")
        r2 = self._y - fit
        w = 1.0 if self.weights is None else tensor(self.weights).to("f64")
        self.residual = self._shown(-(r2 * w))
        total = (self._y - self._y.mean()).square().sum().item()  # without weights, as lmfit has it
        self.rsquared = 1 - r2.square().sum().item() / total if total > 0 else nan

    def _follow(self, rows: Any) -> None:
        """Standard errors of parameters that follow others."""
        for n, p in self.params.items():
            if p.expr is None or rows is None or not self.errorbars:
                continue
            at = [tensor(self.params[v].value).require_grad() for v in self.var_names]
            with enable_grad():
                value = self.params._with(dict(zip(self.var_names, at)))[n]
            p._value = value.item() if isinstance(value, Tensor) else float(value)
            if isinstance(value, Tensor) and value.requires_grad:
                g = [t.item() for t in _core.grad(value, at)]
                p.stderr = math.sqrt(max(0.0, sum(a * rows[i][k] * b for i, a in enumerate(g) for k, b in enumerate(g))))

    def _shown(self, t: Tensor) -> Any:
        return t if self._np is None or isinstance(self.data, Tensor) else self._np.array(t.tolist())

    def residuals(self) -> Any:
        """Model minus data, times the weights."""
        return self.residual

    def eval(self, params: Parameters | None = None, **given: Any) -> Any:
        """The model at the best parameters, or others, and at the data's variables, or others."""
        return self.model.eval(self.params if params is None else params, **{**self.userkws, **given})

    def eval_components(self, **given: Any) -> dict[str, Any]:
        """The values of each model that it is joined of, by prefix or name."""
        return {part.prefix or part.name: part.eval(self.params, **{n: v for n, v in {**self.userkws, **given}.items() if n in part._everything()})
                for part in self.model.components()}

    def eval_uncertainty(self, sigma: float = 1.0, **given: Any) -> Any:
        """Half the width of the confidence band of the model: sigma is a number of standard deviations, or below 1 a probability."""
        return self._shown(self._band(sigma, {**self.userkws, **given}))

    def _band(self, sigma: float, given: dict[str, Any]) -> Tensor:
        if self.covar is None or not self.errorbars:
            raise _core.UnsupportedError("eval_uncertainty: the fit has no covariance: " + self.message)
        x = {n: tensor(v).to("f64") for n, v in given.items()}
        at = [tensor(self.params[v].value).require_grad() for v in self.var_names]
        columns = []
        if self.derivatives == "operators":
            from ._functions import jacrev

            found = jacrev(lambda *p: self.model._values(self.params._with(dict(zip(self.var_names, p))), x), argnums=tuple(range(len(at))))(*at)
            columns = [c.detach().to("f64") for c in found]
        else:
            for i, n in enumerate(self.var_names):
                ends = []
                value = self.params[n].value
                h = 6e-6 * max(abs(value), 1e-3)
                for s in (h, -h):
                    ends.append(tensor(self.model.eval(self.params, **given, **{n: value + s})).to("f64"))
                columns.append((ends[0] - ends[1]) / (2 * h))
        j = _core.stack(columns, -1)
        variance = ((j @ tensor(self.covar)) * j).sum(-1)
        probability = sigma if 0 < sigma < 1 else math.erf(sigma / math.sqrt(2))
        return variance.sqrt() * student_quantile((1 + probability) / 2, self.nfree)

    def predict(self, level: float = 0.95, **given: Any) -> Any:
        """(values, lower, upper): the model and its confidence band of that level."""
        here = {**self.userkws, **given}
        value = tensor(self.model.eval(self.params, **here)).to("f64")
        half = self._band(level, here)
        return self._shown(value), self._shown(value - half), self._shown(value + half)

    def report(self, min_correl: float = 0.1) -> str:
        """Statistics, parameters and correlations as text."""
        lines = [f"[[Model]]\n    {self.model.name}\n[[Fit Statistics]]"]
        for name, value in (("fitting method", "least squares"), ("function evals", self.nfev), ("data points", self.ndata), ("variables", self.nvarys),
                            ("chi-square", f"{self.chisqr:.8g}"), ("reduced chi-square", f"{self.redchi:.8g}"), ("Akaike info crit", f"{self.aic:.8g}"),
                            ("Bayesian info crit", f"{self.bic:.8g}"), ("R-squared", f"{self.rsquared:.8g}")):
            lines.append(f"    {name:<18} = {value}")
        lines.append("[[Variables]]")
        for n, p in self.params.items():
            error = f" +/- {p.stderr:.8g}" + (f" ({100 * abs(p.stderr / p.value):.2f}%)" if p.value else "") if p.stderr is not None else ""
            kind = f" == '{p.expr}'" if p.expr else "" if p.vary else " (fixed)"
            lines.append(f"    {n + ':':<12} {p.value:.8g}{error}{kind}" + (f" (init = {self.init_values[n]:.8g})" if p.vary else ""))
        pairs = sorted(((a, b, c) for i, a in enumerate(self.var_names) for b, c in self.params[a].correl.items() if b in self.var_names[i + 1:]),
                       key=lambda r: -abs(r[2]))
        shown = [f"    C({a}, {b}) = {c:+.4f}" for a, b, c in pairs if abs(c) >= min_correl]
        if shown:
            lines += [f"[[Correlations]] (unreported correlations are < {min_correl:.3f})", *shown]
        if not self.success:
            lines.append(f"    {self.message}")
        return "\n".join(lines)

    fit_report = report

    def plot(self, **settings: Any) -> Any:
        """The data and the fit over the first variable, by matplotlib."""
        import matplotlib.pyplot as plt  # type: ignore[import-not-found, unused-ignore]

        name = next(iter(self.userkws))
        axes = settings.pop("ax", None) or plt.gca()
        order = sorted(range(self.ndata), key=lambda i: self._x[name].tolist()[i])
        x, y = self._x[name].tolist(), tensor(self.best_fit).tolist()
        axes.plot(x, self._y.tolist(), "o", label="data")
        axes.plot([x[i] for i in order], [y[i] for i in order], "-", label="best fit")
        axes.set_xlabel(name)
        axes.legend()
        return axes

    def __repr__(self) -> str:
        return self.report()

    def _repr_html_(self) -> str:
        return self.params._repr_html_()


# ---- Student's distribution ----

def _incomplete_beta(a: float, b: float, x: float) -> float:
    """The regularised incomplete beta function by its continued fraction (Lentz)."""
    if x <= 0 or x >= 1:
        return 0.0 if x <= 0 else 1.0
    if x > (a + 1) / (a + b + 2):
        return 1 - _incomplete_beta(b, a, 1 - x)
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)) / a
    c, d, out = 1.0, 0.0, 1.0
    for i in range(400):
        m = i // 2
        step = 1.0 if i == 0 else m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)) if i % 2 == 0 else -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        d = 1 / (1 + step * d or 1e-300)
        c = 1 + step / c or 1e-300
        out *= c * d
        if abs(1 - c * d) < 1e-15:
            break
    return front * (out - 1)


def student_quantile(p: float, dof: float) -> float:
    """The t below which Student's distribution has the probability p > 1/2."""
    if dof <= 0:
        return nan
    low, high = 0.0, 1.0

    def below(t: float) -> float:
        return 1 - 0.5 * _incomplete_beta(dof / 2, 0.5, dof / (dof + t * t))
    while below(high) < p and high < 1e12:
        high *= 2
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if below(middle) < p else (low, middle)
    return (low + high) / 2
