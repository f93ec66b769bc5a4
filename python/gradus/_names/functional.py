"""torch.nn.functional's names: functions of tensors, with PyTorch's arguments."""
# mypy: disable-error-code="no-any-return"
from __future__ import annotations

from .. import _core
from .._array import _axis, _t
from .._core import Tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

relu, tanh, sigmoid, softplus, embedding = _core.relu, _core.tanh, _core.sigmoid, _core.softplus, _core.embedding


def linear(input: Any, weight: Any, bias: Any = None) -> Tensor:
    """input @ weight.T + bias."""
    out = _core.matmul(_t(input), _t(weight).T)
    return out if bias is None else out + bias


def _sizes(value: Any, count: int, name: str, what: str) -> list[int]:
    sizes = [value] * count if isinstance(value, int) else list(value) if isinstance(value, (tuple, list)) else []
    if len(sizes) == 1:
        sizes *= count
    if len(sizes) != count or not all(isinstance(v, int) for v in sizes):
        raise ValueError(f"{what}: {name} is a whole number, or one for each of {count} axes, not {value!r}")
    return sizes


def _convolution(x: Tensor, weight: Tensor, bias: Any, settings: tuple[Any, Any, Any], groups: int, count: int, what: str) -> Tensor:
    stride, dilation = _sizes(settings[0], count, "stride", what), _sizes(settings[2], count, "dilation", what)
    if settings[1] == "same":
        if stride != [1] * count:
            raise ValueError(f"{what}: padding='same' keeps the size, so stride is 1")
        every = [d * (n - 1) for d, n in zip(dilation, weight.shape[-count:])]
        padding = [p for total in every for p in (total // 2, total - total // 2)]
    else:
        padding = [p for p in _sizes(0 if settings[1] == "valid" else settings[1], count, "padding", what) for _ in range(2)]
    more = 2 - count  # a signal is an image of one row
    return _core._convolve(x, weight, None if bias is None else _t(bias),
                           (*[1] * more, *stride, *[1] * more, *dilation, *[0] * 2 * more, *padding, groups))


def conv2d(input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1) -> Tensor:
    """Sums of products of windows of images with weights [out, in / groups, height, width]."""
    return _convolution(_t(input), _t(weight), bias, (stride, padding, dilation), groups, 2, "conv2d")


def conv1d(input: Any, weight: Any, bias: Any = None, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1) -> Tensor:
    """The same of signals [batch, channel, length], with weights [out, in / groups, length]."""
    x, w = _t(input), _t(weight)
    if x.ndim != 3 or w.ndim != 3:
        raise _core.ShapeError(f"conv1d: needs [batch, channel, length] and [out, in, length], got the shapes {x.shape} and {w.shape}")
    return _convolution(x[:, :, None], w[:, :, None], bias, (stride, padding, dilation), groups, 1, "conv1d")[:, :, 0]


def gelu(input: Any) -> Tensor:
    """x Phi(x), Phi the normal distribution's."""
    return _core.gelu(_t(input))


def silu(input: Any) -> Tensor:
    """x sigmoid(x)."""
    x = _t(input)
    return x * x.sigmoid()


def leaky_relu(input: Any, negative_slope: float = 0.01) -> Tensor:
    """x, below 0 times a slope."""
    x = _t(input)
    return _core.where(x > 0, x, x * negative_slope)


def elu(input: Any, alpha: float = 1.0) -> Tensor:
    """x, below 0 alpha (e^x - 1)."""
    x = _t(input)
    return _core.where(x > 0, x, alpha * _core.minimum(x, 0.0).expm1())


def softmax(input: Any, dim: Any = -1) -> Tensor:
    """e^x over their sum along an axis."""
    return _core.softmax(_t(input), dim)


def log_softmax(input: Any, dim: Any = -1) -> Tensor:
    """The logarithm of softmax."""
    return _core.log_softmax(_t(input), dim)


def normalize(input: Any, p: float = 2.0, dim: Any = 1, eps: float = 1e-12) -> Tensor:
    """x over its norm along an axis."""
    from ..linalg import vector_norm

    x = _t(input)
    return x / _core.maximum(vector_norm(x, axis=dim, keepdims=True, ord=p), eps)


def dropout(input: Any, p: float = 0.5, training: bool = True) -> Tensor:
    """Elements set to 0 with chance p, the others divided by 1 - p."""
    return _core.dropout(_t(input), p) if training and p else _t(input)


def one_hot(tensor: Any, num_classes: int = -1) -> Tensor:
    """1 at the place that a whole number names, else 0, along a new last axis."""
    x = _t(tensor)
    if num_classes < 0:
        num_classes = int(x.max().item()) + 1 if x.size else 0
    from .._array import arange

    if x.dtype.kind not in "iu" or x.size and not bool(((x >= 0) & (x < num_classes)).all()):
        raise ValueError(f"one_hot: whole numbers from 0 to {num_classes - 1} are needed")
    return (x[..., None] == arange(num_classes)).to("i64")


def _reduced(loss: Tensor, reduction: str, what: str) -> Tensor:
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"{what}: reduction is 'mean', 'sum' or 'none', not {reduction!r}")
    return loss.mean() if reduction == "mean" else loss.sum() if reduction == "sum" else loss


def _pair(input: Any, target: Any, what: str) -> tuple[Tensor, Tensor]:
    x, y = _t(input), _t(target)
    if x.shape != y.shape:
        raise _core.ShapeError(f"{what}: the input has the shape {x.shape}, the target {y.shape}")
    return x, y.to(x.dtype) if y.dtype.kind != "f" else y


def mse_loss(input: Any, target: Any, reduction: str = "mean") -> Tensor:
    """Squares of the differences."""
    x, y = _pair(input, target, "mse_loss")
    return _reduced((x - y).square(), reduction, "mse_loss")


def l1_loss(input: Any, target: Any, reduction: str = "mean") -> Tensor:
    """Absolute values of the differences."""
    x, y = _pair(input, target, "l1_loss")
    return _reduced((x - y).abs(), reduction, "l1_loss")


def huber_loss(input: Any, target: Any, reduction: str = "mean", delta: float = 1.0) -> Tensor:
    """Half squares of the differences, linear beyond delta."""
    x, y = _pair(input, target, "huber_loss")
    d = (x - y).abs()
    return _reduced(_core.where(d < delta, 0.5 * d * d, delta * (d - 0.5 * delta)), reduction, "huber_loss")


def smooth_l1_loss(input: Any, target: Any, reduction: str = "mean", beta: float = 1.0) -> Tensor:
    """huber_loss over beta."""
    return huber_loss(input, target, reduction, beta) / beta


def binary_cross_entropy_with_logits(input: Any, target: Any, reduction: str = "mean") -> Tensor:
    """-log of the probability of the target, 0 to 1, whose logit is the input."""
    z, y = _pair(input, target, "binary_cross_entropy_with_logits")
    return _reduced(z.softplus() - y * z, reduction, "binary_cross_entropy_with_logits")


def binary_cross_entropy(input: Any, target: Any, reduction: str = "mean") -> Tensor:
    """-log of the probability of the target, 0 to 1, whose probability is the input; logarithms at least -100, as in PyTorch."""
    p, y = _pair(input, target, "binary_cross_entropy")
    return _reduced(-(y * _core.maximum(p.log(), -100.0) + (1 - y) * _core.maximum((1 - p).log(), -100.0)), reduction, "binary_cross_entropy")


def nll_loss(input: Any, target: Any, reduction: str = "mean") -> Tensor:
    """-input at the place of the class, along the second axis; of one vector along its only one."""
    x, y = _t(input), _t(target)
    k = 0 if x.ndim == 1 else 1
    if x.shape[:k] + x.shape[k + 1:] != y.shape:
        raise _core.ShapeError(f"nll_loss: the input has the shape {x.shape}, the target {y.shape}")
    picked = _core.gather(x, k, y.to("i64").reshape(y.shape[:k] + (1,) + y.shape[k:])).reshape(y.shape)
    return _reduced(-picked, reduction, "nll_loss")


def cross_entropy(input: Any, target: Any, reduction: str = "mean", label_smoothing: float = 0.0) -> Tensor:
    """-log of the probability of the class whose logits lie along the second axis; targets are numbers of classes, or probabilities."""
    x, y = _t(input), _t(target)
    k = _axis(x, 0 if x.ndim == 1 else 1, "cross_entropy")
    logs = _core.log_softmax(x, k)
    if y.dtype.kind == "f":
        y = _pair(x, y, "cross_entropy")[1]
        y = y * (1 - label_smoothing) + label_smoothing / x.shape[k]
        return _reduced(-(y * logs).sum(k), reduction, "cross_entropy")
    loss = nll_loss(logs, y, reduction)
    return loss if not label_smoothing else (1 - label_smoothing) * loss - label_smoothing * _reduced(logs.mean(k), reduction, "cross_entropy")


def layer_norm(input: Any, normalized_shape: Any = None, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Tensor:
    """(x - mean) / sqrt(variance + eps) * weight + bias over the last axis."""
    x = _t(input)
    sizes = [normalized_shape] if isinstance(normalized_shape, int) else list(normalized_shape or x.shape[-1:])
    if len(sizes) != 1:
        raise _core.ShapeError(f"layer_norm: over the last axis only, not over {len(sizes)}")
    return _core.layer_norm(x, -1, weight if weight is not None else _core.ones(sizes, x.dtype), bias if bias is not None else _core.zeros(sizes, x.dtype), eps)
