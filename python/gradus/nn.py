"""Layers of the library as modules.

    net = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 3))

Their classes are made from gradus/layers.h: sizes by place or name, options by name with the header's defaults.  Names of torch.nn's
arguments (in_features, kernel_size, ...) are taken, too."""
from __future__ import annotations

import weakref
from typing import Any

from . import _core
from ._core import Tensor
from ._module import Module, ModuleDict as ModuleDict, ModuleList as ModuleList, TensorDict as TensorDict, TensorList as TensorList, _owners

# What torch.nn calls a setting.
ALSO = {"in_features": "inputs", "out_features": "outputs", "in_channels": "inputs", "out_channels": "outputs", "kernel_size": "kernel",
        "num_features": "channels", "num_channels": "channels", "num_groups": "groups", "normalized_shape": "size", "num_embeddings": "count",
        "embedding_dim": "size", "embed_dim": "size", "num_heads": "heads", "elementwise_affine": "affine"}
DEFAULTS = {("Dropout", "p"): 0.5}


def _one_size(layer: str, name: str, value: Any) -> Any:
    """(3, 3) as 3."""
    if name != "sizes" and isinstance(value, (tuple, list)) and value and all(isinstance(v, int) for v in value):
        if len(set(value)) > 1:
            raise ValueError(f"{layer}(): '{name}' is one size for all axes, not {tuple(value)}")
        if name == "size" and len(value) > 1 and "Norm" in layer:
            raise ValueError(f"{layer}(): '{name}' is that of the last axis, not of {len(value)} axes")
        return value[0]
    return value


def _take_pairs(names: list[str], values: dict[str, Any]) -> None:
    """Sizes of two axes as two settings: kernel=(3, 5) is kernel=3, kernel_across=5; padding="same" is same=True."""
    if "same" in names and values.get("padding") in ("same", "valid"):
        values["same"] = values.pop("padding") == "same"
    for name in names:
        value = values.get(name)
        if f"{name}_across" in names and isinstance(value, (tuple, list)) and len(value) == 2 and value[0] != value[1]:
            values[name], values[f"{name}_across"] = value


class Layer(Module):
    """A layer of the library; its class says which, with what settings."""

    _layer: str = ""
    _settings: tuple[tuple[str, bool, Any], ...] = ()

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__()
        self._become(self._values(args, settings))

    @classmethod
    def _values(cls, args: tuple[Any, ...], settings: dict[str, Any]) -> tuple[Any, ...]:
        names = [s[0] for s in cls._settings]
        if len(args) > len(names):
            raise TypeError(f"{cls.__name__}() has {len(names)} settings, {len(args)} were given")
        values = dict(zip(names, args))
        for key, value in settings.items():
            name = key if key in names else ALSO.get(key, key)
            if name == "size" and key == "kernel_size" or (key == "kernel_size" and "kernel" not in names):
                name = "size"  # of pooling
            if name not in names:
                import difflib

                near = difflib.get_close_matches(key, names, 1)
                raise TypeError(f"{cls.__name__}() has no setting '{key}'" + (f", did you mean '{near[0]}'?" if near else f": it has {', '.join(names)}"))
            if name in values:
                raise TypeError(f"{cls.__name__}(): '{name}' is given twice")
            values[name] = value
        _take_pairs(names, values)
        values = {name: _one_size(cls.__name__, name, value) for name, value in values.items()}
        for name, needed, _ in cls._settings:
            if needed and name not in values:
                if (cls._layer, name) not in DEFAULTS:
                    raise TypeError(f"{cls.__name__}(): '{name}' is needed")
                values[name] = DEFAULTS[cls._layer, name]
        return tuple(values.get(name) for name in names)

    def _become(self, values: tuple[Any, ...]) -> None:
        _core._layer(self, self._layer, values)
        object.__setattr__(self, "_made_with", values)
        for name, _, t in (*self._parameters(None), *self._buffers(None)):
            if "." not in name:
                object.__setattr__(self, name, t)
                _owners[t._handle] = (weakref.ref(self), name)

    def forward(self, x: Tensor, **keywords: Any) -> Tensor:
        """What the library makes of a tensor."""
        return _core._layer_call(self, x, keywords)

    def _state_of_object(self) -> dict[str, Any]:
        state = super()._state_of_object()
        tensors = {name: t for name, _, t in (*self._parameters(None), *self._buffers(None))}
        own = {name for name in tensors if "." not in name}
        state["entries"] = [e for e in state["entries"] if e[1] not in own or e[0] == "tie"]
        ties = {e[1] for e in state["entries"] if e[0] == "tie"}
        state["layer"] = (self.__dict__["_made_with"], {n: t for n, t in tensors.items() if n not in ties},
                          {n: t.requires_grad for n, _, t in self._parameters(None)})
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        values, tensors, wanted = state["layer"]
        self._become(values)
        own = {name: t for name, _, t in (*self._parameters(None), *self._buffers(None))}
        for kind in {str(t.dtype) for n, t in tensors.items() if n in own and str(own[n].dtype) != str(t.dtype)}:
            self._to_dtype(kind)
        self._load_state({n: t.detach() for n, t in tensors.items()}, False, False)
        for name, _, t in self._parameters(None):
            t.require_grad(wanted.get(name, True))
        super().__setstate__(state)

    def __repr__(self) -> str:
        given = self.__dict__.get("_made_with", ())
        shown = [f"{s[0]}={v!r}" if not s[1] else repr(v) for s, v in zip(self._settings, given) if v is not None and (s[1] or v != s[2])]
        return f"{type(self).__name__}({', '.join(shown)})"

    def _lines(self, name: str, depth: int) -> Any:
        yield "  " * depth + (f"{name}: " if name else "") + repr(self)


