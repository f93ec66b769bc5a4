"""Dtypes as objects, as in the array API standard."""
from __future__ import annotations

from . import _core
from ._core import Tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Dtype:
    """A dtype: equal to its short name, "f32", and taken wherever a short name is."""

    __slots__ = {
        "_short": "The short name.",
        "name": "The name that NumPy has for it.",
        "itemsize": "Bytes per element.",
        "kind": "As in NumPy: \"f\" for floats, \"i\" for signed and \"u\" for unsigned integers, \"b\" for bool.",
    }
    _short: str
    name: str
    itemsize: int
    kind: str

    def __new__(cls, short: Any, name: str | None = None, itemsize: int = 0, kind: str = "") -> "Dtype":
        if name is None:  # of any name that a dtype has
            return _core._dtype(short)
        self = super().__new__(cls)
        self._short, self.name, self.itemsize, self.kind = short, name, itemsize, kind
        return self

    def __str__(self) -> str:
        return self._short

    def __repr__(self) -> str:
        return f"gradus.{self.name}"

    def __format__(self, spec: str) -> str:
        return format(self._short, spec)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, str) and self._short == other)

    def __hash__(self) -> int:
        return hash(self._short)

    def __reduce__(self) -> Any:
        return Dtype, (self._short,)

    def __copy__(self) -> "Dtype":
        return self

    def __deepcopy__(self, memo: Any) -> "Dtype":
        return self


f32 = float32 = Dtype("f32", "float32", 4, "f")
f64 = float64 = Dtype("f64", "float64", 8, "f")
f16 = float16 = Dtype("f16", "float16", 2, "f")
bf16 = bfloat16 = Dtype("bf16", "bfloat16", 2, "f")
i32 = int32 = Dtype("i32", "int32", 4, "i")
i64 = int64 = Dtype("i64", "int64", 8, "i")
u8 = uint8 = Dtype("u8", "uint8", 1, "u")
bool_ = Dtype("bool", "bool", 1, "b")
_ALL = (f32, f64, f16, bf16, i32, i64, u8, bool_)
_core._set_dtypes(_ALL)


class finfo:
    """Limits of a floating dtype: bits, eps, min, max, smallest_normal, dtype."""

    _DIGITS: dict[Any, tuple[int, int]] = {"f64": (52, 1023), "f32": (23, 127), "f16": (10, 15), "bf16": (7, 127)}  # of the fraction; largest exponent

    def __init__(self, type: Any) -> None:
        self.dtype = dtype_of(type)
        if self.dtype.kind != "f":
            raise _core.DtypeError(f"finfo: {self.dtype} is no dtype of floats; iinfo is for integers")
        digits, exponent = self._DIGITS[self.dtype]
        self.bits = 8 * self.dtype.itemsize
        self.eps = 2.0 ** -digits
        self.max = (2 - 2.0 ** -digits) * 2.0 ** exponent
        self.min = -self.max
        self.smallest_normal = self.tiny = 2.0 ** (1 - exponent)

    def __repr__(self) -> str:
        return f"finfo({self.dtype}: eps={self.eps:g}, min={self.min:g}, max={self.max:g}, smallest_normal={self.smallest_normal:g})"


class iinfo:
    """Limits of an integer dtype: bits, min, max, dtype."""

    def __init__(self, type: Any) -> None:
        self.dtype = dtype_of(type)
        if self.dtype.kind not in "iu":
            raise _core.DtypeError(f"iinfo: {self.dtype} is no dtype of integers; finfo is for floats")
        self.bits = 8 * self.dtype.itemsize
        self.min = -2 ** (self.bits - 1) if self.dtype.kind == "i" else 0
        self.max = 2 ** (self.bits - (self.dtype.kind == "i")) - 1

    def __repr__(self) -> str:
        return f"iinfo({self.dtype}: min={self.min}, max={self.max})"


def dtype_of(x: Any) -> Dtype:
    """The dtype of a tensor, or that an object stands for."""
    if isinstance(x, Dtype):
        return x
    own = getattr(x, "dtype", None) if not isinstance(x, type) else None
    return _core._dtype(x if own is None or isinstance(x, str) else own)


_KINDS = {"bool": "b", "signed integer": "i", "unsigned integer": "u", "integral": "iu", "real floating": "f", "complex floating": "",
          "numeric": "iuf"}


def isdtype(dtype: Any, kind: Any) -> bool:
    """Is it that dtype, or of that kind: "bool", "signed integer", "unsigned integer", "integral", "real floating", "complex floating",
    "numeric", or any of a tuple of them?"""
    own = dtype_of(dtype)
    if isinstance(kind, tuple):
        return any(isdtype(own, k) for k in kind)
    if isinstance(kind, str) and kind in _KINDS:
        return own.kind in tuple(_KINDS[kind])
    return own == dtype_of(kind)


def _meet(a: Dtype, b: Dtype) -> Dtype:
    """The common dtype of two operands."""
    if a == b:
        return a
    if a.kind == "f" and b.kind == "f":
        return a if a.itemsize > b.itemsize else b if b.itemsize > a.itemsize else f32
    if "f" in (a.kind, b.kind):
        return a if a.kind == "f" else b
    return a if a.itemsize > b.itemsize or b.kind == "b" else b


def result_type(*arrays_and_dtypes: Any) -> Dtype:
    """The dtype of an operator on tensors, dtypes and numbers of Python, which are weak."""
    if not arrays_and_dtypes:
        raise ValueError("result_type: at least one tensor or dtype is needed")
    numbers = [x for x in arrays_and_dtypes if isinstance(x, (bool, int, float))]
    dtypes = [dtype_of(x) for x in arrays_and_dtypes if not isinstance(x, (bool, int, float))]
    if not dtypes:
        dtypes = [f64 if isinstance(x, float) else bool_ if isinstance(x, bool) else i64 for x in numbers]
        numbers = []
    out = dtypes[0]
    for d in dtypes[1:]:
        out = _meet(out, d)
    for x in numbers:
        if isinstance(x, float) and out.kind != "f":
            out = f64
        elif out.kind == "b" and not isinstance(x, bool):
            out = i64
    return out


def can_cast(from_: Any, to: Any) -> bool:
    """Can every value of a dtype, or of a tensor's, be one of the other by promotion?"""
    a, b = dtype_of(from_), dtype_of(to)
    return _meet(a, b) == b
