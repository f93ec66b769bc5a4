"""Functions of the user as the solvers take them: made of operators, or of numbers, with derivatives that are given or differences."""
from __future__ import annotations

from math import inf, log2

from . import _core
from ._core import Tensor
from ._tensor import enable_grad, no_grad, tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Sequence

STEPS = ("2-point", "3-point", "cs")


def numpy_or_none() -> Any:
    try:
        import numpy
    except ImportError:
        return None
    return numpy


def f64(value: Any) -> Tensor:
    """What a function of numbers gave, as a tensor without history."""
    t = value if isinstance(value, Tensor) else value.value if isinstance(value, _core._Virtual) else tensor(value)
    if str(t.dtype) == "bool":
        raise _core.DtypeError("the objective returned true or false, which is no loss")
    return t.detach().to("f64")


class Function:
    """A function of parameters.  Called without arguments it gives a tensor at the parameters' values, with a history.

    tensors     the parameters, leaves; pack(values) makes of values like them what the function is called with
    fun, args   the function of the user
    jac         its derivative: a function, "2-point", "3-point", "cs", or None; packs(values) is its argument
    hess, hessp second derivatives of a function that returns one number

    Operators are tried first if no derivative is given.  A function that raises for tensors, returns no tensor or one without history, or
    reads a value on the host, is one of numbers from then on: `why` says so."""

    def __init__(self, what: str, tensors: list[Tensor], call: Callable[[list[Any]], Any], arrays: bool, *,
                 jac: Any = None, hess: Callable[..., Any] | None = None, hessp: Callable[[list[Any], Any], Any] | None = None,
                 low: Any = None, high: Any = None, step: float | None = None) -> None:
        self.what, self.tensors, self.call, self.arrays = what, tensors, call, arrays
        self.pair = jac is True
        self.jac = jac if callable(jac) else None
        self.how = jac if isinstance(jac, str) else "3-point"
        self.hess, self.hessp, self.low, self.high, self.step = hess, hessp, low, high, step
        self.numbers = jac is not None
        self.probed = self.numbers
        self.why = ""
        self.calls = self.slopes = self.asked = 0  # of the function, of jac, and how often derivatives were wanted
        self.np = numpy_or_none()
        self.recorded: Function | None = None  # in place of this one

    def record(self) -> None:
        """Value and Jacobian are recorded and replayed from here on, if it is made of operators."""
        from ._functions import jacrev, jit

        if not self.numbers:
            with enable_grad():
                self()
        if self.numbers:
            return
        value = jit(lambda *p: self.call(list(p)))
        slope = jit(lambda *p: joined_columns(jacrev(lambda *q: self.call(list(q)), argnums=tuple(range(len(p))))(*p)))
        self.recorded = Function(self.what, self.tensors, lambda given: value(*given), False, jac=lambda given: slope(*given))

    # ---- which kind ----

    def __call__(self) -> Tensor:
        if self.recorded is not None:
            self.calls += 1
            return self.recorded()
        if not self.numbers:
            out: Tensor = self._operators()
            if not self.numbers:
                self.calls += 1
                return out
        return self._of_numbers()

    def _operators(self) -> Any:
        if self.probed:
            return self._plain(self.call(list(self.tensors)))
        self.probed = True
        try:
            value, where = _core._watch_reads(lambda: self.call(list(self.tensors)))
        except Exception as error:
            return self._try_numbers(error)
        value = self._plain(value)
        if where:
            self._take_for_numbers(f"the function reads a value on the host ({where})")
        elif not isinstance(value, Tensor):
            self._take_for_numbers("the function returns a number, not a tensor")
        elif not value.requires_grad and _core.grad_enabled() and str(value.dtype) != "bool":
            self._take_for_numbers("the function returns a tensor without history")
        return value

    def _plain(self, value: Any) -> Any:
        return value.value if isinstance(value, _core._Virtual) else value

    def _take_for_numbers(self, why: str) -> None:
        self.numbers, self.why = True, why
        self.calls += 1

    def _try_numbers(self, error: Exception) -> None:
        """It failed for tensors: does it take numbers?  If not, what it raised first comes out."""
        try:
            with no_grad():
                self._number(self.call(self._given(self._values())))
        except Exception:
            raise error from None
        self._take_for_numbers(f"the function takes no tensors ({type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''})")

    # ---- of numbers ----

    def _values(self) -> list[Tensor]:
        return [t.detach().copy() for t in self.tensors]

    def _given(self, values: list[Tensor]) -> list[Any]:
        """What the function is called with: arrays, or tensors if it was given those."""
        if not self.arrays or self.np is None:
            return list(values)
        return [self.np.array(v.to("f64").tolist(), dtype=float).reshape(v.shape if v.ndim else (1,) if self.lift else ()) for v in values]

    lift = False  # numbers are arrays of one element, as SciPy has them

    settled = False  # are arrays, or tensors, known to be what the function takes?

    def _of_tensors(self, values: list[Tensor], error: Exception) -> Any:
        """The function fails for arrays: it may take values of tensors on the host by their methods."""
        self.arrays = False
        self.calls += 1
        try:
            return self.call(self._given(values))
        except Exception:
            self.arrays = True
            raise error from None

    def _number(self, value: Any) -> Any:
        if isinstance(value, (bool, str, bytes, complex)) or value is None or str(getattr(value, "dtype", "")).startswith("complex"):
            raise TypeError(f"the function must return a Tensor made of its arguments, or a number, not {type(value)!r}")
        return f64(value)

    def value_at(self, values: list[Tensor]) -> tuple[Tensor, Any]:
        """The function there, and the derivative where it gives both."""
        self.calls += 1
        with no_grad():
            try:
                out = self.call(self._given(values))
            except Exception as error:
                if self.settled or not self.arrays:
                    raise
                out = self._of_tensors(values, error)
            self.settled = True
            slope = None
            if self.pair:
                if not isinstance(out, (tuple, list)) or len(out) != 2:
                    raise TypeError(f"{self.what}: with jac=True the function returns (value, derivative)")
                out, slope = out
            return self._number(out), slope

    def _of_numbers(self) -> Tensor:
        values = self._values()
        value, slope = self.value_at(values)
        if not _core.grad_enabled():
            return value
        there = _There(self, values, value, slope)
        return _core._custom(value.copy(), tuple(self.tensors), there.pullback)


