"""The Python part of tensors: nothing that is called often."""
from __future__ import annotations

from . import _core
from ._core import Context, Tensor

TYPE_CHECKING = False  # typing is not loaded for annotations: they are only read by checkers
if TYPE_CHECKING:
    import os
    from types import TracebackType
    from typing import Any, Callable, Iterator, Mapping, TypeVar

    Fn = TypeVar("Fn", bound=Callable[..., Any])


class Device(str):
    """A device by kind and number: Device("cpu"), Device("gpu", 1).  A text such as "gpu:1" serves as well."""

    def __new__(cls, kind: str, index: int | None = None) -> "Device":
        return super().__new__(cls, kind if index is None else f"{kind}:{index}")

    def __repr__(self) -> str:
        return f"Device({str(self)!r})"


def devices() -> list[str]:
    """The devices there are: "cpu" and every GPU."""
    return ["cpu", *(f"gpu:{i}" for i in range(_core.gpu_count()))]


# ---- making ----

def tensor(data: Any, dtype: Any = None, axes: Any = None, labels: Any = None, requires_grad: bool = False,
           device: str | None = None) -> Tensor:
    """A tensor of its own from numbers, nested lists, NumPy arrays, columns of pandas, buffers, or anything with __dlpack__ or
    __array__.

    axes    a name for each axis: "batch, feature" or ("batch", None)
    labels  the labels of each axis, {axis: [...]}: texts, or numbers such as times
    Floats give f64, whole numbers i64 and flags bool, arrays keep their dtype.  asarray() shares memory instead."""
    t = _core.tensor(data, dtype)
    if device is not None:
        t = t.to(device=device)
    if axes is not None:
        t = t.rename(axes if isinstance(axes, str) else ", ".join("_" if a is None else a for a in axes))
    for axis, names in (labels or {}).items():
        t = t.with_labels(axis, [_label(n) for n in names])
    if requires_grad or axes is not None or labels:
        t = t.detach()  # a leaf
    return t.require_grad() if requires_grad else t


def _label(value: Any) -> Any:
    """A number as a text that float() reads back."""
    if isinstance(value, str):
        return value
    if hasattr(value, "item") and not isinstance(value, Tensor):
        value = value.item()
    if isinstance(value, (int, float)) and not isinstance(value, bool) and value == value:
        return repr(value)
    raise TypeError(f"labels are texts or numbers, not {value!r}")


# ---- modes ----

class no_grad:
    """with no_grad(): operators record nothing.  A decorator too."""

    def __init__(self) -> None:
        self._contexts: list[Context] = []

    def __enter__(self) -> None:
        self._contexts.append(_core._no_grad_begin())

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        _core._no_grad_end(self._contexts.pop())

    def __call__(self, fn: Fn) -> Fn:
        import functools

        @functools.wraps(fn)
        def inside(*args: Any, **keywords: Any) -> Any:
            with no_grad():
                return fn(*args, **keywords)
        return inside  # type: ignore[return-value]


class enable_grad:
    """with enable_grad(): operators record again, also inside no_grad."""

    def __init__(self) -> None:
        self._before: list[tuple[Context, int]] = []

    def __enter__(self) -> None:
        self._before.append(_core._enable_grad_begin())

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        _core._enable_grad_end(*self._before.pop())


# ---- files ----

def save(path: str | os.PathLike[str], tensors: Mapping[str, Tensor], meta: Mapping[str, str] | None = None) -> None:
    """Writes tensors by name, with axis names and labels, to a safetensors file: whole or not at all."""
    _core._save(path, dict(tensors), dict(meta or {}))


def load(path: str | os.PathLike[str]) -> dict[str, Tensor]:
    """Reads a safetensors file, or a .npy file as {"": tensor}."""
    return _core._load(path)[0]


def load_meta(path: str | os.PathLike[str]) -> dict[str, str]:
    """The texts in a safetensors file."""
    return _core._load(path)[1]


# ---- methods of Tensor ----

def numpy(self: Tensor) -> Any:
    """A NumPy array over the same memory: changes are visible in both. Not for tensors on a GPU, of bf16 or with a history: use
    to("cpu"), to("f32"), detach() first."""
    import numpy as np

    return np.from_dlpack(self)


