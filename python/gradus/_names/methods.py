"""Methods of Tensor that users of NumPy and PyTorch know beside the operators."""
from __future__ import annotations

from .. import _core
from .._core import Tensor
from .._dtypes import f16, f32, f64, i32, i64

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def _named(name: str, doc: str) -> Any:
    def method(self: Tensor, *args: Any, **keywords: Any) -> Any:
        from . import numpy
        return getattr(numpy, name)(self, *args, **keywords)
    method.__name__, method.__qualname__, method.__doc__ = name, f"Tensor.{name}", f"{doc}  The arguments of gradus.{name}."
    return method


def __divmod__(self: Tensor, other: Any) -> tuple[Tensor, Tensor]:
    return _core.floor_div(self, other), _core.mod(self, other)


def __rdivmod__(self: Tensor, other: Any) -> tuple[Tensor, Tensor]:
    return _core.floor_div(other, self), _core.mod(other, self)


def __round__(self: Tensor, decimals: int | None = None) -> Any:
    from .numpy import round
    return round(self, decimals or 0)


def nbytes(self: Tensor) -> int:
    """The size of the elements in bytes."""
    return self.size * self.dtype.itemsize


def itemsize(self: Tensor) -> int:
    """Bytes per element."""
    return self.dtype.itemsize


def data(self: Tensor) -> Tensor:
    """The elements without their history, as detach()."""
    return self.detach()


def numel(self: Tensor) -> int:
    """How many elements there are."""
    return self.size


def dim(self: Tensor) -> int:
    """How many axes there are."""
    return self.ndim


def view(self: Tensor, *shape: Any) -> Tensor:
    """The elements in another shape, as reshape."""
    return self.reshape(*shape)


def fill_(self: Tensor, value: Any) -> Tensor:
    """Puts one value everywhere."""
    self[...] = value
    return self


def fill(self: Tensor, value: Any) -> None:
    """Puts one value everywhere."""
    self[...] = value


def zero_(self: Tensor) -> Tensor:
    """Puts 0 everywhere."""
    return fill_(self, 0)


def copy_(self: Tensor, other: Any) -> Tensor:
    """Puts the elements of another tensor here."""
    self[...] = other
    return self


def requires_grad_(self: Tensor, requires_grad: bool = True) -> Tensor:
    """Says whether the tensor wants gradients."""
    return self.require_grad(requires_grad)


def cpu(self: Tensor) -> Tensor:
    """The tensor on the CPU."""
    return self.to("cpu")


def _cast_to(dtype: Any, name: str) -> Any:
    def cast(self: Tensor) -> Tensor:
        return self if self.dtype == dtype else self.to(dtype)
    cast.__name__, cast.__doc__ = name, f"The tensor in {dtype}."
    return cast


def type_as(self: Tensor, other: Tensor) -> Tensor:
    """The tensor in another one's dtype."""
    return self.to(other.dtype)


def t(self: Tensor) -> Tensor:
    """A matrix with its axes exchanged; a vector as it is."""
    if self.ndim > 2:
        raise _core.ShapeError(f"t: a matrix or a vector is needed, the tensor has {self.ndim} axes")
    return self.T if self.ndim == 2 else self


def masked_fill(self: Tensor, mask: Any, value: Any) -> Tensor:
    """The tensor with one value where the mask holds."""
    return _core.where(mask, value, self)


def chunk(self: Tensor, chunks: int, axis: Any = 0, *, dim: Any = None) -> tuple[Tensor, ...]:
    """So many parts along an axis, the last one may be shorter."""
    from .._array import _axis, _part

    k = _axis(self, axis if dim is None else dim, "chunk")
    if chunks < 1:
        raise ValueError(f"chunk: {chunks} parts")
    size = max(-(-self.shape[k] // chunks), 1)
    return tuple(_part(self, k, slice(i, i + size)) for i in range(0, max(self.shape[k], 1), size))


for _name, _doc in (("round", "Rounded to so many decimals."), ("dot", "The product of vectors and matrices."), ("cumsum", "Running sums."),
                    ("ptp", "The largest element less the smallest."), ("partition", "Sorted."), ("argpartition", "The places in order."),
                    ("pad", "More elements before and behind those of each axis.")):
    setattr(Tensor, _name, _named(_name, _doc))
for _fn in (__divmod__, __rdivmod__, __round__, numel, dim, view, fill_, fill, zero_, copy_, requires_grad_, cpu, type_as, t, masked_fill, chunk):
    setattr(Tensor, _fn.__name__, _fn)
for _kind, _dtype in (("float", f32), ("double", f64), ("half", f16), ("int", i32), ("long", i64)):
    setattr(Tensor, _kind, _cast_to(_dtype, _kind))
for _fn in (nbytes, itemsize, data):
    setattr(Tensor, _fn.__name__, property(_fn))
