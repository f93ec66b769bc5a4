"""Parameters by name, with limits and expressions, after the idea of lmfit."""
from __future__ import annotations

import ast
import math
from math import inf, nan

from .. import _core
from .._core import Tensor
from .._tensor import tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Iterator, Mapping


# ---- expressions ----

_FUNCTIONS = ("exp", "log", "log10", "sqrt", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "erf", "erfc", "lgamma", "abs",
              "sign", "floor", "ceil", "log1p", "expm1", "atan2", "maximum", "minimum", "where", "erfcx")
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

    def renamed(self, names: Mapping[str, str]) -> str:
        """Its text with other names."""
        tree = ast.parse(ast.unparse(self.tree), mode="eval").body
        for node in ast.walk(tree):
            if isinstance(node, ast.Name):
                node.id = names.get(node.id, node.id)
        return ast.unparse(tree)

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
        if name == "erfcx":
            from .lineshapes import erfcx as operator
        else:
            operator = getattr(_core, name)
        found = operator(*[a if isinstance(a, Tensor) else tensor(float(a)) for a in args])
        return found if any(isinstance(a, Tensor) for a in args) else found.item()


# ---- parameters ----

class Parameter:
    """A number of a model: value, vary (is it fitted?), min and max, or expr, an expression of others that it follows.

    It stands for its value in arithmetic and NumPy's functions.  After a fit stderr is its standard error and correl its correlations with
    others."""

    def __init__(self, name: str, value: Any = None, vary: bool = True, min: float | None = -inf, max: float | None = inf,
                 expr: str | None = None, brute_step: float | None = None, user_data: Any = None) -> None:
        if not name.isidentifier():
            raise ValueError(f"'{name}' is no name of a parameter")
        self.name, self.vary, self.brute_step, self.user_data = name, bool(vary), brute_step, user_data
        self.min, self.max = _limits(name, min, max)
        self._expression: Expression | None = None
        self._owner: Parameters | None = None
        self._value: Any = nan if value is None else value if isinstance(value, Tensor) else float(value)
        self.expr = expr
        self.stderr: float | None = None
        self.correl: dict[str, float] = {}
        self.init_value = self._value

    @property
    def value(self) -> Any:
        """The number, within min and max.  While a fit takes derivatives it is a tensor."""
        if isinstance(self._value, Tensor):
            return self._value
        if self._expression is not None and self._owner is not None:
            return self._owner._with({})[self.name]
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
            expr: str | None = None, brute_step: float | None = None) -> None:
        """Sets what is given; expr "" takes the expression away."""
        low, high = _limits(self.name, self.min if min is None else min, self.max if max is None else max)
        if expr:
            Expression(expr)  # an error leaves all as it was
        self.min, self.max = low, high
        if value is not None:
            self.value = value
        if vary is not None:
            self.vary = bool(vary)
            if vary:
                self._expression = None
        if expr is not None:
            self.expr = expr
        self.brute_step = self.brute_step if brute_step is None else brute_step

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_owner": None}

    def __float__(self) -> float:
        return float(self.value)

    def __array__(self, *how: Any, **more: Any) -> Any:
        import numpy as np

        return np.asarray(float(self), *how, **more)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **keywords: Any) -> Any:
        return getattr(ufunc, method)(*[i.value if isinstance(i, Parameter) else i for i in inputs], **keywords)

    def __bool__(self) -> bool:
        return bool(self.value)

    def __eq__(self, other: object) -> Any:
        return self.value == (other.value if isinstance(other, Parameter) else other)

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        error = f" +/- {self.stderr:.3g}" if self.stderr is not None else "" if self.vary or self.expr else " (fixed)"
        limits = f", bounds=[{self.min:g}:{self.max:g}]" if self.min > -inf or self.max < inf else ""
        follows = f", expr={self.expr!r}" if self.expr else ""
        shown = self.value if isinstance(self.value, Tensor) else f"{self.value:.8g}"
        return f"<Parameter '{self.name}', value={shown}{error}{limits}{follows}>"


def _limits(name: str, low: float | None, high: float | None) -> tuple[float, float]:
    ends = -inf if low is None else float(low), inf if high is None else float(high)
    if not ends[0] < ends[1]:
        raise ValueError(f"parameter '{name}': min {ends[0]:g} is not below max {ends[1]:g}")
    return ends


def _as_numbers() -> None:
    """Parameters calculate as their values do."""
    import operator

    def forward(of: Callable[..., Any]) -> Callable[..., Any]:
        return lambda self, *other: of(self.value, *[o.value if isinstance(o, Parameter) else o for o in other])

    def reflected(of: Callable[..., Any]) -> Callable[..., Any]:
        return lambda self, other: of(other, self.value)
    for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow"):
        of = getattr(operator, name)
        setattr(Parameter, f"__{name}__", forward(of))
        setattr(Parameter, f"__r{name}__", reflected(of))
    for name in ("neg", "pos", "abs", "lt", "le", "gt", "ge", "ne"):
        setattr(Parameter, f"__{name}__", forward(getattr(operator, name)))


_as_numbers()