def __array__(self: Tensor, dtype: Any = None, copy: bool | None = None) -> Any:
    """For numpy.asarray."""
    if dtype is not None and str(dtype) in ("object", "O", "<class 'object'>"):  # numpy.vectorize asks for these
        raise TypeError("an array of objects would cut the tensor's gradient: gd.vmap maps a function; x.detach().numpy() gives an array")
    self._note_read()
    array = self.detach().numpy()
    if dtype is not None and array.dtype != dtype:
        if copy is False:
            raise ValueError("another dtype needs a copy")
        return array.astype(dtype)
    return array.copy() if copy else array


def __iter__(self: Tensor) -> Iterator[Tensor]:
    return (self[i] for i in range(len(self)))


def _axis_at(self: Tensor, axis: str, what: str) -> int:
    if axis not in self.axes:
        raise _core.AxisError(f"{what}: there is no axis '{axis}'; the axes are {', '.join(map(str, self.axes))}")
    return self.axes.index(axis)


def _place_of(self: Tensor, k: int, label: Any) -> Any:
    """A label as its number, from NumPy's scalars too; anything else as it is."""
    if not isinstance(label, str):
        return label
    labels = self.labels[k]
    if labels is None or label not in labels:
        raise _core.LabelError(f"sel: axis '{self.axes[k]}' has no label '{label}'" + ("" if labels is None else f"; it has {', '.join(labels[:8])}"))
    return labels.index(label)


def _coordinates(labels: tuple[str, ...] | None) -> list[float] | None:
    """Labels that are all numbers, as such."""
    if not labels or not (labels[0][:1].isdigit() or labels[0][:1] in "-+.in"):
        return None
    try:
        return [float(n) for n in labels]
    except ValueError:
        return None


def _place_of_number(self: Tensor, k: int, at: list[float], value: Any, nearest: bool) -> int:
    value = float(value)
    if nearest and value == value:
        return min(range(len(at)), key=lambda i: abs(at[i] - value))
    if value in at:
        return at.index(value)
    low = min(range(len(at)), key=lambda i: abs(at[i] - value))
    raise _core.LabelError(f"sel: axis '{self.axes[k]}' has no coordinate {value:g}; the nearest is {at[low]:g} (method=\"nearest\" takes it)")


def _places(self: Tensor, k: int, at: list[float], index: Any, nearest: bool) -> Any:
    """Numbers, lists of numbers and slices by coordinates as places; None: index is of another kind."""
    number = isinstance(index, (int, float)) or type(index).__module__ == "numpy" and getattr(index, "ndim", 1) == 0
    if number and not isinstance(index, bool):
        return _place_of_number(self, k, at, index, nearest)
    if isinstance(index, slice) and not any(isinstance(e, str) for e in (index.start, index.stop)):
        low, high = (-float("inf") if index.start is None else float(index.start)), (float("inf") if index.stop is None else float(index.stop))
        return [i for i, v in enumerate(at) if low <= v <= high][::index.step]
    if hasattr(index, "__len__") and not isinstance(index, str) and not isinstance(index, Tensor) and str(getattr(index, "dtype", "")) != "bool" and not any(
            isinstance(i, (str, bool)) for i in index):
        return [_place_of_number(self, k, at, i, nearest) for i in index]
    return None


def coords(self: Tensor) -> dict[str, tuple[Any, ...]]:
    """The labels of each axis that has some, by its name; as numbers where all are numbers."""
    return {axis: tuple(_coordinates(labels) or labels) for axis, labels in zip(self.axes, self.labels) if axis is not None and labels is not None}


def sel(self: Tensor, method: str | None = None, **at: Any) -> Tensor:
    """Elements by names of axes: x.sel(row="up", column=0), x.sel(row=["up", "down"]), x.sel(row=slice("a", "c")), x.sel(time=slice(10, 20)).

    Texts are labels, alone, in lists and as ends of slices, of which the last is part of the result.  Numbers are coordinates of an axis whose
    labels are numbers (slices: from, to, both ends included; method="nearest" takes the nearest); of other axes they are places."""
    if method not in (None, "nearest"):
        raise ValueError(f"sel: method is 'nearest' or None, not {method!r}")
    if method is not None and not any(_coordinates(self.labels[_axis_at(self, a, "sel")]) for a in at):
        raise ValueError("sel: method='nearest' has no effect: no axis that is chosen from has numbers for labels")
    for axis, index in at.items():
        k = _axis_at(self, axis, "sel")
        numbers = _coordinates(self.labels[k])
        found = None if numbers is None else _places(self, k, numbers, index, method is not None)
        if found is not None:
            self = self[(slice(None),) * k + (found if isinstance(found, int) or found else slice(0, 0),)]
            continue
        if isinstance(index, slice) and any(isinstance(end, str) for end in (index.start, index.stop)):
            stop = _place_of(self, k, index.stop)
            index = slice(_place_of(self, k, index.start), stop + 1 if isinstance(index.stop, str) else stop, index.step)
        elif not isinstance(index, (str, int, slice, Tensor)) and hasattr(index, "__len__") and any(isinstance(i, str) for i in index):
            index = [_place_of(self, k, str(i) if isinstance(i, str) else i) for i in index]
        self = self[(slice(None),) * k + (index,)]
    return self


