"""PyTorch's functions that have another name here."""
# mypy: disable-error-code="no-any-return"
from __future__ import annotations

from .. import _array, _core
from .._array import _t
from .._core import Tensor
from .._dtypes import i64

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def mm(input: Any, mat2: Any) -> Tensor:
    """The product of two matrices."""
    return _core.matmul(_t(input), _t(mat2))


def bmm(input: Any, mat2: Any) -> Tensor:
    """The products of matrices, one per element of the first axis."""
    return _core.matmul(_t(input), _t(mat2))


def chunk(input: Any, chunks: int, dim: Any = 0) -> tuple[Tensor, ...]:
    """So many parts along an axis, the last one may be shorter."""
    return _t(input).chunk(chunks, dim)


def from_numpy(ndarray: Any) -> Tensor:
    """A tensor over the memory of an array."""
    return _array.asarray(ndarray)


def is_tensor(obj: Any) -> bool:
    """Is it a Tensor?"""
    return isinstance(obj, Tensor)


def manual_seed(seed: int) -> None:
    """Starts the random numbers anew, as gd.seed."""
    _core.seed(seed)


def randint(low: int, high: int | None = None, size: Any = None, *, dtype: Any = None) -> Tensor:
    """Random whole numbers from low, or 0, and below high."""
    if size is None and not isinstance(high, (int, type(None))):
        low, high, size = 0, low, high
    low, high = (0, low) if high is None else (low, high)
    if low >= high:
        raise ValueError(f"randint: there is no number from {low} and below {high}")
    drawn = (_core.rand(() if size is None else size, "f64") * (high - low)).floor().to(i64) + low
    return drawn if dtype is None else drawn.to(dtype)


def randperm(n: int) -> Tensor:
    """The numbers from 0 and below n in random order."""
    return _core.permutation(n)
