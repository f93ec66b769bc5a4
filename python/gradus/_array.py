"""The functions of the array API standard, and NumPy's habits beyond it, made of the operators of the library.

Every function takes tensors, arrays, lists and numbers; gradients flow through everything except counts and comparisons.
Axes are numbers or names."""
# mypy: disable-error-code="no-any-return"
from __future__ import annotations

import math
import operator
from collections import namedtuple

from . import _core
from ._core import Tensor
from ._dtypes import Dtype, bool_, dtype_of, f32, f64, i64, result_type
from ._tensor import tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Sequence

e, inf, nan, pi, newaxis = math.e, math.inf, math.nan, math.pi, None

# the standard's names of operators
acos, asin, atan, atan2 = _core.acos, _core.asin, _core.atan, _core.atan2
bitwise_and, bitwise_or, bitwise_xor, bitwise_invert = _core.bit_and, _core.bit_or, _core.bit_xor, _core.bit_not
bitwise_left_shift, bitwise_right_shift = _core.shift_left, _core.shift_right
divide, multiply, subtract, negative = _core.div, _core.mul, _core.sub, _core.neg
equal, not_equal, less, less_equal, greater, greater_equal = _core.eq, _core.ne, _core.lt, _core.le, _core.gt, _core.ge
floor_divide, remainder = _core.floor_div, _core.mod
reshape = _core.reshape


def _t(x: Any) -> Tensor:
    return x if isinstance(x, Tensor) else _core.asarray(x)


def _axis(x: Tensor, axis: Any, what: str) -> int:
    """An axis as a number from 0."""
    if isinstance(axis, str):
        if axis not in x.axes:
            raise _core.AxisError(f"{what}: there is no axis '{axis}'; the axes are {', '.join(map(str, x.axes))}")
        return x.axes.index(axis)
    k = operator.index(axis)
    if not -x.ndim <= k < x.ndim:
        raise _core.OutOfRangeError(f"{what}: there is no axis {k}, the tensor has {x.ndim}")
    return k % x.ndim


def _axes(x: Tensor, axis: Any, what: str) -> list[int]:
    """Axes as numbers from 0; None: all."""
    if axis is None:
        return list(range(x.ndim))
    found = [_axis(x, a, what) for a in (axis if isinstance(axis, (tuple, list)) else (axis,))]
    if len(set(found)) != len(found):
        raise _core.AxisError(f"{what}: an axis is named twice")
    return found


def _part(x: Tensor, axis: int, *which: Any) -> Tensor:
    return x[(slice(None),) * axis + which]


def _floating(x: Tensor) -> Tensor:
    return x if x.dtype.kind == "f" else x.to(f64)


def _placed(x: Tensor, device: Any) -> Tensor:
    return x if device is None else x.to(device=device)


# ---- making ----

def arange(start: float, /, stop: float | None = None, step: float = 1, dtype: Any = None, *, device: str | None = None) -> Tensor:
    """start, start + step, ... below stop; arange(n) counts from 0.  Whole numbers give i64."""
    if stop is None:
        start, stop = 0, start
    if dtype is None and device is None and type(start) is type(stop) is type(step) is int:
        return _core._arange(start, stop, step, i64)
    start, stop, step = (x.item() if hasattr(x, "item") else x for x in (start, stop, step))
    whole = all(isinstance(x, int) for x in (start, stop, step))
    return _placed(_core._arange(start, stop, step, dtype or (i64 if whole else f64)), device)


def eye(n_rows: int, n_cols: int | None = None, /, dtype: Any = None, *, k: int = 0, device: str | None = None,
        columns: int | None = None) -> Tensor:
    """Ones on a diagonal: k above the main one."""
    columns = columns if columns is not None else n_rows if n_cols is None else n_cols
    if k == 0:
        return _placed(_core._eye(n_rows, columns, dtype or f64), device)
    made = arange(n_rows)[:, None] + k == arange(columns)[None, :]
    return _placed(made.to(dtype or f64), device)


def asarray(obj: Any, /, dtype: Any = None, *, device: str | None = None, copy: bool | None = None) -> Tensor:
    """A tensor over the same memory if obj is an array (NumPy, any buffer, any object with __dlpack__) of a supported dtype; else a copy.
    copy=True always copies, copy=False raises ValueError instead of copying."""
    made = _core.tensor(obj, dtype) if copy else _core.asarray(obj, dtype)
    if device is not None and device != made.device:
        if copy is False:
            raise ValueError(f"asarray: copy=False, but the array is on {made.device}, not on {device}")
        made = made.to(device=device)
    if copy is False:
        shared = isinstance(obj, Tensor) or hasattr(obj, "__dlpack__") or hasattr(obj, "__array_interface__")
        if not shared or made.dtype != dtype_of(obj):
            raise ValueError("asarray: copy=False, but it needs one")
    return made


