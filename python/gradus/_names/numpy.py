"""NumPy's functions beyond the array API standard, with NumPy's arguments.  Gradients flow through what is not counting or comparing."""
# mypy: disable-error-code="no-any-return"
from __future__ import annotations

import math

from .. import _array, _core, linalg
from .._array import _axis, _floating, _t, clip, concat, flip, moveaxis, quantile, remainder, searchsorted, sort, split, swapaxes
from .._core import Tensor
from .._dtypes import f64, i64
from .._tensor import tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

# other names of operators
absolute = fabs = _core.abs
arcsin, arccos, arctan, arctan2 = _core.asin, _core.acos, _core.atan, _core.atan2
arcsinh, arccosh, arctanh = _core.asinh, _core.acosh, _core.atanh
amax, amin, rint, fix, invert = _core.max, _core.min, _core.round, _core.trunc, _core.bit_not
left_shift, right_shift = _core.shift_left, _core.shift_right
true_divide = _core.div


# ---- making ----

def array(object: Any, dtype: Any = None, *, copy: bool | None = True, ndmin: int = 0) -> Tensor:
    """A tensor of its own, as gd.tensor; copy=False or None shares memory where it can."""
    made = tensor(object, dtype) if copy else _array.asarray(object, dtype, copy=copy)
    while made.ndim < ndmin:
        made = _core.unsqueeze(made, 0)
    return made


def identity(n: int, dtype: Any = None) -> Tensor:
    """The n x n identity matrix."""
    return _array.eye(n, dtype=dtype)


def tri(N: int, M: int | None = None, k: int = 0, dtype: Any = None) -> Tensor:
    """Ones on and below the k-th diagonal."""
    return _core.tril(_core.ones((N, N if M is None else M), dtype or f64), k)


def logspace(start: float, stop: float, num: int = 50, endpoint: bool = True, base: float = 10.0) -> Tensor:
    """base to the power of num numbers in equal steps from start to stop."""
    return _core.pow(base, _array.linspace(start, stop, num, endpoint=endpoint))


def geomspace(start: float, stop: float, num: int = 50, endpoint: bool = True) -> Tensor:
    """num numbers from start to stop with equal ratios."""
    if not start * stop > 0:
        raise ValueError(f"geomspace: start and stop have one sign and are not 0, not {start!r} and {stop!r}")
    return _core.pow(stop / start, _array.linspace(0, 1, num) if endpoint else _array.arange(num) / num) * start


def vander(x: Any, N: int | None = None, increasing: bool = False) -> Tensor:
    """Powers of x as columns."""
    x = _t(x)
    powers = _array.arange(x.size if N is None else N)
    return x[:, None] ** (powers if increasing else flip(powers)).to(x.dtype)[None, :]


def indices(dimensions: Any) -> Tensor:
    """The index along each axis, for every element of such a shape."""
    return _array.stack(_array.meshgrid(*(_array.arange(n) for n in dimensions), indexing="ij"))


def unravel_index(indices: Any, shape: Any) -> tuple[Tensor, ...]:
    """Places in a vector as places in a shape."""
    return _array._unraveled(_t(indices), tuple(shape))


# ---- element-wise ----

def power(x1: Any, x2: Any, /) -> Tensor:
    """x1 to the power of x2."""
    return _core.pow(x1, x2) if isinstance(x1, Tensor) or isinstance(x2, Tensor) else _core.pow(_t(x1), x2)


def float_power(x1: Any, x2: Any, /) -> Tensor:
    """x1 to the power of x2, in f64."""
    return power(_t(x1).to(f64), x2)


def divmod(x1: Any, x2: Any, /) -> tuple[Tensor, Tensor]:  # noqa: A001  NumPy's name
    """(x1 // x2, x1 % x2)."""
    return _core.floor_div(x1, x2), _core.mod(x1, x2)


def exp2(x: Any, /) -> Tensor:
    """2 to the power of x."""
    return _core.pow(2.0, _t(x))