class _There:
    """A function of numbers at a point: its derivatives, computed when they are asked for."""

    def __init__(self, f: Function, values: list[Tensor], value: Tensor, slope: Any) -> None:
        self.f, self.values, self.value, self.slope = f, values, value, slope
        self.matrix: Tensor | None = None

    def _flat(self, derivative: Any) -> Tensor:
        """A derivative of the user as a matrix [elements of the result, elements of the parameters]."""
        parts = list(derivative.values()) if isinstance(derivative, dict) else list(derivative) if isinstance(derivative, tuple) else [derivative]
        if hasattr(derivative, "toarray"):
            parts = [derivative.toarray()]
        rows = self.value.size
        n = sum(v.size for v in self.values)
        made = _core.cat([f64(p).drop_names().reshape(rows, -1) for p in parts], 1)
        if made.shape != (rows, n):
            raise ValueError(f"{self.f.what}: the derivative has the shape {made.shape}, {(rows, n)} is needed: elements of the result by parameters")
        return made

    def jacobian(self) -> Tensor:
        if self.matrix is None:
            f = self.f
            f.slopes += 1
            if f.pair:
                self.matrix = self._flat(self.slope if self.slope is not None else f.value_at(self.values)[1])
            elif f.jac:
                with no_grad():
                    self.matrix = self._flat(f.jac(f._given(self.values)))
            else:
                self.matrix = self._differences()
        return self.matrix

    def _differences(self) -> Tensor:
        f, columns, k = self.f, [], 0
        eps = 2**-23 if any(str(v.dtype) == "f32" for v in self.values) else 2**-52
        flat = [v.reshape(-1).to("f64").tolist() for v in self.values]
        for part, row in enumerate(flat):
            for i, here in enumerate(row):
                ends = (-inf, inf) if f.low is None else (f.low[k], f.high[k])
                if f.how == "cs":
                    columns.append(self._complex(part, i))
                else:
                    columns.append(self._difference(flat, part, i, here, eps, ends))
                k += 1
        return _core.stack(columns, 1)

    def _difference(self, flat: list[list[float]], part: int, i: int, here: float, eps: float, ends: tuple[float, float]) -> Tensor:
        total = self.value.reshape(-1) * 0
        row = flat[part]
        for at, weight in difference(here, eps, *ends, one_sided=self.f.how == "2-point", step=self.f.step):
            row[i] = at
            moved = self.value
            if at != here:
                moved = self.f.value_at([tensor(r, dtype="f64").to(v.dtype).reshape(v.shape) for r, v in zip(flat, self.values)])[0]
            total = total + weight * moved.reshape(-1)
        row[i] = here
        return total

    def _complex(self, part: int, i: int) -> Tensor:
        np, f = self.f.np, self.f
        if np is None:
            raise _core.UnsupportedError("jac='cs' needs NumPy")
        given = [np.array(v.to("f64").tolist(), dtype=complex).reshape(v.shape) for v in self.values]
        given[part].reshape(-1)[i] += 1e-30j
        f.calls += 1
        return tensor(np.imag(np.asarray(f.call(given))).astype(float) / 1e-30).reshape(-1)

    def _split(self, flat: Tensor) -> list[Tensor | None]:
        out: list[Tensor | None] = []
        at = 0
        for v in self.values:
            out.append(flat[at:at + v.size].reshape(v.shape).to(v.dtype))
            at += v.size
        return out

    def pullback(self, grad: Tensor) -> list[Tensor | None]:
        self.f.asked += 1
        weight = grad.drop_names().reshape(-1).to("f64")
        matrix = self.jacobian()
        if not _core.grad_enabled():
            return self._split(weight @ matrix)
        if self.value.size != 1:
            if not self.f.hess and not self.f.jac and not self.f.pair:
                return self._split(weight @ matrix)  # differences of differences are no derivatives
            there = weight.detach()

            def again(v: Tensor) -> list[Tensor | None]:
                v = v.detach()
                return [matrix @ v, *self._split(self._bent(there, v))]
            return self._split(_core._custom((there @ matrix).copy(), (weight, *self.f.tensors), again))
        slope = _core._custom(matrix[0].copy(), tuple(self.f.tensors), self.second)
        return self._split(weight * slope)

    def second(self, v: Tensor) -> list[Tensor | None]:
        """The product of the Hessian with v."""
        f = self.f
        n = sum(t.size for t in self.values)
        with no_grad():
            if f.hessp is not None:
                along = v.reshape(self.values[0].shape) if len(self.values) == 1 else v
                product = f64(f.hessp(f._given(self.values), along.numpy() if f.arrays and f.np is not None else along)).reshape(-1)
            elif f.hess is not None:
                product = _times(f.hess(f._given(self.values)), v.detach(), n)
            else:
                product = self._moved(v.detach())
        return self._split(product)

    def _bent(self, weight: Tensor, v: Tensor) -> Tensor:
        """The product with v of the second derivative of weight . f."""
        f = self.f
        with no_grad():
            if f.hess is not None:
                return _times(f.hess(f._given(self.values), weight.numpy() if f.arrays and f.np is not None else weight), v, v.size)
            return self._moved(v, weight)

    def _moved(self, v: Tensor, weight: Tensor | None = None) -> Tensor:
        """By the difference of two gradients, of weight . f."""
        length = v.square().sum().sqrt().item()
        if not length:
            return v * 0
        x = _core.cat([t.reshape(-1).to("f64") for t in self.values], 0)
        size = max(1.0, x.abs().max().item())
        h = (2**-52) ** (1 / 3 if self.f.jac or self.f.pair else 1 / 5) * size / length
        ends = []
        for sign in (1, -1):
            values = [p.detach() for p in self._split(x + sign * h * v) if p is not None]
            value, slope = (self.f.value_at(values) if not self.f.jac else (self.value, None))
            matrix = _There(self.f, values, value, slope).jacobian()
            ends.append(matrix[0] if weight is None else weight @ matrix)
        moved: Tensor = (ends[0] - ends[1]) / (2 * h)
        return moved