def isel(self: Tensor, **at: Any) -> Tensor:
    """Elements by names of axes and places: x.isel(row=0, column=[1, -1])."""
    for axis, index in at.items():
        k = _axis_at(self, axis, "isel")
        ends = (index.start, index.stop) if isinstance(index, slice) else index if isinstance(index, (list, tuple)) else (index,)
        if any(isinstance(i, str) for i in ends):
            raise TypeError(f"isel: '{axis}' is chosen by places, not by labels; sel takes labels")
        self = self[(slice(None),) * k + (index,)]
    return self


def dims(self: Tensor) -> tuple[str | None, ...]:
    """The names of the axes; None for one without."""
    return self.axes


def transpose(self: Tensor, *axes: Any, **named: int) -> Tensor:
    """Axes in another order: two numbers are exchanged; names, or as many numbers as axes, are the new order; nothing: the opposite order."""
    if not named and len(axes) == 1 and isinstance(axes[0], (tuple, list)):
        axes = tuple(axes[0])
        if axes and not any(isinstance(a, str) for a in axes):
            return self.permute(axes)
    if not axes and not named:
        return self.T
    if not any(isinstance(a, str) for a in axes):
        return _core.transpose(self, *axes, **named) if len(axes) <= 2 else self.permute(axes)
    order = [_axis_at(self, a, "transpose") if isinstance(a, str) else a for a in axes]
    if len(order) != self.ndim:
        raise _core.AxisError(f"transpose: {len(order)} axes are named, the tensor has {self.ndim}: {', '.join(map(str, self.axes))}")
    return self.permute(order)


def rename(self: Tensor, names: Any = None, **new: str | None) -> Tensor:
    """Other names for the axes: x.rename("row, col") for all, x.rename(row="r") or x.rename({"row": "r"}) for some."""
    if names is not None and not isinstance(names, dict):
        if new:
            raise TypeError("rename: all names as a text, or some as row='r'")
        return _core.rename(self, names)
    wanted = {**(names or {}), **new}
    made = list(self.axes)
    for old, name in wanted.items():
        made[_axis_at(self, old, "rename")] = name
    return _core.rename(self, ", ".join("_" if n is None else n for n in made)) if made else self


def to_pandas(self: Tensor) -> Any:
    """A Series of a vector, a DataFrame of a matrix, with names and labels of the axes; of a number the number."""
    import pandas  # type: ignore[import-untyped, import-not-found, unused-ignore]

    if self.ndim > 2:
        raise _core.ShapeError(f"to_pandas: a vector or a matrix is needed, the tensor has {self.ndim} axes")
    if not self.ndim:
        return self.item()
    values = self.detach().to("cpu")
    array = (values.to("f32") if values.dtype == "bf16" else values).numpy().copy()
    index = [pandas.Index(range(n) if names is None else _coordinates(names) or names, name=axis) for n, names, axis in zip(self.shape, self.labels, self.axes)]
    return pandas.Series(array, index=index[0]) if self.ndim == 1 else pandas.DataFrame(array, index=index[0], columns=index[1])


def __array_ufunc__(self: Tensor, ufunc: Any, method: str, *inputs: Any, **keywords: Any) -> Any:
    """For NumPy's universal functions: np.exp(t) is a tensor with its gradient."""
    from ._numpy import call_ufunc

    return call_ufunc(ufunc, method, *inputs, **keywords)


def __array_function__(self: Tensor, func: Any, types: Any, args: Any, keywords: Any) -> Any:
    """For NumPy's other functions: np.sum(t) is a tensor with its gradient."""
    from ._numpy import call_function

    return call_function(func, args, keywords)


def clone(self: Tensor) -> Tensor:
    """A copy with its own memory; gradients flow through."""
    return self.copy()


def __reduce__(self: Tensor) -> Any:
    x = self.detach().to("cpu")
    wide = x.to("f32") if x.dtype == "bf16" else x
    return (_restore, (wide.tolist() if x.size == 0 else _bytes_of(wide), wide.dtype, x.dtype, x.shape, x.axes, x.labels,
                       self.requires_grad and self.is_leaf))


