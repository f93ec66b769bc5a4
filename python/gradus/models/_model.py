"""Models after the idea of lmfit: fits of Python functions or expressions, with statistics of the library."""
from __future__ import annotations

from math import inf

from .. import _core
from .._core import Tensor
from .._tensor import no_grad, tensor
from ._minimizer import MinimizerResult, method_of, nan_rule, refuse_unknown
from ._parameters import Expression, Parameters
from ._statistics import probability_of, student_quantile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Mapping

    from ._sets import SetsResult


# ---- models ----

class Model:
    """A function, or an expression, with names for its parameters.

        model = gd.Model(lambda x, a, b: a * gd.exp(-b * x))       # or gd.Model("a*exp(-b*x)")
        result = model.fit(y, x=x, a=1, b=0.5)
        print(result.report())

    independent_vars   names of what is given with the data; None: the first argument of a function, "x" of an expression (or "t")
    prefix             goes before the names of the parameters; models are joined by +, -, * and /
    options            arguments of the function that are neither: model = Model(step, form="erf")
    nan_policy         "raise", "omit": points with NaN in the data are left out, or "propagate"
    A function is made of operators, or of NumPy: see curve_fit."""

    def __init__(self, func: Any, independent_vars: Any = None, param_names: Any = None, nan_policy: str = "raise", prefix: str = "",
                 name: str | None = None, **options: Any) -> None:
        import inspect

        self.prefix, self.hints = prefix, {}  # type: ignore[var-annotated]
        self.parts: tuple[Model, Model, Any] | None = None
        self.nan_policy = nan_rule(nan_policy, "Model")
        self._options: dict[str, Any] = dict(options)
        defaults: dict[str, float] = {}
        if isinstance(func, str):
            expression = Expression(func)
            self.independent_vars = _names(independent_vars) or [n for n in ("x", "t") if n in expression.names][:1]
            own = _names(param_names) or [n for n in expression.names if n not in self.independent_vars]
            self.func: Callable[..., Any] = lambda **values: expression(values)
            self.name, self._name = name or func, name or func
        else:
            parameters = [p for p in inspect.signature(func).parameters.values() if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
            if not parameters and param_names is None:
                raise ValueError("Model: the function names no arguments: give independent_vars and param_names")
            self.independent_vars = _names(independent_vars) or [parameters[0].name]
            for p in parameters:
                if p.name in options:
                    continue
                if isinstance(p.default, (int, float)) and not isinstance(p.default, bool):
                    defaults[p.name] = float(p.default)
                elif p.default is not p.empty and p.name not in self.independent_vars:
                    self._options[p.name] = p.default  # no number: a setting
            own = _names(param_names) or [p.name for p in parameters if p.name not in self.independent_vars and p.name not in self._options]
            unknown = [n for n in options if n not in [p.name for p in parameters]]
            if unknown:
                raise TypeError(f"Model: the function has no argument '{unknown[0]}'")
            self.func, self._name = func, name or str(getattr(func, "__name__", "model"))
            self.name = f"Model({self._name})"
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

    @property
    def param_hints(self) -> dict[str, dict[str, Any]]:
        """What set_param_hint gave, by name."""
        return self.hints

    def set_param_hint(self, name: str, **hint: Any) -> None:
        """What make_params gives a parameter: value, vary, min, max, expr."""
        unknown = set(hint) - {"value", "vary", "min", "max", "expr", "brute_step"}
        if unknown:
            raise TypeError(f"set_param_hint: a parameter has no '{sorted(unknown)[0]}'")
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

    def _all_names(self) -> list[str]:
        return list(dict.fromkeys([*self.param_names, *self._all_hints()]))

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
            return sign(a, b) if callable(sign) else a + b if sign == "+" else a - b if sign == "-" else a * b if sign == "*" else a / b
        return self.func(**{n: independent[n] for n in self.independent_vars}, **{n: values[self.prefix + n] for n in self._own},
                         **{n: independent.get(n, v) for n, v in self._options.items()})

    def eval(self, params: Parameters | None = None, **given: Any) -> Any:
        """The model's values: eval(params, x=x), eval(x=x, a=1, b=2)."""
        from .._numbers import numpy_or_none

        np = numpy_or_none()
        own = [n for n in self._everything() if n in given]
        values = (params if params is not None else self.make_params())._with({n: v for n, v in given.items() if n in self.param_names})
        unknown = [n for n in given if n not in own and n not in values]
        if unknown:
            raise TypeError(f"eval: there is no parameter or variable '{unknown[0]}'")
        missing = [n for n in self.independent_vars if n not in own]
        if missing:
            raise TypeError(f"eval: '{missing[0]}' is not given")
        raw = {n: given[n] for n in own}
        try:
            with no_grad():
                out = self._values({n: v if isinstance(v, Tensor) else tensor(float(v)) for n, v in values.items()},
                                   {n: _data(v) for n, v in raw.items()})
        except (TypeError, AttributeError):
            out = self._values(values, raw)
        tensors = any(isinstance(v, Tensor) for v in raw.values())
        return np.array(out.tolist()) if isinstance(out, Tensor) and not tensors and np is not None else out

    def _everything(self) -> list[str]:
        if self.parts:
            return list(dict.fromkeys(self.parts[0]._everything() + self.parts[1]._everything()))
        return [*self.independent_vars, *self._options]

    def fit(self, data: Any, params: Parameters | None = None, weights: Any = None, method: str = "leastsq", iter_cb: Any = None, scale_covar: bool = True,
            verbose: bool = False, fit_kws: Any = None, nan_policy: str | None = None, calc_covar: bool = True, max_nfev: int | None = None, *,
            callback: Any = None, y: Any = None, max_steps: int = 1000, **given: Any) -> "ModelResult":
        """Fits the parameters to data: fit(y, params, x=x), fit(y, x=x, a=1, b=2), or fit(table, params, y="y") with columns by name.

        weights multiply the residuals: 1 / standard deviation; scale_covar=False: they are known, not only their ratios.
        Values for parameters go before those in params.  method: leastsq, or a scalar minimiser: nelder, lbfgsb, bfgs, ...
        iter_cb is called after each step with the parameters, the number of the step and the residuals, and stops the fit by returning True;
        callback with the progress of the step, a dict."""
        known = method_of(method, "fit")
        if y is not None and not isinstance(y, str):  # a variable of that name
            given, y = {**given, "y": y}, None
        if y is not None:
            from .._numbers import numpy_or_none
            from .._tables import columns_of

            np = numpy_or_none()
            table = {n: t if np is None else t.numpy() for n, t in columns_of(data, [y, *[n for n in self.independent_vars if n not in given]], "fit").items()}
            data, given = table.pop(y), {**table, **given}
        params = self.make_params(**{n: v for n, v in given.items() if n in self.param_names}) if params is None else params.copy()
        for n, v in given.items():
            if n in params:
                params[n].set(**(v if isinstance(v, dict) else {"value": float(v)}))
        unknown = [n for n in given if n not in params and n not in self._everything()]
        if unknown:
            raise TypeError(f"fit: there is no parameter or variable '{unknown[0]}'")
        for n in self.independent_vars:
            if n not in given:
                raise TypeError(f"fit: '{n}' is not given")
        lost = [n for n, p in params.items() if p.expr is None and p.value != p.value]
        if lost:
            raise ValueError(f"fit: parameter '{lost[0]}' has no value to start from: fit(..., {lost[0]}=1), or guess()")
        missing = [n for n in self.param_names if n not in params]
        if missing:
            raise KeyError(f"fit: params has no '{missing[0]}'")
        if known == "leastsq":
            refuse_unknown(dict(fit_kws or {}))
        variables = {n: given[n] for n in self._everything() if n in given}
        result = ModelResult(self, params, data, weights, variables, nan_rule(nan_policy or self.nan_policy, "fit"))
        result._fit(known, iter_cb=iter_cb, callback=callback, scale_covar=scale_covar, calc_covar=calc_covar, max_nfev=max_nfev, max_steps=max_steps,
                    settings=dict(fit_kws or {}))
        result.method = method
        return result

    def fit_sets(self, data: Any, params: Parameters | None = None, shared: Any = (), weights: Any = None, **given: Any) -> "SetsResult":
        """Fits several data sets at once: fit_sets([y1, y2], x=[x1, x2], shared=["sigma"], center=[1, 2], sigma=1).

        Parameters in shared have one value for all sets; each other has one per set, named with _1, _2, ... in the result.
        Independent variables and weights are given once for all sets, or as a list with one per set; so are starting values.
        params: Parameters of these names in place of starting values."""
        from ._sets import SetsResult

        return SetsResult(self, list(data), params, _names(shared), weights, given)

    def _join(self, other: Any, sign: str) -> Any:
        if not isinstance(other, Model):
            return NotImplemented
        return CompositeModel(self, other, sign)

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

    def _repr_html_(self) -> str:
        import html

        return (f"<p><b>{html.escape(self.name)}</b>: variables {html.escape(', '.join(self.independent_vars))}</p>"
                + "<table>" + "".join(f"<tr><td>{html.escape(n)}</td></tr>" for n in self.param_names) + "</table>")


class CompositeModel(Model):
    """Two models joined by an operator: "+", "-", "*", "/", or a function of their values, such as a convolution."""

    def __init__(self, left: Model, right: Model, op: Any) -> None:
        import operator

        sign = {operator.add: "+", operator.sub: "-", operator.mul: "*", operator.truediv: "/"}.get(op, op)
        if not callable(sign) and sign not in ("+", "-", "*", "/"):
            raise ValueError(f"CompositeModel: the operator is a function, '+', '-', '*' or '/', not {op!r}")
        shared = set(left.param_names) & set(right.param_names)
        if shared:
            raise NameError(f"both models have a parameter '{sorted(shared)[0]}': give one of them a prefix")
        self.prefix, self.hints, self.parts, self._options, self.defaults = "", {}, (left, right, sign), {}, {}
        self.independent_vars = list(dict.fromkeys(left.independent_vars + right.independent_vars))
        self._own, self._name, self.name = [], "composite", f"({left.name} {sign if isinstance(sign, str) else getattr(sign, '__name__', 'with')} {right.name})"
        self.nan_policy = left.nan_policy
        self.left, self.right, self.op = left, right, op


def _data(value: Any) -> Any:
    """Numbers as a tensor; settings as they are."""
    return value if value is None or isinstance(value, (str, bool)) else tensor(value).to("f64")


def _names(given: Any) -> list[str]:
    return [] if given is None else [given] if isinstance(given, str) else list(given)


def _roots(count: int) -> list[float]:
    """Steps of a sequence that fills a cube evenly (Roberts 2018)."""
    g = 1.5
    for _ in range(60):
        g = (1 + g) ** (1 / (count + 1))
    return [(1 / g) ** (i + 1) % 1 for i in range(count)]


class ModelResult(MinimizerResult):
    """A fit: params with standard errors, best_fit, best_values, residual, chisqr, redchi, aic, bic, rsquared, covar, ndata, nvarys, nfree, nfev, success,
    message; report(), eval(), predict(), eval_uncertainty(), eval_components(), conf_interval(), plot()."""

    def __init__(self, model: Model, params: Parameters, data: Any, weights: Any, given: dict[str, Any], nan_policy: str) -> None:
        from .._numbers import numpy_or_none

        self.model, self.params, self.userkws, self._np = model, params, given, numpy_or_none()
        self._nan_policy = nan_policy
        self._y = tensor(data).to("f64")
        self._w = None if weights is None else tensor(weights).to("f64")
        self._x = {n: _data(v) for n, v in given.items()}
        self.data, self.weights = data, weights
        if nan_policy != "propagate" and not self._y.isfinite().all().item():
            self._leave_out(nan_policy)
        elif nan_policy == "raise":
            for n, t in self._x.items():
                if isinstance(t, Tensor) and not t.isfinite().all().item():
                    raise ValueError(f"fit: '{n}' has numbers that are not finite")
        self._raw = self._x if self._np is None else {n: self._np.array(t.tolist()) if isinstance(t, Tensor) else t for n, t in self._x.items()}

    def _leave_out(self, nan_policy: str) -> None:
        if nan_policy == "raise":
            raise ValueError("fit: the data have numbers that are not finite: nan_policy='omit' leaves them out")
        shape, keep = self._y.shape, self._y.isfinite()

        def kept(t: Any) -> Any:
            return t[keep] if isinstance(t, Tensor) and t.shape == shape else t
        self._y, self._w = self._y[keep], kept(self._w)
        self._x = {n: kept(t) for n, t in self._x.items()}
        self.userkws = {n: v if t is None or not isinstance(t, Tensor) else self._in_form(t, v) for (n, v), t in zip(self.userkws.items(), self._x.values())}
        self.data = self._in_form(self._y, self.data)
        self.weights = None if self._w is None else self._in_form(self._w, self.weights)

    def _in_form(self, t: Tensor, like: Any) -> Any:
        return t if self._np is None or isinstance(like, Tensor) else self._np.array(t.tolist())

    def _fit(self, method: str, iter_cb: Any, callback: Any, **how: Any) -> None:
        self.init_params = self.params.copy()
        self.init_fit = self.model.eval(self.params, **self.userkws)
        names = [n for n, p in self.params.items() if p.vary]

        def residual(values: list[Any]) -> Any:
            operators = not values or isinstance(values[0], Tensor)
            made = self.model._values(self.params._with(dict(zip(names, values if operators else [float(v) for v in values]))), self._x if operators else self._raw)
            if not isinstance(made, Tensor):
                made = tensor(made)
                if operators and _core.grad_enabled():
                    return made
            r = made.to("f64") - self._y
            if r.shape != self._y.shape:
                raise ValueError(f"fit: the model gives the shape {made.shape}, the data have {self._y.shape}")
            return r if self._w is None else r * self._w

        def told(progress: Any, values: Any, f: Any) -> Any:
            if callback is not None:
                return callback(progress)
            here = self.params if values is None else self.params._at(dict(zip(names, values)))
            with no_grad():
                return iter_cb(here, progress["step"], None if f is None else self._shown(f()), **self.userkws)
        self._solve(self.params, residual, method, callback=told if callback is not None or iter_cb is not None else None, nan_policy=self._nan_policy, **how)
        self.best_values = self.params.valuesdict()
        self.best_fit = self.model.eval(self.params, **self.userkws)
        total = (self._y - self._y.mean()).square().sum().item()  # without weights, as lmfit has it
        self.rsquared = 1 - (self._y - tensor(self.best_fit).to("f64")).square().sum().item() / total if total > 0 else float("nan")
        if self._y.shape != self._residual.shape and self._residual.size == self._y.size:
            self.residual = self._shown(self._residual.reshape(self._y.shape))

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
        return {part.prefix or part._name: part.eval(self.params, **{n: v for n, v in {**self.userkws, **given}.items() if n in part._everything()})
                for part in self.model.components()}

    def eval_uncertainty(self, sigma: float = 1.0, **given: Any) -> Any:
        """Half the width of the confidence band of the model: sigma is a number of standard deviations, or below 1 a probability."""
        band = self._shown(self._band(sigma, {**self.userkws, **given}))
        if not given:
            self.dely = band
        return band

    def _band(self, sigma: float, given: dict[str, Any]) -> Tensor:
        if self.covar is None or not self.errorbars:
            raise _core.UnsupportedError("eval_uncertainty: the fit has no covariance: " + self.message)
        x = {n: _data(v) for n, v in given.items()}
        at = [tensor(self.params[v].value).require_grad() for v in self.var_names]
        columns = []
        if self.derivatives == "operators":
            from .._functions import jacrev

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
        return variance.sqrt() * student_quantile((1 + probability_of(sigma)) / 2, self.nfree)

    def predict(self, level: float = 0.95, **given: Any) -> Any:
        """(values, lower, upper): the model and its confidence band of that level."""
        here = {**self.userkws, **given}
        value = tensor(self.model.eval(self.params, **here)).to("f64")
        half = self._band(level, here)
        return self._shown(value), self._shown(value - half), self._shown(value + half)

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

    plot_fit = plot

    def plot_residuals(self, ax: Any = None) -> Any:
        """Data minus fit over the first variable, by matplotlib."""
        import matplotlib.pyplot as plt

        axes = ax or plt.gca()
        name = next(iter(self.userkws))
        axes.plot(self._x[name].tolist(), (self._y - tensor(self.best_fit).to("f64")).tolist(), "o")
        axes.set_xlabel(name)
        return axes
