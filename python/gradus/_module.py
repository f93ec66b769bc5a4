"""Functionals, modules and virtual tensors."""
from __future__ import annotations

import weakref
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


def _own(value: Any) -> Any:
    """An array or a tensor of another library as a tensor."""
    if isinstance(value, (Tensor, _core._Virtual)) or not (hasattr(value, "__array__") or hasattr(value, "__dlpack__")):
        return value
    return _core.tensor(value)


def _has_setter(cls: type, name: str) -> bool:
    """Is the attribute a property or other data descriptor?  Slots count as ordinary attributes."""
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

    A method forward(self, x) is registered for tensors, too.  copy, deepcopy and pickle work.

    A tensor is copied; the attribute reads the module's own.  A parameter of another module is not copied: both attributes are the same
    tensor, which is listed and saved once.  Lists, tuples and dicts of modules become ModuleList and ModuleDict, those of tensors that want
    gradients TensorList and TensorDict.  A tensor is a parameter, or a buffer if no_grad_tensors of the class or a
    base contains its name at the assignment.  export() returns independent copies."""

    no_grad_tensors: ClassVar[Any] = frozenset()

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        cls.no_grad_tensors = cls._no_grad_set()

        if "forward" in cls.__dict__:  # is what it does to a tensor
            cls.register(Tensor)(_call_forward)

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
            value = self._put_tensor(name, value)
        elif isinstance(value, Module):
            self._set_module(name, value)
        elif isinstance(value, VirtualTensor):
            if value.owner is not self or value.name != name:
                raise ValueError(f"a virtual tensor is assigned to the attribute it was made for, {value.name!r} of its owner")
            value._attach()
        else:
            if hasattr(type(value), "to_device"):
                value = value.to_device(self.device)
            elif isinstance(value, (list, tuple, dict)) and value:
                made = self._container(name, value)
                if made is not None:
                    self._set_module(name, made)
                    object.__setattr__(self, name, made)
                    return
            self._delete(name)
        object.__setattr__(self, name, value)

    def _put_tensor(self, name: str, value: Tensor) -> Tensor:
        buffer = name in type(self)._no_grad_set()
        owner = None if buffer else _owner_of(value)
        if owner is not None and not (owner[0] is self and owner[1] == name) and str(value.device) == str(self.device):
            self._tie(name, value)
            self.__dict__.setdefault("_ties", {})[name] = owner
            return self._get_tensor(name)
        self.__dict__.get("_ties", {}).pop(name, None)
        own = self._set_tensor(name, value, buffer)
        if not buffer:
            _owners[own._handle] = (weakref.ref(self), name)
        return own

    def _container(self, name: str, value: Any) -> "Module | None":
        """A module of what a list, tuple or dict holds; None: it holds nothing that is to be registered."""
        items = list(value.values()) if isinstance(value, dict) else list(value)
        if any(isinstance(v, Module) and any(m is self for m in v.modules()) for v in items):
            return None  # it refers to what it is part of
        texts = not isinstance(value, dict) or all(isinstance(k, str) and k.isidentifier() for k in value)
        if all(isinstance(v, Module) for v in items) and texts:
            return ModuleDict(value) if isinstance(value, dict) else ModuleList(items)
        if all(isinstance(v, Tensor) for v in items) and any(v.requires_grad for v in items) and texts:
            return TensorDict(value) if isinstance(value, dict) else TensorList(items)
        if any(isinstance(v, Module) or (isinstance(v, Tensor) and v.requires_grad) for v in items):
            import warnings

            warnings.warn(f"{type(self).__name__}.{name}: the {type(value).__name__} holds modules or parameters beside other things: they are not "
                          "registered; ModuleList, ModuleDict, TensorList and TensorDict are", _core.GradusWarning, stacklevel=3)
        return None

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

    def named_parameters(self, glob: str | None = None) -> "Named":
        """The same by dotted name, "inner.weight": a dict that iterates over pairs."""
        return Named((name, t) for name, _, t in self._parameters(glob))

    def named_buffers(self, glob: str | None = None) -> "Named":
        """The buffers of the tree by dotted name, as named_parameters gives them."""
        return Named((name, t) for name, _, t in self._buffers(glob))

    def buffers(self, glob: str | None = None) -> list[Tensor]:
        """The buffers of the tree."""
        return [t for _, _, t in self._buffers(glob)]

    def register_buffer(self, name: str, tensor: Tensor) -> None:
        """Makes a tensor the buffer of an attribute."""
        object.__setattr__(self, name, self._set_tensor(name, tensor, True))

    def register_parameter(self, name: str, tensor: Tensor) -> None:
        """Makes a tensor the parameter of an attribute."""
        setattr(self, name, tensor.detach().require_grad() if not tensor.requires_grad else tensor)

    def add_module(self, name: str, module: "Module") -> None:
        """Makes a module the child of an attribute."""
        setattr(self, name, module)

    def apply(self, fn: "Callable[[Module], Any]") -> "Module":
        """fn(module) for everything below the module, then the module itself."""
        for module in reversed(list(self.modules())):
            fn(module)
        return self

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

    def named_children(self) -> Iterator[tuple[str, "Module"]]:
        """The modules among the attributes, with their names."""
        return iter(self.children().items())

    def get_submodule(self, target: str) -> "Module":
        """The module with a dotted name."""
        at: Any = self
        for part in target.split(".") if target else ():
            at = at.children().get(part)
            if at is None:
                raise _core.NoAttributeError(f"get_submodule: '{type(self).__name__}' has no module '{target}'")
        return at  # type: ignore[no-any-return]

    def get_parameter(self, target: str) -> Tensor:
        """The parameter with a dotted name."""
        found = [t for name, _, t in self._parameters(None) if name == target]
        if not found:
            raise _core.NoAttributeError(f"get_parameter: '{type(self).__name__}' has no parameter '{target}'")
        return found[0]

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forgets the gradients of all parameters."""
        for p in self.parameters():
            p.zero_grad()

    # ---- taking out, freezing, moving ----

    def export(self, name: str) -> Tensor:
        """An independent detached copy of a tensor attribute."""
        at: Any = self
        for part in name.split("."):
            at = getattr(at, part)
        if not isinstance(at, (Tensor, VirtualTensor)):
            raise TypeError(f"Attribute {name!r} is not a Tensor.")
        return self._export(name)

    def export_all(self) -> dict[str, Tensor]:
        """The same for every tensor of the tree, by dotted name."""
        return {name: t for name, _, t in self._export_all()}

    def freeze(self, *names: str) -> "Module":
        """Turns gradients off for every parameter of the tree, or for those whose dotted names match: freeze("encoder.*")."""
        return self._want_gradients(False, names)

    def unfreeze(self, *names: str) -> "Module":
        """Turns gradients on again, for all parameters or those whose dotted names match."""
        return self._want_gradients(True, names)

    def _want_gradients(self, on: bool, names: tuple[str, ...]) -> "Module":
        if not names:
            self._freeze(not on)
            return self
        found = [self._parameters(name) or self._parameters(f"{name}.*") for name in names]
        for name, rows in zip(names, found):
            if not rows:
                raise _core.NoAttributeError(f"{'unfreeze' if on else 'freeze'}: no parameter of '{type(self).__name__}' is called '{name}'")
        for rows in found:
            for _, _, t in rows:
                t.require_grad(on)
        return self

    def requires_grad_(self, requires_grad: bool = True) -> "Module":
        """unfreeze(), or freeze()."""
        return self._want_gradients(requires_grad, ())

    # ---- training and evaluating ----

    @property
    def training(self) -> bool:
        """Is it in training mode? Layers like dropout depend on it."""
        return self._training

    @training.setter
    def training(self, mode: bool) -> None:
        self.train(mode)

    def train(self, mode: bool = True) -> "Module":
        """Sets the whole tree to training mode, the default."""
        self._train(bool(mode))
        return self

    def eval(self) -> "Module":
        """Sets the whole tree to evaluation mode: dropout keeps everything, batch_norm uses its running averages."""
        self._train(False)
        return self

    # ---- copying and pickling ----

    def __reduce_ex__(self, protocol: Any) -> Any:
        return (_new_module, (type(self),), self._state_of_object())

    def _state_of_object(self) -> dict[str, Any]:
        buffers = {name for name, _, _ in self._buffers(None)}
        ties = self.__dict__.get("_ties", {})
        entries: list[tuple[str, str, Any]] = []
        slots = [n for base in type(self).__mro__ for n in _slots_of(base) if hasattr(self, n)]
        for name, value in [*self.__dict__.items(), *((n, getattr(self, n)) for n in slots)]:
            if name == "_ties":
                continue
            if isinstance(value, Tensor) and self._has(name):
                owner = ties.get(name)
                holder = owner[0]() if owner else None
                if owner and holder is not None:
                    entries.append(("tie", name, (holder, owner[1])))
                else:
                    entries.append(("buffer" if name in buffers else "parameter", name, value))
            elif isinstance(value, VirtualTensor):
                entries.append(("virtual", name, (value._how[0], value.dtype, value.device, *value._how[1:])))
            else:
                entries.append(("module" if isinstance(value, Module) else "plain", name, value))
        return {"entries": entries, "training": self.training}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for kind, name, value in state["entries"]:
            if kind in ("parameter", "buffer"):
                own = self._set_tensor(name, value.detach(), kind == "buffer")
                if kind == "parameter":
                    own.require_grad(value.requires_grad)
                    _owners[own._handle] = (weakref.ref(self), name)
                object.__setattr__(self, name, own)
            elif kind == "tie":
                holder, of = value
                if holder._has(of):
                    setattr(self, name, getattr(holder, of))
                else:  # its state comes later
                    holder.__dict__.setdefault("_waiting", []).append((self, name, of))
            elif kind == "virtual":
                how, dtype, device, persist, memoise = value
                VirtualTensor.create(self, name, how, dtype, device, persist, memoise)
            elif kind == "module":
                self._set_module(name, value)
                object.__setattr__(self, name, value)
            else:
                object.__setattr__(self, name, value)
        for module, name, of in self.__dict__.pop("_waiting", []):
            setattr(module, name, getattr(self, of))
        self._train_alone(state["training"])

    def _train_alone(self, mode: bool) -> None:
        if mode != self.training:
            children = [(child, child.training) for child in self.children().values()]
            self._train(mode)
            for child, was in children:
                child._train(was)

    @property
    def device(self) -> Device:
        """The device of its tensors; assigned tensors are moved there."""
        return Device(self._device)

    def to_device(self, device: str) -> "Module":
        """Moves every tensor of the tree, or on failure none."""
        self._to_device(str(device))
        return self

    def cpu(self) -> "Module":
        """Moves the whole tree to the CPU."""
        return self.to_device("cpu")

    def gpu(self, index: int | None = None) -> "Module":
        """Moves the whole tree to a GPU."""
        return self.to_device(Device("gpu", index))

    def to(self, *targets: Any, device: Any = None, dtype: Any = None) -> "Module":
        """to("gpu:0"), to("f32"), to(device=, dtype=): device and floating dtype of the whole tree."""
        for target in targets:
            if isinstance(target, str) and target.startswith(("cpu", "gpu")):
                device = target
            else:
                dtype = target
        if device is not None:
            self.to_device(device)
        if dtype is not None:
            self._to_dtype(dtype)
        return self

    def float(self) -> "Module":
        """to("f32")."""
        return self.to(dtype="f32")

    def half(self) -> "Module":
        """to("f16")."""
        return self.to(dtype="f16")

    def double(self) -> "Module":
        """to("f64")."""
        return self.to(dtype="f64")

    # ---- state ----

    def state_dict(self) -> dict[str, Tensor]:
        """Parameters and buffers by dotted name, over the module's memory."""
        return self._state()

    def load_state_dict(self, state: dict[str, Tensor], strict: bool = True, cast: bool = False) -> "LoadReport":
        """Sets the tensors to those of a state, all or, with MismatchError, none.  A tied tensor may appear under each of its names.  Arrays and
        tensors of other libraries are accepted, too."""
        own = {name for name, _, _ in (*self._parameters(None), *self._buffers(None))}
        also = self._tied_names("") - own
        return LoadReport(*self._load_state({name: _own(t) for name, t in dict(state).items() if name not in also}, strict, cast))

    def _tied_names(self, prefix: str) -> set[str]:
        names = {f"{prefix}{name}" for module in [self] for name in module.__dict__.get("_ties", {})}
        owned = {of for holder, of in self.__dict__.get("_ties", {}).values() if holder() is self}
        names |= {f"{prefix}{of}" for of in owned}
        for name, child in self.children().items():
            names |= child._tied_names(f"{prefix}{name}.")
        return names

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