class Parameters(dict):  # type: ignore[type-arg]
    """Parameters by name: params.add("a", value=1, min=0), params["a"].value."""

    def add(self, name: Any, value: float | None = None, vary: bool = True, min: float | None = -inf, max: float | None = inf,
            expr: str | None = None, brute_step: float | None = None) -> None:
        """One more, or another of that name; a Parameter is taken as it is."""
        self[name.name if isinstance(name, Parameter) else name] = name if isinstance(name, Parameter) else Parameter(
            name, value, vary, min, max, expr, brute_step)

    def add_many(self, *rows: Any) -> None:
        """Several: (name, value, vary, min, max, expr), as many of these as are wanted."""
        for row in rows:
            self.add(*(row if isinstance(row, tuple) else (row,)))

    def set(self, **values: Any) -> None:
        """Changes parameters by name: numbers, or dicts with value, vary, min, max, expr."""
        for name in values:
            if name not in self:
                raise KeyError(f"set: there is no parameter '{name}': there are {', '.join(self)}")
        for name, value in values.items():
            self[name].set(**(value if isinstance(value, dict) else {"value": value}))

    def __setitem__(self, name: str, value: Any) -> None:
        if not isinstance(value, Parameter):
            raise TypeError(f"Parameters: a Parameter is needed, not {type(value).__name__}; params['{name}'].value = ... sets a number")
        super().__setitem__(name, value)
        value._owner = self

    def update(self, *others: Any, **more: Any) -> None:
        """Takes the parameters of others, too."""
        for name, p in dict(*others, **more).items():
            self[name] = p

    def __add__(self, other: Any) -> "Parameters":
        if not isinstance(other, Parameters):
            return NotImplemented
        out = self.copy()
        out.update(other.copy())
        return out

    def __iadd__(self, other: Any) -> "Parameters":
        self.update(other)
        return self

    def valuesdict(self) -> dict[str, Any]:
        """The values by name, those of expressions computed; tensors while a fit takes derivatives."""
        live = any(isinstance(p._value, Tensor) for p in self.values())
        return {n: v if live else float(v.item() if isinstance(v, Tensor) else v) for n, v in self._with({}).items()}

    def eval(self, text: str) -> Any:
        """The value of an expression of the parameters."""
        return Expression(text)(self.valuesdict())

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
                values[p.name] = _clipped(p._expression(values), p.min, p.max)
            waiting = [p for p in waiting if p.name not in values]
        return {n: values[n] for n in self}

    def _at(self, given: Mapping[str, Any]) -> "Parameters":
        """A copy with these values and those that follow: what a function of the user is called with."""
        out, values = self.copy(), self._with(given)
        for name, p in out.items():
            p._expression, p._value = None, values[name]
        return out

    def _follow(self) -> None:
        """Values of expressions are put into their parameters."""
        for name, value in self._with({}).items():
            self[name]._value = value.item() if isinstance(value, Tensor) else value

    def copy(self) -> "Parameters":
        """Parameters of their own."""
        import copy

        return copy.deepcopy(self)

    def __copy__(self) -> "Parameters":
        return self.copy()

    def __deepcopy__(self, memo: Any) -> "Parameters":
        out = Parameters()
        for name, p in self.items():
            q = Parameter(p.name, p._value, p.vary, p.min, p.max, None, p.brute_step, p.user_data)
            q._expression, q.stderr, q.correl, q.init_value = p._expression, p.stderr, dict(p.correl), p.init_value
            out[name] = q
        return out

    def __reduce__(self) -> Any:
        return (_parameters_of, (dict(self),))

    def dumps(self, **how: Any) -> str:
        """All as text of JSON, which loads() reads."""
        import json

        return json.dumps([[p.name, None if p._value != p._value else p._value, p.vary, None if p.min == -inf else p.min, None if p.max == inf else p.max,
                            p.expr, p.stderr, p.correl] for p in self.values()], **how)

    def loads(self, text: str) -> "Parameters":
        """Reads what dumps() gave in place of all that is here."""
        import json

        made = []
        for name, value, vary, low, high, expr, stderr, correl in json.loads(text):
            p = Parameter(name, value, vary, low, high, expr)
            p.stderr, p.correl = stderr, dict(correl)
            made.append(p)
        self.clear()
        for p in made:
            self.add(p)
        return self

    def pretty_print(self, *unused: Any, **how: Any) -> None:
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


def _clipped(value: Any, low: float, high: float) -> Any:
    if isinstance(value, Tensor):
        return value if low == -inf and high == inf else value.clamp(low, high)
    return value if value != value else max(low, min(high, value))


def create_params(**values: Any) -> Parameters:
    """Parameters by name: numbers, or dicts with value, vary, min, max, expr."""
    out = Parameters()
    for name, value in values.items():
        if isinstance(value, Parameter):
            out[name] = value
        else:
            out.add(name, **(value if isinstance(value, dict) else {"value": value}))
    return out


def _parameters_of(items: dict[str, Parameter]) -> Parameters:
    out = Parameters()
    for name, p in items.items():
        out[name] = p
    return out
