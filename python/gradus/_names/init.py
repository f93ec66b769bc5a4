"""torch.nn.init's names: first values of parameters, put in place; each gives its tensor back."""
from __future__ import annotations

import math

from .. import _core
from .._core import Tensor
from .._tensor import no_grad

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def _put(tensor: Tensor, value: Any) -> Tensor:
    with no_grad():
        tensor[...] = value
    return tensor


def constant_(tensor: Tensor, val: float) -> Tensor:
    """One value everywhere."""
    return _put(tensor, val)


def zeros_(tensor: Tensor) -> Tensor:
    """0 everywhere."""
    return _put(tensor, 0.0)


def ones_(tensor: Tensor) -> Tensor:
    """1 everywhere."""
    return _put(tensor, 1.0)


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0) -> Tensor:
    """Uniform between a and b."""
    return _put(tensor, _core.rand(tensor.shape, tensor.dtype) * (b - a) + a)


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0) -> Tensor:
    """Normally distributed."""
    return _put(tensor, _core.randn(tensor.shape, tensor.dtype) * std + mean)


def _fans(tensor: Tensor) -> tuple[int, int]:
    """Inputs and outputs of an element: a weight is [outputs, inputs, kernel ...]."""
    if tensor.ndim < 2:
        raise _core.ShapeError(f"a weight with two axes or more is needed, the shape is {tensor.shape}")
    window = math.prod(tensor.shape[2:])
    return tensor.shape[1] * window, tensor.shape[0] * window


def xavier_uniform_(tensor: Tensor, gain: float = 1.0) -> Tensor:
    """Uniform with the variance 2 gain^2 / (inputs + outputs)."""
    bound = gain * math.sqrt(6 / sum(_fans(tensor)))
    return uniform_(tensor, -bound, bound)


def xavier_normal_(tensor: Tensor, gain: float = 1.0) -> Tensor:
    """Normal with the variance 2 gain^2 / (inputs + outputs)."""
    return normal_(tensor, 0.0, gain * math.sqrt(2 / sum(_fans(tensor))))


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """The factor by which first weights before such a function are wider."""
    slope = 0.01 if param is None else param
    gains = {"linear": 1.0, "sigmoid": 1.0, "tanh": 5 / 3, "relu": math.sqrt(2), "leaky_relu": math.sqrt(2 / (1 + slope ** 2)), "selu": 0.75}
    if nonlinearity not in gains:
        raise ValueError(f"nonlinearity is one of {', '.join(gains)}, not {nonlinearity!r}")
    return gains[nonlinearity]


def _deviation(tensor: Tensor, a: float, mode: str, nonlinearity: str) -> float:
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"mode is 'fan_in' or 'fan_out', not {mode!r}")
    return calculate_gain(nonlinearity, a) / math.sqrt(_fans(tensor)[mode == "fan_out"])


def kaiming_uniform_(tensor: Tensor, a: float = 0.0, mode: str = "fan_in", nonlinearity: str = "leaky_relu") -> Tensor:
    """Uniform with the variance gain^2 / inputs (or outputs)."""
    bound = math.sqrt(3) * _deviation(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound)


def kaiming_normal_(tensor: Tensor, a: float = 0.0, mode: str = "fan_in", nonlinearity: str = "leaky_relu") -> Tensor:
    """Normal with the variance gain^2 / inputs (or outputs)."""
    return normal_(tensor, 0.0, _deviation(tensor, a, mode, nonlinearity))


def orthogonal_(tensor: Tensor, gain: float = 1.0) -> Tensor:
    """Orthonormal rows or columns, whichever are fewer."""
    rows, columns = tensor.shape[0], math.prod(tensor.shape[1:])
    q, r = _core.qr(_core.randn((max(rows, columns), min(rows, columns)), "f64"))
    q = q * _core.sign(_core.diagonal(r))
    return _put(tensor, ((q if rows >= columns else q.T) * gain).reshape(tensor.shape).to(tensor.dtype))