class Named(dict):  # type: ignore[type-arg]
    """Tensors by name: a dict that iterates over (name, tensor) pairs, as torch's named_parameters() does."""

    if TYPE_CHECKING:
        def __getitem__(self, name: str) -> Tensor: ...

    def __iter__(self) -> Iterator[tuple[str, Tensor]]:
        return iter(self.items())

    def __reduce__(self) -> Any:
        return (Named, (list(self.items()),))


# Whose parameter a tensor is, by its address; an entry counts only if the module still has the tensor.
_owners: dict[int, tuple[Any, str]] = {}


def _owner_of(t: Tensor) -> tuple[Any, str] | None:
    found = _owners.get(t._handle)
    if found is None:
        return None
    module, name = found[0](), found[1]
    kept = None if module is None else module.__dict__.get(name)
    if isinstance(kept, Tensor) and kept._handle == t._handle:
        return found
    del _owners[t._handle]
    return None


def _call_forward(self: Any, x: Tensor, *args: Any, **keywords: Any) -> Any:
    return self.forward(x, *args, **keywords)


def _new_module(cls: type[Module]) -> Module:
    return cls.__new__(cls)


def _slots_of(base: type) -> tuple[str, ...]:
    said = base.__dict__.get("__slots__", ())
    return tuple(n for n in ((said,) if isinstance(said, str) else said) if not n.startswith("__"))


