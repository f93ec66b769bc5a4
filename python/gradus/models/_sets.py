"""One model fitted to several data sets, with parameters that they share."""
from __future__ import annotations

from .. import _core
from .._core import Tensor
from .._tensor import no_grad, tensor
from ._minimizer import MinimizerResult
from ._parameters import Expression, Parameters

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ._model import Model


class SetsResult(MinimizerResult):
    """A fit of several data sets: as a MinimizerResult, and best_fit, residuals and set_params(k) per set.

    Parameters that are not shared are named NAME_1, NAME_2, ... in params."""

    def __init__(self, model: Model, data: list[Any], params: Parameters | None, shared: list[str], weights: Any, given: dict[str, Any]) -> None:
        from .._numbers import numpy_or_none

        self.model, self._np, self.data = model, numpy_or_none(), data
        self.shared, self._count = shared, len(data)
        unknown = [n for n in shared if n not in model.param_names]
        if unknown or not data:
            raise KeyError(f"fit_sets: the model has no parameter '{unknown[0]}'" if unknown else "fit_sets: there are no data")
        self._y = [tensor(y).to("f64") for y in data]
        lost = [n for n in given if n not in model._everything() and n not in model._all_names()]
        if lost:
            raise TypeError(f"fit_sets: there is no parameter or variable '{lost[0]}'")
        missing = [n for n in model.independent_vars if n not in given]
        if missing:
            raise TypeError(f"fit_sets: '{missing[0]}' is not given")
        self._x = [{n: self._one(given[n], k, n) for n in model._everything() if n in given} for k in range(self._count)]
        self._w = [None if weights is None else self._one(weights, k, "weights") for k in range(self._count)]
        for y, w in zip(self._y, self._w):
            if w is not None and w.ndim and w.shape != y.shape:
                raise ValueError(f"fit_sets: weights have the shape {w.shape}, the data {y.shape}")
        self._solve(self._named(params, {n: v for n, v in given.items() if n not in model._everything()}), self._residual, "leastsq")
        values = self.params.valuesdict()
        self.best_fit = [self._show(self._of(k, values)) for k in range(self._count)]
        self.residuals = [self._show((self._of(k, values) - y) * (1.0 if w is None else w)) for k, (y, w) in enumerate(zip(self._y, self._w))]

    def _show(self, t: Tensor) -> Any:
        return t if self._np is None else self._np.array(t.tolist())

    def _one(self, value: Any, k: int, name: str) -> Any:
        """What set k has of a value for all, or of a list with one per set."""
        if isinstance(value, (str, bool)) or value is None:
            return value
        if isinstance(value, (list, tuple)) and not all(isinstance(v, (int, float)) for v in value):
            if len(value) != self._count:
                raise ValueError(f"fit_sets: '{name}' has {len(value)} entries for {self._count} data sets")
            value = value[k]
        return tensor(value).to("f64")

    def name_of(self, name: str, k: int) -> str:
        """What parameter `name` of data set k, from 0, is called in params."""
        return name if name in self.shared else f"{name}_{k + 1}"

    def _named(self, params: Parameters | None, starts: dict[str, Any]) -> Parameters:
        out = Parameters()
        if params is not None:
            if starts:
                raise TypeError("fit_sets: params and starting values are given; one is enough")
            out = params.copy()
            missing = [self.name_of(n, k) for k in range(self._count) for n in self.model.param_names if self.name_of(n, k) not in out]
            if missing:
                raise KeyError(f"fit_sets: params has no '{missing[0]}'")
            return out
        for n, v in starts.items():
            if isinstance(v, (list, tuple)) and (n in self.shared or len(v) != self._count):
                raise ValueError(f"fit_sets: '{n}' has {len(v)} values" + (", but is shared" if n in self.shared else f" for {self._count} data sets"))
        for k in range(self._count):
            own = self.model.make_params(**{n: v[k] if isinstance(v, (list, tuple)) else v for n, v in starts.items()})
            for n, p in own.items():
                if n in self.shared and n in out:
                    continue
                out.add(self.name_of(n, k), None if p.expr else p.value, p.vary, p.min, p.max, p.expr and self._renamed(p.expr, list(own), k))
        return out

    def _renamed(self, text: str, own: list[str], k: int) -> str:
        return Expression(text).renamed({n: self.name_of(n, k) for n in own})

    def _of(self, k: int, values: dict[str, Any]) -> Tensor:
        own = {n: values[self.name_of(n, k)] for n in self.model.param_names}
        operators = any(isinstance(v, Tensor) for v in own.values())
        if operators:
            made = self.model._values(own, self._x[k])
        else:
            try:
                with no_grad():
                    made = self.model._values({n: tensor(float(v)) for n, v in own.items()}, self._x[k])
            except (TypeError, AttributeError):
                made = self.model._values(own, {n: self._np.array(v.tolist()) if isinstance(v, Tensor) and self._np else v for n, v in self._x[k].items()})
        made = made if isinstance(made, Tensor) else tensor(made)
        made = made.to("f64")
        if made.shape != self._y[k].shape:
            raise ValueError(f"fit_sets: the model gives the shape {made.shape}, data set {k + 1} has {self._y[k].shape}")
        return made

    def _residual(self, values: list[Any]) -> Tensor:
        names = [n for n, p in self.params.items() if p.vary]
        operators = isinstance(values[0], Tensor)
        found = self.params._with(dict(zip(names, values if operators else [float(v) for v in values])))
        return _core.cat([((self._of(k, found) - y) * (1.0 if w is None else w)).reshape(-1) for k, (y, w) in enumerate(zip(self._y, self._w))], 0)

    def set_params(self, k: int) -> Parameters:
        """The parameters of data set k, from 0, by the names of the model."""
        out = Parameters()
        for n in self.model.param_names:
            p = self.params[self.name_of(n, k)]
            out.add(n, p.value, p.vary, p.min, p.max)
            out[n].stderr = p.stderr
        return out

    def eval(self, k: int, **given: Any) -> Any:
        """The model with the parameters of data set k, from 0, at its variables or others."""
        return self.model.eval(self.set_params(k), **{**self._x[k], **given})