def _bytes_of(x: Tensor) -> bytes:
    return _core._bytes(x)


def _restore(data: Any, stored: Any, dtype: Any, shape: tuple[int, ...], axes: Any, labels: Any, grad: bool) -> Tensor:
    t = _core._from_bytes(data, stored, shape) if isinstance(data, bytes) else _core.zeros(shape, stored)
    return tensor(t.to(dtype), axes=axes if any(axes) else None,
                  labels={i: names for i, names in enumerate(labels) if names is not None}, requires_grad=grad)


def __deepcopy__(self: Tensor, memo: Any) -> Tensor:
    if not self.is_leaf:
        raise _core.GraphError("deepcopy: only tensors without a history can be copied so; detach() gives one")
    t = self.detach().copy()
    return t.require_grad() if self.requires_grad else t


def _shown(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _ends(count: int, some: int) -> tuple[range, range]:
    """The first and the last of a long row, or all."""
    return (range(some), range(count - some, count)) if count > 2 * some + 2 else (range(count), range(0))


def _values(t: Tensor, some: int, indent: str) -> str:
    """Nested brackets, each line under the first."""
    if t.ndim == 0:
        return _shown(t.item())
    first, last = _ends(t.shape[0], some)
    if t.ndim == 1:
        shown = [_shown(v) for part in (first, last) if part for v in t[part.start:part.stop].tolist()]
    else:
        shown = [_values(t[i], some, indent + " ") for part in (first, last) for i in part]
    if last:
        shown.insert(len(first), "...")
    between = ", " if t.ndim == 1 else "," + "\n" * (t.ndim - 1) + indent + " "  # a blank line between matrices
    return "[" + between.join(shown) + "]"


def _axis_text(name: str | None, size: int, labels: tuple[str, ...] | None) -> str:
    text = f"{name}={size}" if name else str(size)
    if not labels:
        return text
    first, last = _ends(size, 5)
    words = [labels[i] for i in first] + (["..."] if last else []) + [labels[i] for i in last]
    return f"{text}: {' '.join(words)}"


def __repr__(self: Tensor) -> str:
    try:
        t = self.detach().to("cpu")
    except _core.StateError:
        return "tensor(of a closed context)"
    # many rows without elements are no row; of many elements fewer are shown
    values = _values(t, 5 if t.size <= 1000 else 3, " " * 7) if t.size else "[]"
    axes = ", ".join(map(_axis_text, self.axes, self.shape, self.labels))
    device = "" if self.device == "cpu" else f", {self.device}"
    return f"tensor({values}  {self.dtype}[{axes}]{device}{', requires_grad' if self.requires_grad else ''})"


def _repr_html_(self: Tensor) -> str:
    """A table of the last two axes for notebooks; text where there are more, or many elements."""
    import html

    if self.ndim not in (1, 2) or self.size > 400 or self.size == 0:
        return f"<pre>{html.escape(repr(self))}</pre>"
    rows = self.detach().to("cpu").tolist() if self.ndim == 2 else [self.detach().to("cpu").tolist()]
    names, labels = self.axes, self.labels

    head = labels[-1] or range(self.shape[-1])
    side = (labels[0] or range(self.shape[0])) if self.ndim == 2 else [""]
    corner = " \\ ".join(n or "" for n in names) if any(names) else ""
    out = [f"<table><caption>{html.escape(str(self.dtype))} {html.escape(str(list(self.shape)))}</caption>",
           f"<tr><th>{html.escape(corner)}</th>" + "".join(f"<th>{html.escape(str(h))}</th>" for h in head) + "</tr>"]
    for label, row in zip(side, rows):
        out.append(f"<tr><th>{html.escape(str(label))}</th>" + "".join(f"<td>{_shown(v)}</td>" for v in row) + "</tr>")
    return "".join(out) + "</table>"


def __format__(self: Tensor, spec: str) -> str:
    return format(self.detach().item() if spec and self.size == 1 else repr(self), spec if self.size == 1 else "")


for _method in (numpy, __array__, __array_ufunc__, __array_function__, __iter__, sel, isel, transpose, rename, to_pandas, clone,
                 __reduce__, __deepcopy__, __repr__, _repr_html_, __format__):
    setattr(Tensor, _method.__name__, _method)

setattr(Tensor, "dims", property(dims))
setattr(Tensor, "coords", property(coords))
Tensor.__pandas_priority__ = 10000  # pandas leaves operators to tensors: its frames have 4000