def cbrt(x: Any, /) -> Tensor:
    """The cube root."""
    x = _floating(_t(x))
    return _core.sign(x) * x.abs().pow(1 / 3)


def fmod(x1: Any, x2: Any, /) -> Tensor:
    """The rest of a division that rounds to 0: it has the sign of x1."""
    a, b = _t(x1), _t(x2)
    return _core.sign(a) * _core.mod(a.abs(), b.abs())


def modf(x: Any, /) -> tuple[Tensor, Tensor]:
    """The part behind the point, and the whole part."""
    x = _floating(_t(x))
    whole = _core.trunc(x)
    return x - whole, whole


def fmax(x1: Any, x2: Any, /) -> Tensor:
    """The larger one; NaN only where both are."""
    a, b = _t(x1), _t(x2)
    return _core.where(_core.isnan(a), b, _core.where(_core.isnan(b), a, _core.maximum(a, b)))


def fmin(x1: Any, x2: Any, /) -> Tensor:
    """The smaller one; NaN only where both are."""
    a, b = _t(x1), _t(x2)
    return _core.where(_core.isnan(a), b, _core.where(_core.isnan(b), a, _core.minimum(a, b)))


def logaddexp2(x1: Any, x2: Any, /) -> Tensor:
    """log2(2^x1 + 2^x2)."""
    two = math.log(2)
    return _core.logaddexp(_t(x1) * two, _t(x2) * two) / two


def deg2rad(x: Any, /) -> Tensor:
    """Degrees as radians."""
    return _t(x) * (math.pi / 180)


def rad2deg(x: Any, /) -> Tensor:
    """Radians as degrees."""
    return _t(x) * (180 / math.pi)


radians, degrees = deg2rad, rad2deg


def sinc(x: Any, /) -> Tensor:
    """sin(pi x) / (pi x)."""
    x = _floating(_t(x)) * math.pi
    zero = x == 0
    inside = _core.where(zero, 1.0, x)
    return _core.where(zero, 1 - x * x / 6, inside.sin() / inside)


def heaviside(x1: Any, x2: Any, /) -> Tensor:
    """0 below 0, 1 above, x2 at 0."""
    x = _floating(_t(x1))
    return _core.where(x == 0, x2, (x > 0).to(x.dtype))


def nan_to_num(x: Any, copy: bool = True, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None) -> Tensor:
    """Numbers in the place of NaN and infinities: by default 0 and the largest there are."""
    x = _t(x)
    if x.dtype.kind != "f":
        return x
    from .._dtypes import finfo

    most = finfo(x.dtype).max
    x = _core.where(_core.isnan(x), nan, x)
    x = _core.where(x == math.inf, most if posinf is None else posinf, x)
    return _core.where(x == -math.inf, -most if neginf is None else neginf, x)


def round(x: Any, /, decimals: int = 0) -> Tensor:  # noqa: A001
    """x rounded to so many decimals, halves to even."""
    x = _t(x)
    if not decimals:
        return _core.round(x)
    factor = 10.0 ** abs(decimals)
    return _core.round(x * factor) / factor if decimals > 0 else _core.round(x / factor) * factor


around = round


# ---- reductions ----

def cumsum(x: Any, /, axis: Any = None, dtype: Any = None) -> Tensor:
    """Running sums along an axis; of all elements if there is none given."""
    x = _t(x)
    if axis is None and x.ndim != 1:
        x = x.reshape(-1)
    return _core.cumsum(x, 0 if axis is None else axis, dtype=dtype)


