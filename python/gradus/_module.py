"""Functionals, modules and virtual tensors."""
from __future__ import annotations

from collections import namedtuple
from types import MemberDescriptorType

from . import _core
from ._core import Tensor
from ._tensor import Device

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from typing import Any, Callable, ClassVar, Iterator, NamedTuple, TypeVar

    F = TypeVar("F", bound=Callable[..., Any])
    M = TypeVar("M", bound="type[Module]")

TENSOR_PARAM_PREFIX = "tensor:"
TENSOR_BUFFER_PREFIX = "buffer:"


@_core._is_functional
class Functional:
    """An object that is called with another object; the classes of both choose the function.

        @Area.register(Square)
        def _(area, square): return square.side ** 2

    Area()(Square(2)) searches the method order of the object's class and, for each class in it, that of the functional's.  The
    library keeps the registrations (gd_register of gradus/class.h)."""

    @classmethod
    def register(cls, obj_type: type) -> Callable[[F], F]:
        """Registers the function that functionals of this class call for objects of a class.  The same pair again replaces."""
        if not isinstance(obj_type, type):
            raise TypeError(f"register: a class is needed, not {obj_type!r}")

        def decorator(fn: F) -> F:
            _core._register(cls, obj_type, fn)
            return fn
        return decorator

    @classmethod
    def get_applicable_types(cls) -> tuple[type, ...]:
        """The classes registered for exactly this class, first registered first."""
        return _core._applicable_types(cls)

    def allows(self, obj: Any) -> bool:
        """Can it be applied to the object?"""
        fn = _core._handler(type(self), type(obj))
        if fn is None and isinstance(obj, VirtualTensor):
            fn = _core._handler(type(self), Tensor)
        return fn is not None

    def invoke(self, obj: Any, *args: Any, **kwargs: Any) -> Any:
        """Applies it to an object.  NotImplementedError names both classes if nothing is registered."""
        fn = _core._handler(type(self), type(obj))
        if fn is None and isinstance(obj, VirtualTensor):
            obj = obj.value
            fn = _core._handler(type(self), type(obj))
        if fn is None:
            raise _core.UnsupportedError(f"No function registered for {type(obj).__name__} with {type(self).__name__}")
        return fn(self, obj, *args, **kwargs)

    __call__ = invoke


def register(functional: type[Functional], obj_type: type) -> Callable[[F], F]:
    """@register(Net, Tensor): what Net does to a tensor."""
    return functional.register(obj_type)


def no_grad_tensors(*names: str) -> Callable[[M], M]:
    """@no_grad_tensors("basis"): tensors assigned to these attributes are buffers.  Names add up with those of the bases."""

    def annotate(cls: M) -> M:
        cls.no_grad_tensors = cls._no_grad_set().union(names)
        return cls
    return annotate


def _no_grad_names_of(base: type) -> frozenset[str]:
    """What a class says itself; a text is one name."""
    said = base.__dict__.get("no_grad_tensors", ())
    names = frozenset((said,) if isinstance(said, str) else said)
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"{base.__name__}.no_grad_tensors: names of attributes are needed, not {name!r}")
    return names


def _has_setter(cls: type, name: str) -> bool:
    """Is the attribute a property, or another descriptor of Python that takes what is assigned?  Slots are places like others."""
    found = next((base.__dict__[name] for base in cls.__mro__ if name in base.__dict__), None)
    return hasattr(type(found), "__set__") and not isinstance(found, MemberDescriptorType)