def from_dlpack(x: Any, /, *, device: str | None = None, copy: bool | None = None) -> Tensor:
    """A tensor over the memory of an object with __dlpack__: NumPy, PyTorch, JAX, CuPy."""
    made = _core.from_dlpack(x)
    if device is not None and device != made.device:
        if copy is False:
            raise ValueError(f"from_dlpack: copy=False, but the array is on {made.device}, not on {device}")
        return made.to(device=device)
    return made.copy() if copy else made


def full(shape: Any, fill_value: Any, dtype: Any = None, device: str | None = None) -> Tensor:
    """Every element the value; its dtype is that of the value: whole numbers give i64, flags bool."""
    if isinstance(fill_value, Tensor):
        return _placed(_core.zeros(shape, dtype or fill_value.dtype) + fill_value.to(dtype or fill_value.dtype), device)
    if dtype is None:
        dtype = bool_ if isinstance(fill_value, bool) else i64 if isinstance(fill_value, int) else f64
    if isinstance(fill_value, int) and not isinstance(fill_value, bool) and abs(fill_value) >= 2 ** 53 and dtype_of(dtype) == i64:
        return _placed(broadcast_to(tensor(fill_value, dtype=dtype), _shape(shape)).copy(), device)
    return _core.full(shape, fill_value, dtype, device)


def _shape(shape: Any) -> tuple[int, ...]:
    return tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)


def empty_like(x: Any, /, *, dtype: Any = None, device: str | None = None) -> Tensor:
    """A tensor like x whose elements have no particular value."""
    return _core.zeros_like(_t(x), dtype=dtype, device=device)


def full_like(x: Any, /, fill_value: Any = None, *, dtype: Any = None, device: str | None = None, value: Any = None) -> Tensor:
    """A tensor like x with one value everywhere."""
    x, fill_value = _t(x), value if fill_value is None else fill_value
    if isinstance(fill_value, Tensor) or (isinstance(fill_value, int) and abs(fill_value) >= 2 ** 53):
        return _filled_like(x, fill_value, dtype, device)
    return _core.full_like(x, fill_value, dtype=dtype, device=device)


def _filled_like(x: Tensor, value: Any, dtype: Any, device: str | None) -> Tensor:
    zeros = _core.zeros_like(x, dtype=dtype, device=device)
    return zeros + (value.to(zeros.dtype) if isinstance(value, Tensor) else tensor(value, dtype=zeros.dtype))


def linspace(start: float, stop: float, /, num: int | None = None, dtype: Any = None, *, device: str | None = None, endpoint: bool = True,
             count: int | None = None) -> Tensor:
    """num numbers in equal steps from start to stop; endpoint=False excludes stop."""
    n = num if num is not None else count
    if n is None:
        raise TypeError("linspace() needs 'num', how many")
    if n and not endpoint:
        made = _core.linspace(start, stop, n + 1, f64)[:-1].to(dtype or f64)
        return _placed(made.copy(), device)
    if dtype is not None and dtype_of(dtype).kind != "f":
        return _placed(_core.linspace(start, stop, n, f64).to(dtype), device)
    return _core.linspace(start, stop, n, dtype or f64, device)


def meshgrid(*arrays: Any, indexing: str = "xy") -> list[Tensor]:
    """Vectors as axes of one grid: "xy", the first along columns, or "ij"."""
    if indexing not in ("xy", "ij"):
        raise ValueError(f"meshgrid: indexing is 'xy' or 'ij', not {indexing!r}")
    parts = [_t(a) for a in arrays]
    n = len(parts)
    order = list(range(n))
    if indexing == "xy" and n > 1:
        order[:2] = [1, 0]
    shaped = [p.reshape([-1 if k == place else 1 for k in range(n)]) if n else p for p, place in zip(parts, order)]
    return broadcast_arrays(*shaped)




# ---- dtypes ----

def astype(x: Any, dtype: Any, /, *, copy: bool = True, device: str | None = None) -> Tensor:
    """The tensor in another dtype."""
    x = _t(x)
    same = x.dtype == dtype_of(dtype) and device in (None, x.device)
    return (x.copy() if copy else x) if same else _placed(x.to(dtype), device)


# ---- element-wise ----

def positive(x: Any, /) -> Tensor:
    """x."""
    return _t(x)


def clip(x: Any, /, min: Any = None, max: Any = None) -> Tensor:
    """x between min and max, numbers or tensors; None: no bound there."""
    x = _t(x)
    if x.dtype.kind == "f" and all(b is None or isinstance(b, (int, float)) for b in (min, max)) and not (min != min or max != max):
        return _core.clamp(x, -inf if min is None else min, inf if max is None else max)
    for bound, choose in ((min, _core.maximum), (max, _core.minimum)):
        if bound is not None:
            kept = _t(bound) if not isinstance(bound, (int, float)) else bound
            x = choose(x, kept.to(x.dtype) if isinstance(kept, Tensor) and kept.dtype != x.dtype and kept.dtype.kind == x.dtype.kind else kept)
    return x


