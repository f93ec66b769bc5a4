"""Linear algebra as the array API standard has it: the functions of its extension linalg."""
# mypy: disable-error-code="no-any-return"
from __future__ import annotations

from collections import namedtuple

from . import _core
from ._array import diagonal as diagonal, matmul as matmul, matrix_transpose as matrix_transpose, tensordot as tensordot, trace as trace
from ._array import vecdot as vecdot, _axes, _axis, _bare, _floating, _t
from ._core import Tensor
from ._dtypes import finfo, result_type

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

EighResult = namedtuple("EighResult", "eigenvalues eigenvectors")
QRResult = namedtuple("QRResult", "Q R")
SlogdetResult = namedtuple("SlogdetResult", "sign logabsdet")
SVDResult = namedtuple("SVDResult", "U S Vh")
LstsqResult = namedtuple("LstsqResult", "x residuals rank s")

__all__ = ["cholesky", "cross", "det", "diagonal", "eigh", "eigvalsh", "inv", "matmul", "matrix_norm", "matrix_power", "matrix_rank",
           "matrix_transpose", "cond", "lstsq", "multi_dot", "norm", "outer", "pinv", "qr", "slogdet", "solve", "svd", "svdvals", "tensordot", "trace", "vecdot", "vector_norm"]


def _matrix(x: Any, what: str, square: bool = False) -> Tensor:
    x = _t(x)
    if x.ndim < 2 or (square and x.shape[-1] != x.shape[-2]):
        raise _core.ShapeError(f"{what}: a {'square ' if square else ''}matrix is needed, the shape is {x.shape}")
    return _floating(x)


def cholesky(x: Any, /, *, upper: bool = False) -> Tensor:
    """The lower L with x = L L^T, or the upper U = L^T."""
    lower = _core.cholesky(_matrix(x, "cholesky", True))
    return matrix_transpose(lower) if upper else lower


def cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Tensor:
    """The vector product along an axis of three elements."""
    a, b = _bare(_t(x1)), _bare(_t(x2))
    n = min(a.ndim, b.ndim)
    if a.ndim and b.ndim and axis >= 0 and a.ndim != b.ndim or not -n <= axis < max(a.ndim, b.ndim):
        raise _core.AxisError(f"cross: there is no axis {axis} in both")
    if a.shape[axis] != 3 or b.shape[axis] != 3:
        raise _core.ShapeError(f"cross: {a.shape[axis]} and {b.shape[axis]} elements along axis {axis}, three are needed")
    from ._array import broadcast_arrays, stack

    a, b = broadcast_arrays(a, b)
    k = _axis(a, axis, "cross")
    p, q = ([t[(slice(None),) * k + (i,)] for i in range(3)] for t in (a, b))
    return stack([p[1] * q[2] - p[2] * q[1], p[2] * q[0] - p[0] * q[2], p[0] * q[1] - p[1] * q[0]], axis=k)


def slogdet(x: Any, /) -> Any:
    """The sign of the determinant, and the logarithm of its absolute value."""
    x = _matrix(x, "slogdet", True)
    if 0 in x.shape[:-2] or x.shape[-1] == 0:
        return SlogdetResult(_core.ones(x.shape[:-2], x.dtype), _core.zeros(x.shape[:-2], x.dtype))
    sign = _sign(x)
    singular = sign == 0
    if bool(singular.any()):  # the logarithm is -inf there
        whole = _core.where(singular[..., None, None], _identity(x), x)
        return SlogdetResult(sign, _core.where(singular, float("-inf"), _core.logdet(whole)))
    return SlogdetResult(sign, _core.logdet(x))


def _identity(x: Tensor) -> Tensor:
    return _core._eye(x.shape[-1], x.shape[-1], x.dtype)


def _sign(x: Tensor) -> Tensor:
    """The sign of the determinant, by elimination with exchange of rows."""
    with _quiet():
        a = x.detach().to("f64").reshape(-1, x.shape[-1], x.shape[-1]).tolist()
    return _core.asarray([_sign_of(m) for m in a], "f64").to(x.dtype).reshape(x.shape[:-2])


def _quiet() -> Any:
    from ._tensor import no_grad
    return no_grad()


def _sign_of(m: list[list[float]]) -> float:
    n, sign = len(m), 1.0
    for k in range(n):
        p = max(range(k, n), key=lambda i: abs(m[i][k]))
        if m[p][k] == 0:
            return 0.0
        if m[p][k] != m[p][k]:
            return float("nan")
        if p != k:
            m[p], m[k], sign = m[k], m[p], -sign
        sign = -sign if m[k][k] < 0 else sign
        for i in range(k + 1, n):
            f = m[i][k] / m[k][k]
            if f:
                m[i] = [a - f * b for a, b in zip(m[i], m[k])]
    return sign