class Module(Functional, _core._Module):
    """Owns tensors, other modules and virtual tensors that are assigned to its attributes.

        class Net(gd.Module):
            no_grad_tensors = {"mask"}
            def __init__(self):
                super().__init__()
                self.weight = gd.randn((3, 2)).require_grad()
                self.mask = gd.ones(2)

        @gd.register(Net, gd.Tensor)
        def _(net, x): return x @ net.weight * net.mask

    A tensor is copied; the attribute reads the module's own.  It is a parameter, or a buffer where no_grad_tensors of the class or
    a base, a name or several, has its name when it is assigned.  export() gives copies that nothing changes later."""

    no_grad_tensors: ClassVar[Any] = frozenset()

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        cls.no_grad_tensors = cls._no_grad_set()

    @classmethod
    def _no_grad_set(cls) -> frozenset[str]:
        """The names of the class and its bases as they are now."""
        return frozenset(name for base in cls.__mro__ for name in _no_grad_names_of(base))

    @classmethod
    def _no_grad_names(cls) -> str:
        return ", ".join(sorted(cls._no_grad_set()))

    # ---- attributes ----

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "no_grad_tensors":
            raise TypeError(f"no_grad_tensors belongs to the class: {type(self).__name__}.no_grad_tensors = ...")
        if _has_setter(type(self), name):  # what a property keeps registers by itself
            self._delete(name)
        elif isinstance(value, Tensor):
            value = self._set_tensor(name, value, name in type(self)._no_grad_set())
        elif isinstance(value, Module):
            self._set_module(name, value)
        elif isinstance(value, VirtualTensor):
            if value.owner is not self or value.name != name:
                raise ValueError(f"a virtual tensor is assigned to the attribute it was made for, {value.name!r} of its owner")
            value._attach()
        else:
            if hasattr(type(value), "to_device"):
                value = value.to_device(self.device)
            self._delete(name)
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        object.__delattr__(self, name)
        self._delete(name)

    def __getattr__(self, name: str) -> Any:
        # only what no Python attribute is: registered names, and the reference buffers of virtual tensors
        plain = name.removeprefix(TENSOR_PARAM_PREFIX).removeprefix(TENSOR_BUFFER_PREFIX)
        if not name.startswith("__") and self._has(plain):
            return self._get_tensor(name)
        raise AttributeError(f"module '{type(self).__name__}' has no attribute '{name}'")

    # ---- the tree ----

    def parameters(self, glob: str | None = None) -> list[Tensor]:
        """The parameters of the tree, each once."""
        return [t for _, _, t in self._parameters(glob)]

    def named_parameters(self, glob: str | None = None) -> dict[str, Tensor]:
        """The same by dotted name: "inner.weight"."""
        return {name: t for name, _, t in self._parameters(glob)}

    def named_buffers(self, glob: str | None = None) -> dict[str, Tensor]:
        """The buffers of the tree by dotted name."""
        return {name: t for name, _, t in self._buffers(glob)}

    def children(self) -> dict[str, "Module"]:
        """The modules among the attributes."""
        return {name: value for name, value in self.__dict__.items() if isinstance(value, Module)}

    def modules(self) -> Iterator["Module"]:
        """The module itself and everything below it, each once."""
        seen: set[int] = set()

        def walk(module: "Module") -> Iterator["Module"]:
            if id(module) not in seen:
                seen.add(id(module))
                yield module
                for child in module.children().values():
                    yield from walk(child)
        return walk(self)

    def named_modules(self, prefix: str = "") -> Iterator[tuple[str, "Module"]]:
        """The same with dotted names; the module itself under ""."""
        yield prefix, self
        for name, child in self.children().items():
            yield from child.named_modules(f"{prefix}.{name}" if prefix else name)

    def zero_grad(self) -> None:
        """Forgets the gradients of all parameters."""
        for p in self.parameters():
            p.zero_grad()

    # ---- taking out, freezing, moving ----

    def export(self, name: str) -> Tensor:
        """A detached copy of a tensor attribute that nothing later changes."""
        at: Any = self
        for part in name.split("."):
            at = getattr(at, part)
        if not isinstance(at, (Tensor, VirtualTensor)):
            raise TypeError(f"Attribute {name!r} is not a Tensor.")
        return self._export(name)

    def export_all(self) -> dict[str, Tensor]:
        """The same for every tensor of the tree, by dotted name."""
        return {name: t for name, _, t in self._export_all()}

    def freeze(self) -> "Module":
        """Turns gradients off for every parameter of the tree."""
        self._freeze(True)
        return self

    def unfreeze(self) -> "Module":
        """Turns gradients on for every parameter of the tree."""
        self._freeze(False)
        return self

    @property
    def device(self) -> Device:
        """Where its tensors are, and are moved to when they are assigned."""
        return Device(self._device)

    def to_device(self, device: str) -> "Module":
        """Moves every tensor of the tree, or none where that fails."""
        self._to_device(str(device))
        return self

    def cpu(self) -> "Module":
        """Moves the whole tree to the CPU."""
        return self.to_device("cpu")

    def gpu(self, index: int | None = None) -> "Module":
        """Moves the whole tree to a GPU."""
        return self.to_device(Device("gpu", index))

    def to(self, target: Any) -> "Module":
        """to("gpu:0") or to("f32"): device or floating dtype of the whole tree."""
        if isinstance(target, str) and target.startswith(("cpu", "gpu")):
            return self.to_device(target)
        self._to_dtype(target)
        return self

    # ---- state ----

    def state_dict(self) -> dict[str, Tensor]:
        """Parameters and buffers by dotted name, over the module's memory."""
        return self._state()

    def load_state_dict(self, state: dict[str, Tensor], strict: bool = True, cast: bool = False) -> "LoadReport":
        """Sets the tensors to those of a state, all or, with MismatchError, none."""
        return LoadReport(*self._load_state(dict(state), strict, cast))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the state to a safetensors file."""
        self._save(path)

    def load(self, path: str | os.PathLike[str], strict: bool = True, cast: bool = False) -> "LoadReport":
        """Reads the state from a safetensors file."""
        return LoadReport(*self._load(path, strict, cast))

    # ---- showing ----

    def _lines(self, name: str, depth: int) -> Iterator[str]:
        yield "  " * depth + (f"{name}: " if name else "") + type(self).__name__
        for key, value in self.__dict__.items():
            if isinstance(value, Module):
                yield from value._lines(key, depth + 1)
            elif isinstance(value, Tensor):
                kind = "buffer" if key in self.named_buffers() else "parameter" if value.requires_grad else "parameter, frozen"
                axes = ", ".join(f"{n}={s}" if n else str(s) for n, s in zip(value.axes, value.shape))
                yield f"{'  ' * (depth + 1)}{key}: {value.dtype}[{axes}] {kind}"
            elif isinstance(value, VirtualTensor):
                yield f"{'  ' * (depth + 1)}{key}: virtual {value.dtype}"

    def __repr__(self) -> str:
        return "\n".join(self._lines("", 0))

    def _repr_html_(self) -> str:
        import html

        return f"<pre>{html.escape(repr(self))}</pre>"


if TYPE_CHECKING:
    class LoadReport(NamedTuple):
        loaded: int
        missing: list[str]
        unexpected: list[str]
        shape: list[str]
        dtype: list[str]

    class VirtualTensorAttributes(NamedTuple):
        ref: str
else:
    LoadReport = namedtuple("LoadReport", "loaded missing unexpected shape dtype")
    LoadReport.__doc__ = "What a load did: how many tensors were set, and names that did not match."
    VirtualTensorAttributes = namedtuple("VirtualTensorAttributes", "ref")
    VirtualTensorAttributes.__doc__ = "Names of the attributes that a virtual tensor adds to its owner."


class VirtualTensor(_core._Virtual):
    """A tensor attribute that is computed from others when it is read.

        def square(net, dtype, device): return net.weight.T @ net.weight
        VirtualTensor.create(net, "square", square)
        net.square.value

    materializer  a function of the owner, dtype and device, or the name of a method of the owner with dtype and device
    dtype, device lie in a buffer `_NAME_ref` that follows to(); the value is cast to them
    persist       is that buffer part of the state dict?
    memoise       keep the value while no parameter, buffer or other attribute of the owner and the modules below it has changed; what
                  the function reads elsewhere, and changes inside a list or dict, are not seen

    Where a tensor is expected, a virtual tensor is its value: net.square + 1, array @ net.square, gd.stack([net.square, x]), what a
    closure returns.  It cannot be changed in place."""

    LinkedAttributes = VirtualTensorAttributes

    def __init__(self, owner: Module, name: str, materializer: "str | Callable[[Any, str, str], Tensor]",
                 dtype: Any = None, device: str | None = None, persist: bool = False, memoise: bool = False) -> None:
        if isinstance(materializer, str):
            if not hasattr(owner, materializer):
                raise _core.NoAttributeError(f"'{type(owner).__name__}' has no method '{materializer}'")
            if not callable(getattr(owner, materializer)):
                raise _core.WrongTypeError(f"'{materializer}' of '{type(owner).__name__}' is not a method")
        elif not callable(materializer):
            raise TypeError("a materializer is a function or the name of a method")
        super().__init__(owner, name, materializer, dtype, device, persist, memoise)

    @classmethod
    def create(cls, owner: Module, name: str, materializer: "str | Callable[[Any, str, str], Tensor]",
               dtype: Any = None, device: str | None = None, persist: bool = False, memoise: bool = False) -> None:
        """Makes one and assigns it to the owner's attribute of that name."""
        setattr(owner, name, cls(owner, name, materializer, dtype, device, persist, memoise))

    @property
    def attributes(self) -> VirtualTensorAttributes:
        """Names of the attributes that it added."""
        return VirtualTensorAttributes(self._reference)

    @property
    def dtype(self) -> str:
        """The dtype of the value."""
        return self._dtype

    @dtype.setter
    def dtype(self, value: Any) -> None:
        self._to(value, None)

    @property
    def device(self) -> str:
        """The device of the value."""
        return self._device

    @device.setter
    def device(self, value: str) -> None:
        self._to(None, value)

    def to(self, *targets: Any, dtype: Any = None, device: str | None = None) -> None:
        """Sets dtype or device, or both."""
        for target in targets:
            if isinstance(target, str) and target.startswith(("cpu", "gpu")):
                device = target
            else:
                dtype = target
        self._to(dtype, None if device is None else str(device))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.value, name)

    def __repr__(self) -> str:
        return f"<VirtualTensor {self.name!r}: {self.value!r}>" if self.owner is not None else "<VirtualTensor of a module that is gone>"


