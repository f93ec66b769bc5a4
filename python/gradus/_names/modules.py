"""Modules of torch.nn that are functions of gradus.nn.functional: activations with settings, and losses."""
from __future__ import annotations

from .._core import Tensor
from .._module import Module
from . import functional

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Function(Module):
    """A function of torch.nn.functional with its settings."""

    _function = ""
    _names: tuple[tuple[str, Any], ...] = ()

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__()
        names = dict(self._names)
        if len(args) > len(names) or set(settings) - set(names) or set(settings) & set(list(names)[:len(args)]):
            raise TypeError(f"{type(self).__name__}() has the settings {', '.join(names) or 'none'}")
        self.settings = {**names, **dict(zip(names, args)), **settings}

    def forward(self, *tensors: Any) -> Tensor:
        """The function of the tensors."""
        made: Tensor = getattr(functional, self._function)(*tensors, **self.settings)
        return made

    def invoke(self, obj: Any, *args: Any, **kwargs: Any) -> Any:
        """forward: losses take two tensors."""
        return self.forward(obj, *args, **kwargs)

    __call__ = invoke

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in self.settings.items())})"

    def _lines(self, name: str, depth: int) -> Any:
        yield "  " * depth + (f"{name}: " if name else "") + repr(self)


def _class(name: str, function: str, **settings: Any) -> Any:
    doc = f"{getattr(functional, function).__doc__}  Settings: {', '.join(settings) or 'none'}."
    return type(name, (Function,), {"__module__": "gradus.nn", "__doc__": doc, "_function": function, "_names": tuple(settings.items())})


Softmax, LogSoftmax = _class("Softmax", "softmax", dim=-1), _class("LogSoftmax", "log_softmax", dim=-1)
SiLU, LeakyReLU, ELU = _class("SiLU", "silu"), _class("LeakyReLU", "leaky_relu", negative_slope=0.01), _class("ELU", "elu", alpha=1.0)
MSELoss, L1Loss = _class("MSELoss", "mse_loss", reduction="mean"), _class("L1Loss", "l1_loss", reduction="mean")
HuberLoss = _class("HuberLoss", "huber_loss", reduction="mean", delta=1.0)
SmoothL1Loss = _class("SmoothL1Loss", "smooth_l1_loss", reduction="mean", beta=1.0)
BCELoss = _class("BCELoss", "binary_cross_entropy", reduction="mean")
BCEWithLogitsLoss = _class("BCEWithLogitsLoss", "binary_cross_entropy_with_logits", reduction="mean")
NLLLoss = _class("NLLLoss", "nll_loss", reduction="mean")
CrossEntropyLoss = _class("CrossEntropyLoss", "cross_entropy", reduction="mean", label_smoothing=0.0)


def Parameter(data: Any, requires_grad: bool = True) -> Tensor:
    """A tensor of its own that wants gradients."""
    from .._tensor import tensor

    return tensor(data, requires_grad=requires_grad)