def _times(made: Any, v: Tensor, n: int) -> Tensor:
    """The product of v with a matrix of the user: dense, sparse, or an operator with matvec."""
    if hasattr(made, "matvec") and not hasattr(made, "toarray"):
        return f64(made.matvec(v.numpy())).reshape(-1)
    return f64(made.toarray() if hasattr(made, "toarray") else made).reshape(n, n) @ v


def difference(x: float, eps: float, low: float, high: float, one_sided: bool = False, step: float | None = None) -> list[tuple[float, float]]:
    """Points and weights of a slope at x: central, or to the side where there is room; one_sided: of first order."""
    h: float = abs(step) if step else 2.0 ** round(log2(eps ** (1 / 2 if one_sided else 1 / 3) * max(abs(x), 1.0)))
    if one_sided:
        if x + h > high:
            h = -h if x - h >= low else (high - x if high - x >= x - low else low - x)
        return [(x, -1 / h), (x + h, 1 / h)] if h else []
    if low <= x - h and x + h <= high:
        return [(x - h, -1 / (2 * h)), (x + h, 1 / (2 * h))]
    room = max(high - x, x - low)
    if room <= 0:  # held
        return []
    h = min(h, room / 2) * (1 if high - x >= x - low else -1)
    return [(x, -3 / (2 * h)), (x + h, 4 / (2 * h)), (x + 2 * h, -1 / (2 * h))]


def joined(parts: Sequence[Tensor]) -> Tensor:
    return _core.cat([p.drop_names().reshape(-1) for p in parts], 0)


def joined_columns(parts: Sequence[Tensor]) -> Tensor:
    """Jacobians by parameters as one matrix by all their elements."""
    return _core.cat([p.drop_names().reshape(p.shape[0] if p.ndim else 1, -1) for p in parts], 1)