def det(x: Any, /) -> Tensor:
    """The determinant."""
    found = slogdet(x)
    return found.sign * found.logabsdet.exp()


def eigh(x: Any, /) -> Any:
    """Eigenvalues of a symmetric matrix, rising, and its eigenvectors as columns."""
    return EighResult(*_core.eigh(_matrix(x, "eigh", True)))


def eigvalsh(x: Any, /) -> Tensor:
    """The eigenvalues of a symmetric matrix, rising."""
    values: Tensor = eigh(x).eigenvalues
    return values


def inv(x: Any, /) -> Tensor:
    """The inverse."""
    return _core.inverse(_matrix(x, "inv", True))


def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro") -> Tensor:
    """The norm of matrices: "fro", "nuc", 1, -1, 2, -2, inf or -inf."""
    x = _matrix(x, "matrix_norm")
    if ord == "fro":
        out = x.square().sum((-2, -1)).sqrt()
    elif ord == "nuc":
        out = svdvals(x).sum(-1)
    elif ord in (2, -2):
        s = svdvals(x)
        out = _core.zeros(x.shape[:-2], x.dtype) if 0 in s.shape else s.max(-1) if ord == 2 else s.min(-1)
    elif ord in (1, -1, float("inf"), float("-inf")):
        sums = x.abs().sum(-2 if abs(ord) == 1 else -1)
        out = _core.zeros(x.shape[:-2], x.dtype) if 0 in sums.shape else sums.max(-1) if ord > 0 else sums.min(-1)
    else:
        raise ValueError(f"matrix_norm: there is no norm {ord!r}")
    return out[..., None, None] if keepdims else out


def matrix_power(x: Any, n: int, /) -> Tensor:
    """x times itself, n times; of its inverse where n is below 0."""
    x = _matrix(x, "matrix_power", True)
    if n < 0:
        x, n = _core.inverse(x), -n
    out = None
    while n:
        if n & 1:
            out = x if out is None else out @ x
        n >>= 1
        if n:
            x = x @ x
    return x * 0 + _identity(x) if out is None else out


def matrix_rank(x: Any, /, *, rtol: Any = None) -> Tensor:
    """How many singular values are above rtol times the largest."""
    x = _matrix(x, "matrix_rank")
    s = svdvals(x)
    if 0 in s.shape:
        return _core.zeros(s.shape[:-1], "i64")
    share = max(x.shape[-2:]) * finfo(x.dtype).eps if rtol is None else _t(rtol)[..., None] if not isinstance(rtol, (int, float)) else rtol
    return (s > s.max(-1, True) * share).to("i64").sum(-1)


def outer(x1: Any, x2: Any, /) -> Tensor:
    """Every element of a vector times every one of another."""
    a, b = _bare(_t(x1)), _bare(_t(x2))
    if a.ndim != 1 or b.ndim != 1:
        raise _core.ShapeError(f"outer: two vectors are needed, the shapes are {a.shape} and {b.shape}")
    return (a[:, None] * b[None, :]).to(result_type(a, b))


def pinv(x: Any, /, *, rtol: Any = None) -> Tensor:
    """The pseudoinverse: singular values below rtol times the largest count as 0."""
    x = _matrix(x, "pinv")
    u, s, vt = _core.svd(x)
    if 0 in s.shape:
        return matrix_transpose(x)
    share = max(x.shape[-2:]) * finfo(x.dtype).eps if rtol is None else _t(rtol)[..., None] if not isinstance(rtol, (int, float)) else rtol
    kept = s > s.max(-1, True) * share
    inverse = _core.where(kept, 1 / _core.where(kept, s, 1.0), 0.0)
    return matrix_transpose(vt) @ (inverse[..., :, None] * matrix_transpose(u))


def qr(x: Any, /, *, mode: str = "reduced") -> Any:
    """x = Q R, Q with orthonormal columns and R upper triangular; mode "complete": Q is square."""
    x = _matrix(x, "qr")
    if mode not in ("reduced", "complete"):
        raise ValueError(f"qr: mode is 'reduced' or 'complete', not {mode!r}")
    rows, columns = x.shape[-2:]
    if mode == "reduced" or rows <= columns:
        q, r = _core.qr(x)
        return QRResult(q, r)
    u, _, _ = svd(x, full_matrices=True)
    q, r = _core.qr(x)
    rest = u[..., :, columns:]
    low = _core.zeros(x.shape[:-2] + (rows - columns, columns), x.dtype)
    return QRResult(_core.cat([q, rest], -1), _core.cat([r, low], -2))


def solve(x1: Any, x2: Any, /) -> Tensor:
    """The x with x1 x = x2; x2 with one axis is a vector."""
    a, b = _matrix(x1, "solve", True), _floating(_t(x2))
    if b.ndim == 1:
        return _core.solve(a, b[:, None].expand(a.shape[:-1] + (1,)) if a.ndim > 2 else b[:, None])[..., 0]
    from ._array import broadcast_shapes, broadcast_to

    shape = broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return _core.solve(broadcast_to(a, shape + a.shape[-2:]), broadcast_to(b, shape + b.shape[-2:]))