def _forward(name: str) -> None:
    def method(self: VirtualTensor, *args: Any, **keywords: Any) -> Any:
        return getattr(self.value, name)(*(a.value if isinstance(a, VirtualTensor) else a for a in args), **keywords)
    method.__name__ = name
    setattr(VirtualTensor, name, method)


def _refuse(name: str) -> None:
    def method(self: VirtualTensor, *args: Any) -> Any:
        raise TypeError(f"the virtual tensor '{self.name}' is computed from others: change those, it has no elements of its own")
    method.__name__ = name
    setattr(VirtualTensor, name, method)


for _name in ("add radd sub rsub mul rmul truediv rtruediv floordiv rfloordiv mod rmod pow rpow matmul rmatmul neg pos abs invert "
              "and rand or ror xor rxor lt le eq ne gt ge getitem len iter float int bool index format "
              "array dlpack dlpack_device").split():
    _forward(f"__{_name}__")
for _name in "iadd isub imul itruediv ifloordiv imod ipow imatmul iand ior ixor setitem delitem".split():
    _refuse(f"__{_name}__")
VirtualTensor.__hash__ = object.__hash__  # type: ignore[method-assign]
VirtualTensor.__array_ufunc__ = None  # type: ignore[attr-defined]  # NumPy leaves operators with it to it
