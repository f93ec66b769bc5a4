"""evaluate of minimize: one function for everything that an objective has at a point."""
from __future__ import annotations

from . import _core
from ._core import Tensor
from ._numbers import numpy_or_none
from ._tensor import tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

QUANTITIES = ("loss", "gradient", "equal", "below", "equal_jacobian", "below_jacobian", "hessian", "residuals", "residual_jacobian")


class Request:
    """What fun(x, request) is to compute: see evaluate of minimize.

    wanted       names of the quantities, a tuple
    new_point    False: x is that of the call before
    weight, multipliers   of the Hessian; multipliers has one number per constraint, equal before below"""

    def __init__(self, wanted: tuple[str, ...], new_point: bool, weight: float, multipliers: list[float]) -> None:
        self.wanted, self.new_point, self.weight, self.multipliers = wanted, new_point, weight, multipliers

    def __contains__(self, name: str) -> bool:
        return name in self.wanted


class Evaluation:
    """The user's function as the solver calls it: once per point for all values, and again for derivatives there."""

    numbers, why, pair, jac = False, "", False, None

    def __init__(self, problem: Any, fun: Callable[..., Any], args: tuple[Any, ...], names: Any) -> None:
        self.problem, self.fun, self.args = problem, fun, args
        self.names = tuple(names.replace(",", " ").split()) if isinstance(names, str) else tuple(names)
        unknown = [n for n in self.names if n not in QUANTITIES]
        if unknown or not self.names:
            raise ValueError(f"minimize: evaluate: '{', '.join(map(str, unknown))}' is none of {', '.join(QUANTITIES)}")
        self.gives = sum(1 << QUANTITIES.index(n) for n in set(self.names))
        slopes = {"loss": "gradient", "residuals": "residual_jacobian", "equal": "equal_jacobian", "below": "below_jacobian"}
        self.operators = any(v in self.names and d not in self.names for v, d in slopes.items())
        self.n = sum(problem.point.sizes)
        self.calls = self.slopes = 0

    def _given(self) -> list[Any]:
        """Tensors where autograd differentiates, else what x0 is."""
        np = numpy_or_none()
        point = self.problem.point
        if self.operators or not self.problem.arrays or np is None:
            return list(point.tensors)
        return [np.array(t.tolist(), dtype=float).reshape(t.shape if t.ndim else (1,) if self.problem.numbers else ()) for t in point.tensors]

    def _shaped(self, name: str, value: Any, rows: int) -> Tensor:
        t = _as_tensor_of(value)
        t = t if name in ("loss", "equal", "below", "residuals") else t.detach()
        if name == "hessian":
            return t.drop_names().reshape(self.n, self.n)
        if name.endswith("jacobian"):
            return t.drop_names().reshape(-1, self.n)
        return t.drop_names().reshape(-1)

    def call(self, wanted: int, new_point: bool, weight: float, multipliers: Any) -> tuple[Any, ...]:
        request = Request(tuple(n for i, n in enumerate(QUANTITIES) if wanted >> i & 1), new_point, weight, multipliers or [])
        point = self.problem.point
        given = self._given()
        self.calls += new_point
        self.slopes += any(n.endswith(("gradient", "jacobian")) for n in request.wanted)
        if point.form == "dict":
            out = self.fun(request=request, **dict(zip(point.names, given)), **({"args": self.args} if self.args else {}))
        else:
            out = self.fun(*given, request, *self.args)
        if not isinstance(out, dict):
            raise TypeError(f"minimize: with evaluate, fun returns a dict of results by name, not {type(out).__name__}")
        for name in request.wanted:
            if out.get(name) is None:
                raise KeyError(f"minimize: evaluate: fun was to compute '{name}', its results have {', '.join(map(repr, out)) or 'nothing'}")
        return tuple(self._shaped(n, out[n], 0) if n in request.wanted else None for n in QUANTITIES)

    def __call__(self) -> Tensor:
        """The loss where the parameters are, for derivatives of the result."""
        name = "loss" if "loss" in self.names else "residuals"
        value = self.call(1 << QUANTITIES.index(name), True, 1.0, None)[QUANTITIES.index(name)]
        made: Tensor = value.square().sum() if name == "residuals" else value.reshape(())
        return made

    def gradient(self) -> Tensor | None:
        """As it is given, or None."""
        if "gradient" not in self.names:
            return None
        out: Tensor = self.call(1 | 2, True, 1.0, None)[1]
        return out


def _as_tensor_of(value: Any) -> Tensor:
    t = value if isinstance(value, Tensor) else value.value if isinstance(value, _core._Virtual) else tensor(value)
    return t if str(t.dtype).startswith(("f", "bf")) else t.to("f64")