def isclose(a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Tensor:
    """Is |a - b| <= atol + rtol |b|, element by element?"""
    a, b = _t(a), _t(b)
    same = a == b
    near = (_floating(a) - _floating(b)).abs() <= atol + rtol * _floating(b).abs()
    close = _core.bit_or(same, _core.bit_and(near, _core.isfinite(_floating(b))))
    return _core.bit_or(close, _core.bit_and(_core.isnan(a), _core.isnan(b))) if equal_nan else close


def allclose(a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> bool:
    """Are all elements close, as isclose says?"""
    return bool(isclose(a, b, rtol, atol, equal_nan).all())


def array_equal(a: Any, b: Any) -> bool:
    """Have both the same shape and elements?"""
    a, b = _t(a), _t(b)
    return a.shape == b.shape and bool((a == b).all())


# ---- statistics ----

def var(x: Any, /, axis: Any = None, dtype: Any = None, *, correction: float = 0, keepdims: bool = False, ddof: float | None = None) -> Tensor:
    """The mean square distance from the mean, divided by n - correction."""
    x = _t(x) if dtype is None else _t(x).to(dtype)
    x, correction = _floating(x), correction if ddof is None else ddof
    if isinstance(axis, (tuple, list)) and not axis:  # each element is a mean of its own
        return x * 0 if correction < 1 else x * nan
    if correction == int(correction) and x.ndim:
        return _core.variance(x, None if axis is None else tuple(_axes(x, axis, "var")), int(correction), keepdims)
    count = math.prod(x.shape[k] for k in _axes(x, axis, "var"))
    own = None if axis is None else tuple(_axes(x, axis, "var"))
    total = (x - _core.mean(x, own, True)).square().sum(own, keepdims)
    return total / (count - correction) if count > correction else total * nan


def std(x: Any, /, axis: Any = None, dtype: Any = None, *, correction: float = 0, keepdims: bool = False, ddof: float | None = None) -> Tensor:
    """The root of var."""
    return var(x, axis, dtype, correction=correction, keepdims=keepdims, ddof=ddof).sqrt()


def count_nonzero(x: Any, /, *, axis: Any = None, keepdims: bool = False) -> Tensor:
    """How many elements are not 0."""
    x = _t(x)
    return (x != 0).to(i64).sum(None if axis is None else tuple(_axes(x, axis, "count_nonzero")), keepdims)  # () are no axes


def _along(x: Tensor, axis: Any, what: str) -> tuple[Tensor, int]:
    if axis is None:
        if x.ndim > 1:
            raise _core.AxisError(f"{what}: a tensor with {x.ndim} axes needs axis=")
        axis = 0
    return (x if x.ndim else x.reshape(1)), (0 if x.ndim == 0 else _axis(x, axis, what))


def _with_first(x: Tensor, out: Tensor, k: int, first: float, include_initial: bool) -> Tensor:
    if not include_initial:
        return out
    shape = [1 if i == k else n for i, n in enumerate(x.shape)]
    return _core.cat([_core.full(shape, first, out.dtype), out], k)


def cumulative_sum(x: Any, /, *, axis: Any = None, dtype: Any = None, include_initial: bool = False) -> Tensor:
    """Running sums along an axis."""
    x, k = _along(_t(x), axis, "cumulative_sum")
    return _with_first(x, _core.cumsum(x, k, dtype=dtype), k, 0, include_initial)


def cumulative_prod(x: Any, /, *, axis: Any = None, dtype: Any = None, include_initial: bool = False) -> Tensor:
    """Running products along an axis, by doubling: log2(n) passes."""
    x, k = _along(_t(x), axis, "cumulative_prod")
    out = x.to(dtype) if dtype is not None else x if x.dtype.kind == "f" else x.to(i64)
    step, n = 1, x.shape[k]
    while step < n:
        head, back, front = _part(out, k, slice(None, step)), _part(out, k, slice(None, n - step)), _part(out, k, slice(step, None))
        out = _core.cat([head, front * back], k)
        step *= 2
    return _with_first(x, out, k, 1, include_initial)


def cumprod(x: Any, /, axis: Any = None, dtype: Any = None) -> Tensor:
    """Running products along an axis; of all elements if there is none given."""
    x = _t(x)
    return cumulative_prod(x.reshape(-1) if axis is None else x, axis=0 if axis is None else axis, dtype=dtype)


def _quantiles(x: Tensor, q: Tensor, k: int) -> Tensor:
    """Linear between neighbours; the quantiles are the first axis."""
    ordered = _core.sort(x, k)
    n = x.shape[k]
    place = q * (n - 1)
    low = _core.floor(place)
    below, above = take(ordered, low.to(i64), axis=k), take(ordered, clip(low + 1, 0, n - 1).to(i64), axis=k)
    share = (place - low).to(x.dtype).reshape([-1 if i == k else 1 for i in range(x.ndim)])
    out = below + (above - below) * share
    return _core.where(_core.isnan(x).any(k, True), nan, out) if x.dtype.kind == "f" else out


def quantile(x: Any, /, q: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The values below which the shares q of the elements lie, linear between neighbours; several q are the first axis."""
    x, at = _floating(_t(x)), _t(q).to(f64)
    if not bool(((at >= 0) & (at <= 1)).all()):
        raise ValueError("quantile: q lies between 0 and 1")
    flat, k = (x.reshape(-1), 0) if axis is None or x.ndim == 0 else (x, _axis(x, axis, "quantile"))
    if flat.shape[k] == 0:
        raise _core.ShapeError("quantile: the axis has no elements")
    out = _quantiles(flat, at.reshape(-1), k)
    if at.ndim == 0:
        out = squeeze(out, k)
        return out if not keepdims else out.reshape([1] * x.ndim) if axis is None else expand_dims(out, axis=k)
    out = moveaxis(out, k, 0)
    return out if not keepdims else out.reshape([-1] + [1] * x.ndim) if axis is None else expand_dims(out, axis=k + 1)


def median(x: Any, /, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The middle of the elements in order, of an even number the mean of the two in the middle."""
    return quantile(x, 0.5, axis, keepdims)


# ---- searching, sorting, sets ----

def argsort(x: Any, /, axis: Any = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """The indices that sort the elements along an axis; equal ones keep their order."""
    x = _t(x)
    return _core.argsort(x, -1 if axis is None else axis, descending) if x.ndim else _core.zeros((), i64)


def sort(x: Any, /, axis: Any = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """The sorted elements along an axis; NaN is the largest."""
    x = _t(x)
    return _core.sort(x, -1 if axis is None else axis, descending) if x.ndim else x.copy()


topk_result = namedtuple("topk_result", "values indices")


def topk(x: Any, /, k: int, axis: Any = -1, largest: bool = True) -> Any:
    """The k largest elements along an axis, sorted, and their indices."""
    x = _t(x)
    at = _axis(x, axis, "topk")
    if not 0 <= k <= x.shape[at]:
        raise ValueError(f"topk: {k} of {x.shape[at]} elements")
    places = _part(_core.argsort(x, at, largest), at, slice(None, k))
    return topk_result(_core.gather(x, at, places), places)


def nonzero(x: Any, /) -> tuple[Tensor, ...]:
    """The indices of elements that are not 0, a tensor for each axis."""
    x = _t(x).detach()
    if x.ndim == 0:
        raise _core.ShapeError("nonzero: a number has no places; reshape(-1) gives it an axis")
    flat = _core.drop_names(x != 0).reshape(-1)
    return _unraveled(arange(x.size)[flat], x.shape)


def _unraveled(place: Tensor, shape: tuple[int, ...]) -> tuple[Tensor, ...]:
    out = []
    for n in reversed(shape):
        out.append(place % n)
        place = place // n
    return tuple(reversed(out))


def searchsorted(x1: Any, x2: Any, /, *, side: str = "left", sorter: Any = None) -> Tensor:
    """The insertion indices of elements of x2 in the sorted x1: before equal ones, or with side="right" after them."""
    if side not in ("left", "right"):
        raise ValueError(f"searchsorted: side is 'left' or 'right', not {side!r}")
    row, values = _t(x1).detach(), _t(x2).detach()
    if sorter is not None:
        row = take(row, _t(sorter), axis=0)
    n = row.shape[0]
    low, high = _core.zeros(values.shape, i64), _core.full(values.shape, n, i64)
    for _ in range(n.bit_length()):
        middle = (low + high) // 2
        here = row[clip(middle, 0, n - 1)]
        before = here < values if side == "left" else here <= values
        if row.dtype.kind == "f" or values.dtype.kind == "f":  # NaN is the largest
            lost = _core.isnan(_floating(values))
            kept = _core.logical_not(_core.isnan(here))
            before = before | (lost & kept) if side == "left" else before | lost
        open_ = low < high
        low, high = _core.where(open_ & before, middle + 1, low), _core.where(open_ & _core.logical_not(before), middle, high)
    return low


unique_all_result = namedtuple("unique_all_result", "values indices inverse_indices counts")
unique_counts_result = namedtuple("unique_counts_result", "values counts")
unique_inverse_result = namedtuple("unique_inverse_result", "values inverse_indices")


def unique_all(x: Any, /) -> Any:
    """The sorted unique elements, their first indices, the inverse indices, and their counts."""
    x = _t(x)
    flat = _core.drop_names(x).reshape(-1)
    order = _core.argsort(flat)
    ordered = flat[order]
    changes = _core.cat([_core.full((1,), 1, bool_), ordered[1:] != ordered[:-1]], 0) if flat.size else _core.zeros((0,), bool_)
    starts = arange(flat.size)[changes]
    counts = _core.cat([starts[1:], tensor([flat.size])], 0) - starts if flat.size else starts
    inverse = _core.zeros((flat.size,), i64)
    inverse[order] = _core.cumsum(changes.to(i64), 0) - 1
    return unique_all_result(ordered[changes], order[changes], inverse.reshape(x.shape), counts)


def unique_counts(x: Any, /) -> Any:
    """The sorted unique elements and their counts."""
    found = unique_all(x)
    return unique_counts_result(found.values, found.counts)


def unique_inverse(x: Any, /) -> Any:
    """The sorted unique elements and the inverse indices."""
    found = unique_all(x)
    return unique_inverse_result(found.values, found.inverse_indices)


def unique_values(x: Any, /) -> Tensor:
    """The sorted unique elements."""
    found: Tensor = unique_all(x).values
    return found


def isin(x1: Any, x2: Any, /, *, invert: bool = False) -> Tensor:
    """Is each element of x1 one of x2's?"""
    x, among = _t(x1), sort(_t(x2).reshape(-1))
    if not among.size:
        return _core.zeros(x.shape, bool_) if not invert else _core.ones(x.shape, bool_)
    found = take(among, clip(searchsorted(among, x), 0, among.size - 1).reshape(-1), axis=0).reshape(x.shape) == x
    return _core.logical_not(found) if invert else found


# ---- picking ----

def take(x: Any, indices: Any, /, *, axis: Any = None) -> Tensor:
    """Elements at indices along an axis."""
    x, at = _t(x), _t(indices)
    k = 0 if axis is None and x.ndim == 1 else _axis(x, axis, "take") if axis is not None else None
    if k is None:
        x, k = x.reshape(-1), 0
    return _part(x, k, at)


def take_along_axis(x: Any, indices: Any, /, *, axis: Any = -1) -> Tensor:
    """x at indices along one axis, with the other axes unchanged; sizes of 1 are broadcast."""
    x, at = _t(x), _t(indices)
    k = _axis(x, axis, "take_along_axis")
    if at.ndim != x.ndim:
        raise _core.ShapeError(f"take_along_axis: x has {x.ndim} axes, indices {at.ndim}")
    at = _core.where(at < 0, at + x.shape[k], at)
    shape = tuple(at.shape[i] if i == k else max(n, at.shape[i]) if n and at.shape[i] else 0 for i, n in enumerate(x.shape))
    wide = tuple(x.shape[i] if i == k else n for i, n in enumerate(shape))
    return _core.gather(broadcast_to(x, wide), k, broadcast_to(at, shape))


# ---- shape ----

def _bare(x: Tensor) -> Tensor:
    return _core.drop_names(x) if any(x.axes) else x


def broadcast_shapes(*shapes: Any) -> tuple[int, ...]:
    """The broadcast shape of tensors of these shapes."""
    n = max((len(s) for s in shapes), default=0)
    out = []
    for i in range(n):
        sizes = {s[i - n + len(s)] for s in shapes if i - n + len(s) >= 0} - {1}
        if len(sizes) > 1:
            raise _core.ShapeError(f"broadcast: sizes {sorted(sizes)} do not meet")
        out.append(sizes.pop() if sizes else 1)
    return tuple(out)


def broadcast_to(x: Any, /, shape: Any) -> Tensor:
    """x broadcast to the shape, with new axes in front."""
    x, shape = _t(x), _shape(shape)
    if broadcast_shapes(x.shape, shape) != tuple(shape):
        raise _core.ShapeError(f"broadcast_to: {x.shape} cannot be broadcast to {tuple(shape)}")
    while x.ndim < len(shape):
        x = _core.unsqueeze(x, 0)
    return _core.expand(x, shape) if shape else x


def broadcast_arrays(*arrays: Any) -> list[Tensor]:
    """All of them broadcast to their common shape."""
    parts = [_t(a) for a in arrays]
    shape = broadcast_shapes(*(p.shape for p in parts))
    return [broadcast_to(p, shape) for p in parts]


def concat(arrays: Any, /, *, axis: Any = 0) -> Tensor:
    """Tensors concatenated along an axis; None: all their elements."""
    parts = [_t(a) for a in arrays]
    if axis is None:
        parts, axis = [p.reshape(-1) for p in parts], 0
    return _core.cat(parts, axis)


concatenate = concat


def stack(arrays: Any, /, axis: int = 0, name: str | None = None, *, position: int | None = None, dim: int | None = None) -> Tensor:
    """Tensors of one shape along a new axis, which may have a name."""
    axis = position if position is not None else dim if dim is not None else axis
    try:
        return _core.stack(arrays, axis, name)
    except (TypeError, _core.Error):  # arrays, numbers, or a place that is not there
        pass
    parts = [_t(a) for a in arrays]
    if parts and not -parts[0].ndim - 1 <= axis <= parts[0].ndim:
        raise _core.OutOfRangeError(f"stack: there is no place {axis} for an axis among {parts[0].ndim}")
    return _core.stack(parts, axis % (parts[0].ndim + 1) if parts else 0, name)


def unstack(x: Any, /, *, axis: Any = 0) -> tuple[Tensor, ...]:
    """The slices along an axis, which is removed."""
    x = _t(x)
    k = _axis(x, axis, "unstack")
    return tuple(_part(x, k, i) for i in range(x.shape[k]))


def split(x: Any, indices_or_sections: Any, axis: Any = 0) -> tuple[Tensor, ...]:
    """Parts along an axis: this many equal ones, or cut at indices."""
    x = _t(x)
    k = _axis(x, axis, "split")
    if isinstance(indices_or_sections, int):
        n, count = x.shape[k], indices_or_sections
        if count < 1 or n % count:
            raise ValueError(f"split: {n} elements do not make {count} equal parts")
        cuts = [i * (n // count) for i in range(1, count)]
    else:
        cuts = [int(i) for i in indices_or_sections]
    return tuple(_part(x, k, slice(a, b)) for a, b in zip([0, *cuts], [*cuts, None]))


def expand_dims(x: Any, /, axis: Any = 0) -> Tensor:
    """x with axes of size 1 at these positions."""
    x = _t(x)
    places = axis if isinstance(axis, (tuple, list)) else (axis,)
    n = x.ndim + len(places)
    if any(not -n <= a < n for a in places) or len({a % n for a in places}) < len(places):
        raise _core.OutOfRangeError(f"expand_dims: there is no place {axis} for an axis among {x.ndim}")
    for a in sorted(a % n for a in places):
        x = _core.unsqueeze(x, a)
    return x


def squeeze(x: Any, /, axis: Any = None, *, axes: Any = None) -> Tensor:
    """x without axes of size 1; None: all of them."""
    x, axis = _t(x), axis if axes is None else axes
    if axis is None:
        return _core.squeeze(x)
    axes = tuple(_axes(x, axis, "squeeze"))
    if any(x.shape[a] != 1 for a in axes):
        raise ValueError(f"squeeze: axis {axis} of {x.shape} is longer than 1")
    return _core.squeeze(x, axes) if axes else x


def permute_dims(x: Any, /, axes: Any) -> Tensor:
    """Axis axes[i] becomes axis i."""
    x = _t(x)
    order = [_axis(x, a, "permute_dims") for a in axes]
    if sorted(order) != list(range(x.ndim)):
        raise ValueError(f"permute_dims: {tuple(axes)} is no order of {x.ndim} axes")
    return _core.permute(x, order)


def matrix_transpose(x: Any, /) -> Tensor:
    """The last two axes swapped."""
    x = _t(x)
    if x.ndim < 2:
        raise _core.ShapeError(f"matrix_transpose: a matrix is needed, the tensor has {x.ndim} axes")
    return _core.transpose(x, -2, -1)


def moveaxis(x: Any, source: Any, destination: Any, /) -> Tensor:
    """Axes moved to other positions; the rest keeps its order."""
    x = _t(x)
    a, b = _axes(x, source, "moveaxis"), _axes(x, destination, "moveaxis")
    if len(a) != len(b):
        raise ValueError("moveaxis: as many places as axes are needed")
    order = [k for k in range(x.ndim) if k not in a]
    for place, k in sorted(zip(b, a)):
        order.insert(place, k)
    return _core.permute(x, order)


def swapaxes(x: Any, /, axis1: Any, axis2: Any) -> Tensor:
    """Two axes swapped."""
    x = _t(x)
    return _core.transpose(x, _axis(x, axis1, "swapaxes"), _axis(x, axis2, "swapaxes"))


def flip(x: Any, /, axis: Any = None, *, axes: Any = None) -> Tensor:
    """The elements in reverse order along axes; None: along all."""
    x, axis = _t(x), axis if axes is None else axes
    axes = tuple(_axes(x, axis, "flip"))
    return _core.flip(x, axes) if axes else x.copy()


def roll(x: Any, /, shift: Any, axis: Any = None) -> Tensor:
    """Elements moved cyclically along axes."""
    x = _t(x)
    if axis is None:
        return roll(x.reshape(-1), shift, axis=0).reshape(x.shape) if x.ndim else x
    axes = [_axis(x, a, "roll") for a in (axis if isinstance(axis, (tuple, list)) else (axis,))]
    shifts = list(shift) if isinstance(shift, (tuple, list)) else [shift] * len(axes)
    if len(axes) == 1 and len(shifts) > 1:
        axes *= len(shifts)
    if len(shifts) != len(axes):
        raise ValueError("roll: as many shifts as axes are needed")
    for k, s in zip(axes, shifts):
        n = x.shape[k]
        at = s % n if n else 0
        if at:
            x = _core.cat([_part(x, k, slice(n - at, None)), _part(x, k, slice(None, n - at))], k)
    return x


def tile(x: Any, repetitions: Any, /) -> Tensor:
    """x repeated as a whole along its axes."""
    x, times = _t(x), _shape(repetitions)
    while x.ndim < len(times):
        x = _core.unsqueeze(x, 0)
    times = (1,) * (x.ndim - len(times)) + tuple(times)
    if all(r == 1 for r in times):
        return x.copy()
    for k, r in enumerate(times):
        if r != 1:
            n = x.shape[k]
            x = _part(x, k, arange(n * r) % n if n else arange(0))
    return x


def repeat(x: Any, repeats: Any, /, *, axis: Any = None) -> Tensor:
    """Every element repeated along an axis; None: of all elements."""
    x = _t(x)
    if axis is None:
        x, axis = x.reshape(-1), 0
    k = _axis(x, axis, "repeat")
    n = x.shape[k]
    if isinstance(repeats, int):
        return _part(x, k, arange(n * repeats) // repeats if repeats else arange(0))
    times = _t(repeats).to(i64).reshape(-1)
    if times.size == 1:
        return repeat(x, int(times.item()), axis=k)
    if times.size != n or bool((times < 0).any()):
        raise ValueError(f"repeat: {times.size} numbers for {n} elements, none below 0")
    ends = _core.cumsum(times, 0)
    return _part(x, k, searchsorted(ends, arange(int(ends[-1].item()) if n else 0), side="right"))


def flatten(x: Any, /) -> Tensor:
    """The elements as a vector, with memory of its own."""
    return _t(x).reshape(-1).copy()


def ravel(x: Any, /) -> Tensor:
    """The elements as a vector."""
    return _t(x).reshape(-1)


def diff(x: Any, /, *, axis: Any = -1, n: int = 1, prepend: Any = None, append: Any = None) -> Tensor:
    """Differences of neighbours along an axis, n times."""
    x = _t(x)
    k = _axis(x, axis, "diff")
    ends = [p for p in (prepend, x, append) if p is not None]
    x = _core.cat([_t(p) for p in ends], k) if len(ends) > 1 else x
    for _ in range(n):
        a, b = _part(x, k, slice(1, None)), _part(x, k, slice(None, -1))
        x = a != b if x.dtype == bool_ else a - b
    return x


def atleast_1d(x: Any) -> Tensor:
    """x, with an axis if it has none."""
    x = _t(x)
    return x if x.ndim else x.reshape(1)


# ---- matrices ----

def diag(x: Any, k: int = 0) -> Tensor:
    """A matrix with that diagonal, or of a matrix its diagonal; k above the main one."""
    x = _t(x)
    if x.ndim == 2:
        return diagonal(x, offset=k)
    if x.ndim != 1:
        raise _core.ShapeError(f"diag: a vector or a matrix is needed, the tensor has {x.ndim} axes")
    n = x.shape[0] + abs(k)
    x = _bare(x)
    wide = _core.pad(x, [max(k, 0)], [max(-k, 0)])  # element j in column j
    return _core.where(eye(n, k=k, dtype=bool_), wide[None, :], _core.zeros((), x.dtype))


def diagonal(x: Any, /, *, offset: int = 0) -> Tensor:
    """The diagonal of the last two axes, offset above the main one."""
    x = _t(x)
    if x.ndim < 2:
        raise _core.ShapeError(f"diagonal: a matrix is needed, the tensor has {x.ndim} axes")
    rows, columns = x.shape[-2:]
    if offset > 0:
        x = x[..., :, min(offset, columns):]
    elif offset < 0:
        x = x[..., min(-offset, rows):, :]
    if 0 in x.shape[-2:]:
        return x.reshape(x.shape[:-2] + (-1,)) if 0 not in x.shape[:-2] else _core.zeros(x.shape[:-2] + (0,), x.dtype)
    return _core.diagonal(x)


def trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Tensor:
    """The sum of the diagonal."""
    return diagonal(x, offset=offset).sum(-1, dtype=dtype)


def matmul(x1: Any, x2: Any, /) -> Tensor:
    """The product of matrices, as @."""
    return _core.matmul(_t(x1), _t(x2))


def vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Tensor:
    """Sums of products along an axis."""
    a, b = _bare(_t(x1)), _bare(_t(x2))
    if not -min(a.ndim, b.ndim) <= axis < 0 and not (axis >= 0 and a.ndim == b.ndim > axis):
        raise _core.AxisError(f"vecdot: there is no axis {axis} in both")
    if a.shape[axis] != b.shape[axis]:
        raise _core.ShapeError(f"vecdot: {a.shape[axis]} and {b.shape[axis]} elements along axis {axis}")
    out = _core.mul(moveaxis(a, axis, -1), moveaxis(b, axis, -1)).sum(-1)
    return out.to(result_type(a, b))


def tensordot(x1: Any, x2: Any, /, *, axes: Any = 2) -> Tensor:
    """Sums of products over axes: the last of x1 and the first of x2, or two lists of axes."""
    a, b = _bare(_t(x1)), _bare(_t(x2))
    if isinstance(axes, int):
        left, right = list(range(a.ndim - axes, a.ndim)), list(range(axes))
    else:
        left, right = ([_axis(t, k, "tensordot") for k in (part if isinstance(part, (tuple, list)) else (part,))]
                       for t, part in zip((a, b), axes))
    if [a.shape[k] for k in left] != [b.shape[k] for k in right]:
        raise _core.ShapeError(f"tensordot: axes {left} of {a.shape} and {right} of {b.shape} have different sizes")
    rows, columns = [k for k in range(a.ndim) if k not in left], [k for k in range(b.ndim) if k not in right]
    size = math.prod(a.shape[k] for k in left)
    shape = [a.shape[k] for k in rows] + [b.shape[k] for k in columns]
    if a.dtype.kind != "f" and b.dtype.kind != "f":  # exact
        p = permute_dims(a, rows + left).reshape(math.prod(shape[:len(rows)]), 1, size) if a.ndim else a.reshape(1, 1, 1)
        q = permute_dims(b, columns + right).reshape(1, math.prod(shape[len(rows):]), size) if b.ndim else b.reshape(1, 1, 1)
        return (p * q).sum(-1).reshape(shape).to(result_type(a, b))
    p = permute_dims(a, rows + left).reshape(math.prod(shape[:len(rows)]), size) if a.ndim else a.reshape(1, 1)
    q = permute_dims(b, right + columns).reshape(size, math.prod(shape[len(rows):])) if b.ndim else b.reshape(1, 1)
    return (p @ q).reshape(shape)


# ---- methods of Tensor ----

def to_device(self: Tensor, device: str, /, *, stream: Any = None) -> Tensor:
    """The tensor on another device."""
    if stream is not None:
        raise ValueError("to_device: gradus queues its work on its own stream; stream is None")
    return self.to(device=device)


def __array_namespace__(self: Tensor, /, *, api_version: str | None = None) -> Any:
    """The package, as the array API standard asks."""
    if api_version not in (None, "2021.12", "2022.12", "2023.12", "2024.12"):
        raise ValueError(f"the version 2024.12 of the array API standard is there, not {api_version!r}")
    import sys
    return sys.modules[__package__]


def __complex__(self: Tensor) -> complex:
    return complex(float(self))


def _transposed(self: Tensor) -> Tensor:
    """The last two axes swapped."""
    return matrix_transpose(self)


for _fn in (astype, var, std, median, quantile, clip, flatten, ravel, roll, tile, repeat, trace, nonzero, cumprod, topk, take, swapaxes,
            to_device, __array_namespace__, __complex__):
    setattr(Tensor, _fn.__name__, _fn)
setattr(Tensor, "mT", property(_transposed))


# ---- the namespace ----

class _Info:
    """What the array API standard asks of a namespace."""

    def capabilities(self) -> dict[str, Any]:
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 8}

    def default_device(self) -> str:
        return "cpu"

    def default_dtypes(self, *, device: Any = None) -> dict[str, Dtype]:
        return {"real floating": f64, "integral": i64, "indexing": i64}

    def devices(self) -> list[str]:
        from ._tensor import devices
        return devices()

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, Dtype]:
        from ._dtypes import float32, float64, int32, int64, isdtype, uint8
        all_ = {"bool": bool_, "int32": int32, "int64": int64, "uint8": uint8, "float32": float32, "float64": float64}
        return {name: d for name, d in all_.items() if kind is None or isdtype(d, kind)}


def __array_namespace_info__() -> _Info:
    """Devices, dtypes and capabilities, as the array API standard asks."""
    return _Info()