class _Items(Module):
    """Modules or tensors by place."""

    def __init__(self, items: Any = ()) -> None:
        super().__init__()
        self.extend(items)

    def _names(self) -> list[str]:
        return [n for n, v in self.__dict__.items() if n.isdigit() and isinstance(v, (Module, Tensor))]

    def append(self, item: Any) -> Any:
        """One more at the end."""
        setattr(self, str(len(self)), self._checked(item))
        return self

    def extend(self, items: Any) -> Any:
        """More at the end."""
        for item in items:
            self.append(item)
        return self

    def insert(self, index: int, item: Any) -> None:
        """One more before a place."""
        items = list(self)
        items.insert(index, self._checked(item))
        self._put_all(items)

    def _put_all(self, items: list[Any]) -> None:
        for name in self._names():
            delattr(self, name)
        self.extend(items)

    def _checked(self, item: Any) -> Any:
        kind = Tensor if isinstance(self, TensorList) else Module
        if not isinstance(item, kind):
            raise TypeError(f"{type(self).__name__}: a {kind.__name__} is needed, not {type(item).__name__}")
        return item

    def _at(self, index: int) -> str:
        number = index + len(self) if index < 0 else index
        if not 0 <= number < len(self):
            raise IndexError(f"{type(self).__name__}: there is no place {index}: it has {len(self)}")
        return str(number)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return type(self)(list(self)[index])
        return getattr(self, self._at(index))

    def __setitem__(self, index: int, item: Any) -> None:
        setattr(self, self._at(index), self._checked(item))

    def __delitem__(self, index: int) -> None:
        items = list(self)
        del items[int(self._at(index))]
        self._put_all(items)

    def __len__(self) -> int:
        return len(self._names())

    def __iter__(self) -> Any:
        return iter([getattr(self, str(i)) for i in range(len(self))])

    def __bool__(self) -> bool:
        return True