def percentile(x: Any, /, q: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """quantile with q in percent."""
    return quantile(x, _t(q).to(f64) / 100, axis, keepdims)


def ptp(x: Any, /, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The largest element less the smallest."""
    x = _t(x)
    return _core.max(x, axis, keepdims) - _core.min(x, axis, keepdims)


def average(x: Any, /, axis: Any = None, weights: Any = None, returned: bool = False, *, keepdims: bool = False) -> Any:
    """The mean, with weights."""
    x = _floating(_t(x))
    if weights is None:
        out, total = _core.mean(x, axis, keepdims), None
    else:
        w = _t(weights).to(x.dtype)
        if w.shape != x.shape:
            k = _axis(x, axis, "average") if axis is not None else -1
            if w.ndim != 1 or k < 0 or w.shape[0] != x.shape[k]:
                raise _core.ShapeError(f"average: weights have the shape {w.shape}, the tensor {x.shape}")
            w = _array.broadcast_to(w.reshape([-1 if i == k else 1 for i in range(x.ndim)]), x.shape)
        total = w.sum(axis, keepdims)
        out = (x * w).sum(axis, keepdims) / total
    if not returned:
        return out
    return out, total if total is not None else out * 0 + x.size // max(out.size, 1)


def _without_nan(name: str, instead: float) -> Callable[..., Any]:
    def reduce(x: Any, /, axis: Any = None, keepdims: bool = False) -> Tensor:
        x = _t(x)
        if x.dtype.kind == "f":
            lost = _core.isnan(x)
            out = getattr(_core, name)(_core.where(lost, instead, x), axis, keepdims)
            return out if name in ("sum", "prod") else _core.where(lost.all(axis, keepdims), math.nan, out)
        return getattr(_core, name)(x, axis, keepdims)
    reduce.__name__ = f"nan{name}"
    reduce.__doc__ = f"{name} of what is not NaN."
    return reduce


nansum, nanprod, nanmax, nanmin = (_without_nan(n, v) for n, v in (("sum", 0.0), ("prod", 1.0), ("max", -math.inf), ("min", math.inf)))


def nanmean(x: Any, /, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The mean of what is not NaN."""
    x = _floating(_t(x))
    kept = _core.logical_not(_core.isnan(x)).to(x.dtype)
    return nansum(x, axis, keepdims) / kept.sum(axis, keepdims)


def nanvar(x: Any, /, axis: Any = None, ddof: float = 0, keepdims: bool = False) -> Tensor:
    """var of what is not NaN."""
    x = _floating(_t(x))
    count = _core.logical_not(_core.isnan(x)).to(x.dtype).sum(axis, keepdims)
    return nansum((x - nanmean(x, axis, True)).square(), axis, keepdims) / (count - ddof)


def nanstd(x: Any, /, axis: Any = None, ddof: float = 0, keepdims: bool = False) -> Tensor:
    """std of what is not NaN."""
    return nanvar(x, axis, ddof, keepdims).sqrt()


# ---- products ----

def dot(a: Any, b: Any, /) -> Tensor:
    """The product of numbers, vectors and matrices; of more axes over the last of a and the last but one of b."""
    a, b = _t(a), _t(b)
    if not a.ndim or not b.ndim:
        return a * b
    if a.ndim == 1 == b.ndim and a.dtype.kind == b.dtype.kind == "f":
        return _core.dot(a, b)
    return _core.matmul(a, b) if a.ndim <= 2 and b.ndim <= 2 else _array.tensordot(a, b, axes=([-1], [-2 if b.ndim > 1 else 0]))


def vdot(a: Any, b: Any, /) -> Tensor:
    """The sum of products of all elements."""
    return dot(_t(a).reshape(-1), _t(b).reshape(-1))


def inner(a: Any, b: Any, /) -> Tensor:
    """Sums of products over the last axes."""
    a, b = _t(a), _t(b)
    return a * b if not a.ndim or not b.ndim else _array.tensordot(a, b, axes=([-1], [-1]))


def einsum(spec: str, /, *operands: Any) -> Tensor:
    """Sums of products by letters of axes: einsum("ij,jk->ik", a, b); operands may be one list."""
    if not isinstance(spec, str):
        raise TypeError(f"einsum: letters of axes such as 'ij,jk->ik' are needed first, not {type(spec)}")
    given = operands[0] if len(operands) == 1 and isinstance(operands[0], (list, tuple)) else operands
    spec = spec.replace(" ", "")
    if "->" not in spec and "." not in spec:  # letters that stand once, in their order
        letters = spec.replace(",", "")
        spec += "->" + "".join(sorted(c for c in set(letters) if letters.count(c) == 1))
    return _core.einsum(spec, [_t(o) for o in given])


def kron(a: Any, b: Any, /) -> Tensor:
    """Every element of a times all of b, as blocks."""
    a, b = _array._bare(_t(a)), _array._bare(_t(b))
    n = max(a.ndim, b.ndim)
    p, q = (t.reshape((1,) * (n - t.ndim) + t.shape) for t in (a, b))
    left = [m for k in p.shape for m in (k, 1)]
    right = [m for k in q.shape for m in (1, k)]
    return (p.reshape(left) * q.reshape(right)).reshape([i * j for i, j in zip(p.shape, q.shape)])


cross = linalg.cross


# ---- joining and cutting ----

def atleast_2d(x: Any, /) -> Tensor:
    """x with at least two axes."""
    x = _t(x)
    return x.reshape(1, 1) if not x.ndim else x[None] if x.ndim == 1 else x


def atleast_3d(x: Any, /) -> Tensor:
    """x with at least three axes."""
    x = _t(x)
    return x.reshape(1, 1, 1) if not x.ndim else x[None, :, None] if x.ndim == 1 else x[:, :, None] if x.ndim == 2 else x


def hstack(arrays: Any, /) -> Tensor:
    """Beside each other: along the second axis, vectors along their only one."""
    parts = [_array.atleast_1d(a) for a in arrays]
    return concat(parts, axis=0 if parts and parts[0].ndim == 1 else 1)


def vstack(arrays: Any, /) -> Tensor:
    """Below each other, vectors as rows."""
    return concat([atleast_2d(a) for a in arrays], axis=0)


def dstack(arrays: Any, /) -> Tensor:
    """Along the third axis."""
    return concat([atleast_3d(a) for a in arrays], axis=2)


def column_stack(arrays: Any, /) -> Tensor:
    """Vectors as columns of a matrix."""
    return concat([p if p.ndim > 1 else p.reshape(-1, 1) for p in map(_t, arrays)], axis=1)


def block(arrays: Any) -> Tensor:
    """A matrix of matrices in nested lists."""
    def depth(x: Any) -> int:
        return 1 + max(map(depth, x)) if isinstance(x, list) and x else 0

    def joined(x: Any, level: int) -> Tensor:
        return concat([joined(p, level - 1) for p in x], axis=-level) if isinstance(x, list) else grown(_t(x))

    def grown(x: Tensor) -> Tensor:
        return x.reshape((1,) * (rank - x.ndim) + x.shape) if x.ndim < rank else x
    rank = max(depth(arrays), 1)
    return joined(arrays, rank)


def append(x: Any, values: Any, axis: Any = None) -> Tensor:
    """values behind x; without an axis both as vectors."""
    return concat([x, values], axis=axis)


def insert(x: Any, obj: Any, values: Any, axis: Any = None) -> Tensor:
    """values before a place along an axis; without one of the elements as a vector."""
    x = _t(x)
    x, k = (x.reshape(-1), 0) if axis is None else (x, _axis(x, axis, "insert"))
    at = int(obj) + (x.shape[k] if obj < 0 else 0)
    if not 0 <= at <= x.shape[k]:
        raise _core.OutOfRangeError(f"insert: place {obj} of {x.shape[k]}")
    new = _t(values).to(x.dtype)
    shape = list(x.shape)
    shape[k] = new.shape[0] if new.ndim and x.ndim == 1 else new.shape[k] if new.ndim == x.ndim else 1
    return concat([_array._part(x, k, slice(None, at)), _array.broadcast_to(new, shape), _array._part(x, k, slice(at, None))], axis=k)


def delete(x: Any, obj: Any, axis: Any = None) -> Tensor:
    """x without places along an axis; without one of the elements as a vector."""
    x = _t(x)
    x, k = (x.reshape(-1), 0) if axis is None else (x, _axis(x, axis, "delete"))
    n = x.shape[k]
    gone = set(range(n)[obj]) if isinstance(obj, slice) else {int(i) for i in ([obj] if isinstance(obj, int) else _t(obj).tolist())}
    if any(not -n <= i < n for i in gone):
        raise _core.OutOfRangeError(f"delete: place {max(gone, key=abs)} of {n}")
    gone = {i % n for i in gone}
    return _array._part(x, k, tensor([i for i in range(n) if i not in gone], dtype=i64))


def array_split(x: Any, indices_or_sections: Any, axis: Any = 0) -> tuple[Tensor, ...]:
    """split, into parts that differ by one if there is a rest."""
    x = _t(x)
    if not isinstance(indices_or_sections, int):
        return split(x, indices_or_sections, axis)
    size, more = _share(x.shape[_axis(x, axis, "array_split")], indices_or_sections)
    ends = [size * i + min(i, more) for i in range(1, indices_or_sections)]
    return split(x, ends, axis)


def _share(a: int, b: int) -> tuple[int, int]:
    if b < 1:
        raise ValueError(f"array_split: {b} parts")
    return a // b, a % b


def hsplit(x: Any, indices_or_sections: Any) -> tuple[Tensor, ...]:
    """split along the second axis, of a vector along its only one."""
    x = _t(x)
    return split(x, indices_or_sections, 1 if x.ndim > 1 else 0)


def vsplit(x: Any, indices_or_sections: Any) -> tuple[Tensor, ...]:
    """split along the first axis."""
    return split(x, indices_or_sections, 0)


def fliplr(x: Any, /) -> Tensor:
    """Columns in the opposite order."""
    return flip(x, 1)


def flipud(x: Any, /) -> Tensor:
    """Rows in the opposite order."""
    return flip(x, 0)


def rot90(x: Any, k: int = 1, axes: tuple[int, int] = (0, 1)) -> Tensor:
    """Turned by 90 degrees, k times, from the first of the axes to the second."""
    x, k = _t(x), k % 4
    if k == 0:
        return x
    if k == 2:
        return flip(flip(x, axes[0]), axes[1])
    return swapaxes(flip(x, axes[1]), *axes) if k == 1 else flip(swapaxes(x, *axes), axes[1])


def rollaxis(x: Any, axis: int, start: int = 0) -> Tensor:
    """An axis moved before another one."""
    x = _t(x)
    k, at = _axis(x, axis, "rollaxis"), start + x.ndim if start < 0 else start
    return moveaxis(x, k, at - 1 if k < at else at)


def transpose(x: Any, /, *axes: Any) -> Tensor:
    """The axes in the opposite order; transpose(x, (1, 0)) in that one; transpose(x, 0, 1): two exchanged."""
    return _t(x).transpose(*(a for a in axes if a is not None))


def pad(x: Any, pad_width: Any, mode: Any = "constant", constant_values: float = 0.0, *, before: Any = None, after: Any = None,
        value: float | None = None) -> Tensor:
    """More elements before and behind those of each axis: one number, a pair, or a pair for each axis.  mode "constant", "edge", "reflect"
    or "wrap".  The library's own call, pad(x, before, after, value), works too."""
    x = _t(x)
    if not isinstance(mode, str) or before is not None or after is not None:
        return _core.pad(x, before if before is not None else pad_width, mode if not isinstance(mode, str) else after,
                         constant_values if value is None else value)
    pairs = _pairs(pad_width, x.ndim)
    if mode == "constant":
        return _core.pad(x, [a for a, _ in pairs], [b for _, b in pairs], constant_values)
    for k, (a, b) in enumerate(pairs):
        n, place = x.shape[k], _array.arange(-a, x.shape[k] + b)
        if mode == "edge":
            place = clip(place, 0, n - 1)
        elif mode == "wrap":
            place = remainder(place, n)
        elif mode == "reflect":
            turn = max(2 * (n - 1), 1)
            place = remainder(place, turn)
            place = _core.minimum(place, turn - place) if n > 1 else place * 0
        else:
            raise ValueError(f"pad: mode is 'constant', 'edge', 'reflect' or 'wrap', not {mode!r}")
        x = _array._part(x, k, place)
    return x


def _pairs(width: Any, count: int) -> list[tuple[int, int]]:
    if isinstance(width, int):
        return [(width, width)] * count
    rows = [(int(w), int(w)) if isinstance(w, int) else tuple(map(int, w)) for w in width] if any(not isinstance(w, int) for w in width) else None
    if rows is None:
        a, b = (width[0], width[-1])
        return [(int(a), int(b))] * count
    rows = rows * count if len(rows) == 1 else rows
    if len(rows) != count or any(len(r) != 2 for r in rows):
        raise ValueError(f"pad: pad_width has {len(rows)} pairs, the tensor {count} axes")
    return rows  # type: ignore[return-value]


# ---- picking, searching, counting ----

def where(condition: Any, *choices: Any) -> Any:
    """Elements of the first choice where the condition holds, else of the second; without choices the places where it holds."""
    if not choices:
        return _array.nonzero(condition)
    return _core.where(condition, *choices)


def select(condlist: Any, choicelist: Any, default: Any = 0) -> Tensor:
    """The choice of the first condition that holds."""
    if len(condlist) != len(choicelist):
        raise ValueError(f"select: {len(condlist)} conditions for {len(choicelist)} choices")
    out = default
    for condition, choice in reversed(list(zip(condlist, choicelist))):
        out = _core.where(condition, choice, out)
    return _t(out)


def argwhere(x: Any, /) -> Tensor:
    """The places of elements that are not 0, a row each."""
    return _array.stack(_array.nonzero(x), axis=1)


def flatnonzero(x: Any, /) -> Tensor:
    """The places of elements that are not 0 in the vector of all."""
    return _array.nonzero(_t(x).reshape(-1))[0]


def partition(x: Any, kth: int, axis: Any = -1) -> Tensor:
    """Sorted, which is more than NumPy promises."""
    return sort(_t(x).reshape(-1) if axis is None else x, -1 if axis is None else axis)


def argpartition(x: Any, kth: int, axis: Any = -1) -> Tensor:
    """argsort, which is more than NumPy promises."""
    return _array.argsort(_t(x).reshape(-1) if axis is None else x, -1 if axis is None else axis)


def unique(x: Any, /, return_index: bool = False, return_inverse: bool = False, return_counts: bool = False) -> Any:
    """The different elements in order; where each first stands, which of them every element is, how often each is there."""
    found = _array.unique_all(x)
    more = [v for v, wanted in ((found.indices, return_index), (found.inverse_indices, return_inverse), (found.counts, return_counts)) if wanted]
    return (found.values, *more) if more else found.values


def bincount(x: Any, /, weights: Any = None, minlength: int = 0) -> Tensor:
    """How often each whole number from 0 on is there, or the sum of its weights."""
    x = _t(x)
    if x.ndim != 1 or x.dtype.kind not in "iu" or bool((x < 0).any()):
        raise ValueError("bincount: a vector of whole numbers from 0 on is needed")
    count = max(minlength, int(x.max().item()) + 1 if x.size else 0)
    given = _floating(_t(weights)) if weights is not None else _core.ones(x.shape, f64)
    made = _core.scatter_add(_core.zeros((count,), given.dtype), 0, x.to(i64), given)
    return made if weights is not None else made.to(i64)


def digitize(x: Any, bins: Any, right: bool = False) -> Tensor:
    """Which of the bins, whose edges rise or fall, each element is in."""
    x, edges = _t(x), _t(bins)
    side = "left" if right else "right"
    falls = edges.size > 1 and bool(edges[0] > edges[-1])
    return edges.size - searchsorted(flip(edges), x, side=side) if falls else searchsorted(edges, x, side=side)


def histogram(x: Any, bins: Any = 10, range: tuple[float, float] | None = None, density: bool = False, weights: Any = None) -> tuple[Tensor, Tensor]:  # noqa: A002
    """How many elements are in each bin, and the edges of the bins; the last one has both its edges."""
    x = _floating(_t(x).detach()).reshape(-1)
    if isinstance(bins, int):
        low, high = range if range is not None else (x.min().item(), x.max().item()) if x.size else (0.0, 1.0)
        low, high = (low - 0.5, high + 0.5) if low == high else (low, high)
        edges = _array.linspace(low, high, bins + 1, dtype=x.dtype)
    else:
        edges = _t(bins).to(x.dtype)
    n = edges.size - 1
    place = searchsorted(edges, x, side="right") - 1
    place = _core.where(x == edges[-1], n - 1, place)
    kept = (place >= 0) & (place < n)
    counts = bincount(place[kept], None if weights is None else _t(weights).reshape(-1)[kept], n)
    if density:
        counts = counts / (counts.sum() * (edges[1:] - edges[:-1]))
    return counts, edges


# ---- numbers along a line ----

def interp(x: Any, xp: Any, fp: Any, left: float | None = None, right: float | None = None) -> Tensor:
    """Linear between the points (xp, fp), whose xp rises; constant beyond them."""
    x, a, f = _floating(_t(x)), _floating(_t(xp)), _floating(_t(fp))
    n = a.shape[0]
    if a.ndim != 1 or a.shape != f.shape or not n:
        raise _core.ShapeError(f"interp: xp and fp are vectors of one size, not {a.shape} and {f.shape}")
    i = clip(searchsorted(a, x, side="right"), 1, max(n - 1, 1))
    low, high = clip(i - 1, 0, n - 1), clip(i, 0, n - 1)
    wide = a[high] - a[low]
    share = (x - a[low]) / _core.where(wide == 0, 1.0, wide)
    out = f[low] + (f[high] - f[low]) * clip(share, 0.0, 1.0)
    out = out if left is None else _core.where(x < a[0], left, out)
    return out if right is None else _core.where(x > a[-1], right, out)


def ediff1d(x: Any, /) -> Tensor:
    """Differences of neighbours among all elements."""
    return _array.diff(_t(x).reshape(-1))


def gradient(f: Any, *spacing: Any, axis: Any = None) -> Any:
    """Central differences, one-sided at the ends, along all axes (a list of them) or those given, for equal steps or coordinates."""
    f = _floating(_t(f))
    axes = list(range(f.ndim)) if axis is None else _array._axes(f, axis, "gradient")
    steps = list(spacing) if len(spacing) > 1 else list(spacing or (1.0,)) * len(axes)
    if len(steps) != len(axes):
        raise TypeError(f"gradient: {len(steps)} spacings for {len(axes)} axes")
    made = [_slope(f, k, h) for k, h in zip(axes, steps)]
    return made[0] if len(made) == 1 else made


def _slope(f: Tensor, k: int, h: Any) -> Tensor:
    n, part = f.shape[k], _array._part
    if n < 2:
        raise _core.ShapeError(f"gradient: axis {k} has {n} elements, at least 2 are needed")
    at = _array.arange(n).to(f.dtype) * h if isinstance(h, (int, float)) else _t(h).to(f.dtype)
    at = at.reshape([-1 if i == k else 1 for i in range(f.ndim)])
    d, step = part(f, k, slice(1, None)) - part(f, k, slice(None, -1)), part(at, k, slice(1, None)) - part(at, k, slice(None, -1))
    slopes = d / step
    before, behind = part(step, k, slice(None, -1)), part(step, k, slice(1, None))
    inside = (part(slopes, k, slice(None, -1)) * behind + part(slopes, k, slice(1, None)) * before) / (before + behind)
    return concat([part(slopes, k, slice(None, 1)), inside, part(slopes, k, slice(-1, None))], axis=k)


def trapezoid(y: Any, x: Any = None, dx: float = 1.0, axis: Any = -1) -> Tensor:
    """The integral by trapezoids."""
    y = _floating(_t(y))
    k = _axis(y, axis, "trapezoid")
    low, high = _array._part(y, k, slice(None, -1)), _array._part(y, k, slice(1, None))
    if x is None:
        return ((low + high) * (dx / 2)).sum(k)
    step = _array.diff(_t(x), axis=-1 if _t(x).ndim == 1 else k)
    step = step.reshape([-1 if i == k else 1 for i in range(y.ndim)]) if step.ndim == 1 else step
    return ((low + high) * step / 2).sum(k)


def convolve(a: Any, v: Any, mode: str = "full") -> Tensor:
    """The convolution of two vectors: mode "full", "same" or "valid"."""
    a, v = _floating(_t(a)), _floating(_t(v))
    if a.ndim != 1 or v.ndim != 1 or not a.size or not v.size:
        raise _core.ShapeError(f"convolve: two vectors with elements are needed, the shapes are {a.shape} and {v.shape}")
    if v.size > a.size:
        a, v = v, a
    n, m = a.size, v.size
    wide = _core.pad(a, [m - 1], [m - 1])
    windows = wide[_array.arange(n + m - 1)[:, None] + _array.arange(m)[None, :]]
    full = windows @ flip(v)
    if mode == "full":
        return full
    if mode == "valid":
        return full[m - 1:n]
    if mode == "same":
        return full[(m - 1) // 2:(m - 1) // 2 + n]
    raise ValueError(f"convolve: mode is 'full', 'same' or 'valid', not {mode!r}")


def correlate(a: Any, v: Any, mode: str = "valid") -> Tensor:
    """Sums of products of a vector with another one at every place."""
    a, v = _t(a), _t(v)
    return convolve(a, flip(v), mode) if v.size <= a.size else flip(convolve(v, flip(a), mode))


def polyval(p: Any, x: Any) -> Tensor:
    """The polynomial with coefficients p, the highest power first."""
    p = _floating(_t(p))
    x = x if isinstance(x, (int, float)) else _t(x)
    out = p[0] + x * 0 if p.size else _t(x) * 0.0
    for i in range(1, p.size):
        out = out * x + p[i]
    return out


def polyfit(x: Any, y: Any, deg: int) -> Tensor:
    """Coefficients of the polynomial of a degree that fits best, the highest power first."""
    x = _floating(_t(x))
    return linalg.lstsq(vander(x, deg + 1), _floating(_t(y)))[0]


def cov(m: Any, y: Any = None, rowvar: bool = True, bias: bool = False, ddof: int | None = None) -> Tensor:
    """Covariances of the rows, or with rowvar=False of the columns."""
    rows = atleast_2d(_floating(_t(m)))
    rows = rows if rowvar or _t(m).ndim == 1 else rows.T
    if y is not None:
        more = atleast_2d(_floating(_t(y)))
        rows = concat([rows, more if rowvar or _t(y).ndim == 1 else more.T], axis=0)
    centred = rows - rows.mean(1, True)
    divisor = rows.shape[1] - (ddof if ddof is not None else 0 if bias else 1)
    out = centred @ centred.T / divisor
    return out.reshape(()) if out.size == 1 else out


def corrcoef(x: Any, y: Any = None, rowvar: bool = True) -> Tensor:
    """Correlations of the rows, or with rowvar=False of the columns."""
    c = cov(x, y, rowvar)
    if not c.ndim:
        return c / c
    s = _array.diagonal(c).sqrt()
    return clip(c / s[:, None] / s[None, :], -1.0, 1.0)


# ---- about ----

def shape(x: Any) -> tuple[int, ...]:
    """The sizes of the axes."""
    return tuple(_t(x).shape)


def ndim(x: Any) -> int:
    """How many axes there are."""
    return _t(x).ndim


def size(x: Any, axis: Any = None) -> int:
    """How many elements there are, or along an axis."""
    x = _t(x)
    return x.size if axis is None else x.shape[_axis(x, axis, "size")]


def isscalar(x: Any) -> bool:
    """Is it a number of Python or a text?"""
    return isinstance(x, (int, float, complex, str, bytes))


def iscomplexobj(x: Any) -> bool:
    """False: there are no complex numbers."""
    return isinstance(x, complex)


def copyto(dst: Tensor, src: Any) -> None:
    """Puts elements into a tensor."""
    dst.assign(_array.broadcast_to(_t(src).to(dst.dtype), dst.shape))