class Sequential(Module):
    """Layers one after the other, under the names "0", "1", ..."""

    def __init__(self, *layers: Any) -> None:
        super().__init__()
        named = layers[0].items() if len(layers) == 1 and isinstance(layers[0], dict) else [(str(i), m) for i, m in enumerate(layers)]
        for name, layer in named:
            if not isinstance(layer, Module):
                raise TypeError(f"Sequential: a Module is needed, not {type(layer).__name__}")
            setattr(self, name, layer)

    def forward(self, x: Any) -> Any:
        """The layers' work, in their order."""
        for layer in self.children().values():
            x = layer(x)
        return x

    def append(self, layer: Module) -> "Sequential":
        """One more at the end."""
        if not isinstance(layer, Module):
            raise TypeError(f"Sequential: a Module is needed, not {type(layer).__name__}")
        setattr(self, str(len(self)), layer)
        return self

    def __getitem__(self, index: Any) -> Any:
        layers = list(self.children().values())
        return Sequential(*layers[index]) if isinstance(index, slice) else layers[index]

    def __len__(self) -> int:
        return len(self.children())

    def __iter__(self) -> Any:
        return iter(self.children().values())

    def __bool__(self) -> bool:
        return True


def _signature(settings: Any, layer: str) -> Any:
    import inspect

    P = inspect.Parameter
    out, optional = [], False
    for name, needed, default in settings:
        value = DEFAULTS.get((layer, name), P.empty) if needed else default
        optional = optional or value is not P.empty
        out.append(P(name, P.POSITIONAL_OR_KEYWORD, default=value))
    return inspect.Signature(out)


def _make(name: str, comment: str, settings: Any) -> type[Layer]:
    made = type(name, (Layer,), {"__module__": __name__, "__doc__": f"{comment[:1].upper()}{comment[1:]}", "_layer": name, "_settings": settings})
    made.__signature__ = _signature(settings, name)  # type: ignore[attr-defined]
    return made


for _row in _core._layer_table():
    globals()[_row[0]] = _make(*_row)


def _activation(name: str, function: str) -> type[Layer]:
    def __init__(self: Any) -> None:
        Activation.__init__(self, function)  # type: ignore[name-defined]  # noqa: F821
    return type(name, (globals()["Activation"],), {"__module__": __name__, "__doc__": f"{function}(x) for each element.", "__init__": __init__})


ReLU, GELU, Tanh = _activation("ReLU", "relu"), _activation("GELU", "gelu"), _activation("Tanh", "tanh")
Sigmoid, Softplus, Identity = _activation("Sigmoid", "sigmoid"), _activation("Softplus", "softplus"), _activation("Identity", "identity")
ParameterList, ParameterDict = TensorList, TensorDict

_LATER = ("Softmax LogSoftmax SiLU LeakyReLU ELU MSELoss L1Loss HuberLoss SmoothL1Loss BCELoss BCEWithLogitsLoss NLLLoss CrossEntropyLoss "
          "Parameter").split()


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in ("functional", "init"):
        return import_module(f"._names.{name}", __package__)
    if name not in _LATER:
        raise AttributeError(f"module 'gradus.nn' has no attribute '{name}'")
    globals()[name] = value = getattr(import_module("._names.modules", __package__), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER, "functional", "init"})