def svd(x: Any, /, *, full_matrices: bool = True) -> Any:
    """x = U diag(S) Vh with S falling; with full_matrices U and Vh are square."""
    x = _matrix(x, "svd")
    u, s, vt = _core.svd(x)
    rows, columns = x.shape[-2:]
    if full_matrices and rows > columns:
        u = _completed(u)
    elif full_matrices and columns > rows:
        vt = matrix_transpose(_completed(matrix_transpose(vt)))
    return SVDResult(u, s, vt)


def _completed(u: Tensor) -> Tensor:
    """Orthonormal columns and what is orthogonal to them: the columns of the projection I - U U^T belong to eigenvalue 1."""
    n, k = u.shape[-2:]
    _, vectors = _core.eigh(_core._eye(n, n, u.dtype) - u @ matrix_transpose(u))
    return _core.cat([u, vectors[..., :, k:]], -1)


def svdvals(x: Any, /) -> Tensor:
    """The singular values, falling."""
    s: Tensor = _core.svd(_matrix(x, "svdvals"))[1]
    return s


def vector_norm(x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: float = 2) -> Tensor:
    """The norm of vectors along axes: (sum |x|^ord)^(1 / ord); 0 counts what is not 0, inf and -inf are the largest and smallest."""
    x = _floating(_t(x))
    axes = None if axis is None or (x.ndim == 0 and axis != ()) else tuple(_axes(x, axis, "vector_norm"))
    if axes == ():  # of each element
        return (x != 0).to(x.dtype) if ord == 0 else x.abs()
    if ord == 0:
        return (x != 0).to(x.dtype).sum(axes, keepdims)
    if ord in (float("inf"), float("-inf")):
        size = 1
        for k in range(x.ndim) if axes is None else axes:
            size *= x.shape[k]
        if not size:
            return x.abs().sum(axes, keepdims)
        return x.abs().max(axes, keepdims) if ord > 0 else x.abs().min(axes, keepdims)
    if ord > 0:
        return _core.norm(x, float(ord), axes, keepdims)
    return x.abs().pow(float(ord)).sum(axes, keepdims).pow(1 / ord)


# ---- NumPy's beyond the standard ----

def norm(x: Any, /, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The norm of vectors along an axis, of matrices over two; by default of all elements as one vector."""
    x = _t(x)
    if axis is None and (ord is None or x.ndim == 1):
        return vector_norm(x, keepdims=keepdims, ord=2 if ord is None else ord)
    pair = list(axis) if isinstance(axis, (tuple, list)) else [axis] if axis is not None else list(range(x.ndim))
    if len(pair) == 1:
        return vector_norm(x, axis=pair[0], keepdims=keepdims, ord=2 if ord is None else ord)
    if len(pair) != 2:
        raise ValueError(f"norm: axis is one axis or two, not {axis!r}")
    from ._array import expand_dims, moveaxis

    places = [_axis(x, a, "norm") for a in pair]
    out = matrix_norm(moveaxis(x, places, (-2, -1)), ord="fro" if ord is None else ord)
    return expand_dims(out, axis=tuple(sorted(places))) if keepdims else out


def lstsq(a: Any, b: Any, /, rcond: Any = None) -> Any:
    """(x with the smallest |a x - b|, sums of squares of the rest, rank, singular values), as NumPy's."""
    a, b = _matrix(a, "lstsq"), _floating(_t(b))
    columns = b[:, None] if b.ndim == 1 else b
    x = pinv(a, rtol=rcond) @ columns
    rank = matrix_rank(a, rtol=rcond)
    full = int(rank.item()) == a.shape[-1] < a.shape[-2]
    rest = (columns - a @ x).square().sum(0) if full else _core.zeros((0,), x.dtype)
    return LstsqResult(x[:, 0] if b.ndim == 1 else x, rest, rank, svdvals(a))


def multi_dot(arrays: Any, /) -> Tensor:
    """The product of matrices, from the left."""
    parts = [_t(a) for a in arrays]
    if len(parts) < 2:
        raise ValueError("multi_dot: at least two matrices are needed")
    out = parts[0]
    for part in parts[1:]:
        out = out @ part
    return out


def cond(x: Any, /, p: Any = None) -> Tensor:
    """The largest singular value over the smallest; with p the norm times that of the inverse."""
    x = _matrix(x, "cond")
    if p in (None, 2, -2):
        s = svdvals(x)
        return s[..., -1] / s[..., 0] if p == -2 else s[..., 0] / s[..., -1]
    return matrix_norm(x, ord=p) * matrix_norm(inv(x), ord=p)