class ModuleList(_Items):
    """Modules by place: ModuleList([a, b])[0].  They are called one by one, by the code that has them."""


class TensorList(_Items):
    """Parameters by place."""


class _Named(Module):
    """Modules or tensors by name."""

    def __init__(self, items: Any = ()) -> None:
        super().__init__()
        self.update(items)

    def _names(self) -> list[str]:
        return [n for n, v in self.__dict__.items() if not n.startswith("_") and isinstance(v, (Module, Tensor))]

    def update(self, items: Any) -> None:
        """Sets those of a dict or of pairs."""
        for name, item in items.items() if hasattr(items, "items") else items:
            self[name] = item

    def __getitem__(self, name: str) -> Any:
        if name not in self._names():
            raise KeyError(name)
        return getattr(self, name)

    def __setitem__(self, name: str, item: Any) -> None:
        kind = Tensor if isinstance(self, TensorDict) else Module
        if not isinstance(item, kind):
            raise TypeError(f"{type(self).__name__}: a {kind.__name__} is needed, not {type(item).__name__}")
        if hasattr(type(self), name):
            raise KeyError(f"{type(self).__name__}: '{name}' is a method")
        setattr(self, name, item)

    def __delitem__(self, name: str) -> None:
        if name not in self._names():
            raise KeyError(name)
        delattr(self, name)

    def __contains__(self, name: object) -> bool:
        return name in self._names()

    def __len__(self) -> int:
        return len(self._names())

    def __iter__(self) -> Any:
        return iter(self._names())

    def __bool__(self) -> bool:
        return True

    def keys(self) -> list[str]:
        """The names."""
        return self._names()

    def values(self) -> list[Any]:
        """What the names stand for."""
        return [getattr(self, n) for n in self._names()]

    def items(self) -> list[tuple[str, Any]]:
        """Pairs."""
        return [(n, getattr(self, n)) for n in self._names()]


class ModuleDict(_Named):
    """Modules by name: ModuleDict({"a": a})["a"]."""


class TensorDict(_Named):
    """Parameters by name."""


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

    If a tensor is expected, a virtual tensor is replaced by its value: net.square + 1, array @ net.square, gd.stack([net.square, x]), what a
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
        self._how = (materializer, persist, memoise)  # to make it again in a copy of the owner

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
setattr(VirtualTensor, "__array_ufunc__", Tensor.__array_ufunc__)  # NumPy's functions take its value
setattr(VirtualTensor, "__array_function__", Tensor.__array_function__)
VirtualTensor.__pandas_priority__ = 10000  # type: ignore[attr-defined]  # so does pandas, whose frames have 4000
