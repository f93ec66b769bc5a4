"""NumPy's functions on tensors: np.exp(t) and np.sum(t) give tensors with their gradients, or say that they cannot."""
from __future__ import annotations

from . import _array, _core, linalg
from ._core import Tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

# universal functions whose operator has another name
_UFUNCS = {
    "absolute": "abs", "fabs": "abs", "negative": "neg", "add": "add", "subtract": "sub", "multiply": "mul", "divide": "div",
    "true_divide": "div", "power": "pow", "remainder": "mod", "floor_divide": "floor_div", "arcsin": "asin",
    "arccos": "acos", "arctan": "atan", "arctan2": "atan2", "arcsinh": "asinh", "arccosh": "acosh", "arctanh": "atanh", "rint": "round",
    "invert": "bit_not", "bitwise_not": "bit_not", "bitwise_and": "bit_and", "bitwise_or": "bit_or", "bitwise_xor": "bit_xor",
    "left_shift": "shift_left", "right_shift": "shift_right", "equal": "eq", "not_equal": "ne", "less": "lt", "less_equal": "le",
    "greater": "gt", "greater_equal": "ge",
}
_SAME = ("exp expm1 log log1p log2 log10 sqrt square reciprocal sin cos tan sinh cosh tanh sign floor ceil trunc isnan isinf isfinite "
         "signbit logical_not logical_and logical_or logical_xor maximum minimum hypot logaddexp copysign nextafter matmul")
_REDUCED = {"add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min", "logical_and": "all", "logical_or": "any",
            "logaddexp": "logsumexp"}


# Universal functions and others of gradus._names.numpy, which have NumPy's arguments
_MORE = "exp2 cbrt logaddexp2 fmod fmax fmin heaviside deg2rad rad2deg degrees radians divmod modf float_power"
_SHARED = ("append argpartition argwhere around array_split atleast_2d atleast_3d average bincount block column_stack convolve copyto corrcoef "
           "correlate cov cross cumsum delete digitize dot dstack ediff1d einsum fix flatnonzero fliplr flipud gradient histogram hsplit hstack inner "
           "insert interp kron nan_to_num nanmax nanmean nanmin nanprod nanstd nansum nanvar pad partition percentile polyfit polyval ptp rollaxis "
           "rot90 round select sinc trapezoid unique vander vdot vsplit vstack where")


def _operator(name: str) -> Callable[..., Any] | None:
    if name == "positive":
        return _array.positive
    if name in _MORE.split():
        from ._names import numpy
        return getattr(numpy, name)  # type: ignore[no-any-return]
    own = name if name in _SAME.split() else _UFUNCS.get(name)
    return getattr(_core, own) if own else None


def _value(x: Any) -> Any:
    """A virtual tensor as its value."""
    return x.value if hasattr(x, "_reference") else x


def call_ufunc(ufunc: Any, method: str, *inputs: Any, **keywords: Any) -> Any:
    """For __array_ufunc__ of tensors."""
    name = ufunc.__name__
    inputs = tuple(map(_value, inputs))
    if keywords.get("out") is not None:
        out = keywords.pop("out")
        return _into(out, call_ufunc(ufunc, method, *inputs, **keywords))
    if method == "__call__" and not keywords:
        operator = _operator(name)
        if operator is not None:
            return operator(*inputs)
    if method == "reduce" and name in _REDUCED and not set(keywords) - {"axis", "keepdims", "dtype", "initial", "where"}:
        axis = keywords.get("axis", 0)
        if keywords.get("where", True) is True and keywords.get("initial") is None and keywords.get("dtype") is None:
            return getattr(_core, _REDUCED[name])(inputs[0], axis=axis, keepdims=bool(keywords.get("keepdims", False)))
    what = f"numpy.{name}" + ("" if method == "__call__" else f".{method}") + (f" with {', '.join(keywords)}" if keywords else "")
    raise TypeError(f"{what}: there is no such operator for tensors of gradus; x.detach().numpy() gives an array, which has no gradient")


def _into(out: Any, made: Any) -> Any:
    target = out[0] if isinstance(out, tuple) else out
    if isinstance(target, Tensor):
        if target.requires_grad and _core.grad_enabled():
            raise _core.GraphError("numpy: out= is a tensor that wants gradients, which would not see the change; use the result, or gd.no_grad()")
        return target.assign(made)
    raise TypeError("numpy: out= is an array, into which no gradient flows; use the result instead")


def _reduction(name: str) -> Callable[..., Any]:
    def reduce(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, **more: Any) -> Any:
        _refuse(name, out=out, **more)
        fn = getattr(_core, name)
        kept = keepdims is True
        return fn(a, axis=axis, keepdims=kept) if dtype is None else fn(a, axis=axis, keepdims=kept, dtype=dtype)
    return reduce


def _refuse(name: str, **given: Any) -> None:
    for key, value in given.items():
        if value is not None and type(value).__name__ != "_NoValueType":
            raise TypeError(f"numpy.{name}: '{key}' has no meaning for tensors of gradus")


def _spread(name: str) -> Callable[..., Any]:
    def spread(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0, keepdims: Any = False, **more: Any) -> Any:
        correction = more.pop("correction", None)
        _refuse(name, out=out, **more)
        correction = ddof if correction is None or type(correction).__name__ == "_NoValueType" else correction
        return getattr(_array, name)(a, axis, dtype, correction=correction, keepdims=keepdims is True)
    return spread


def _extreme(name: str) -> Callable[..., Any]:
    def extreme(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False, **more: Any) -> Any:
        _refuse(name, out=out, **more)
        return getattr(_core, name)(a, axis=axis, keepdims=keepdims is True)
    return extreme


def _functions() -> dict[str, Callable[..., Any]]:
    """By the name that NumPy has for it."""
    from ._names import numpy

    a, c = _array, _core
    table: dict[str, Callable[..., Any]] = {
        **{name: _reduction(name) for name in ("sum", "prod", "mean")},
        **{name: _extreme(own) for name, own in (("max", "max"), ("min", "min"), ("amax", "max"), ("amin", "min"), ("argmax", "argmax"),
                                                 ("argmin", "argmin"), ("any", "any"), ("all", "all"))},
        "var": _spread("var"), "std": _spread("std"),
        "median": lambda x, axis=None, keepdims=False: a.median(x, axis, keepdims),
        "quantile": lambda x, q, axis=None, keepdims=False: a.quantile(x, q, axis, keepdims),
        "clip": lambda x, a_min=None, a_max=None, min=None, max=None: a.clip(
            x, *(next((v for v in pair if v is not None and type(v).__name__ != "_NoValueType"), None) for pair in ((a_min, min), (a_max, max)))),
        "cumprod": a.cumprod, "sort": lambda x, axis=-1: a.sort(x if axis is not None else x.reshape(-1), axis),
        "argsort": lambda x, axis=-1: a.argsort(x if axis is not None else x.reshape(-1), axis),
        "concatenate": lambda arrays, axis=0: a.concat(arrays, axis=axis), "stack": lambda arrays, axis=0: a.stack(arrays, axis),
        "reshape": lambda x, shape, copy=None: a.reshape(x, shape, copy=copy), "ravel": a.ravel, "squeeze": a.squeeze,
        "transpose": lambda x, axes=None: x.T if axes is None else a.permute_dims(x, axes), "expand_dims": a.expand_dims,
        "swapaxes": a.swapaxes, "moveaxis": a.moveaxis, "flip": a.flip, "roll": a.roll, "tile": a.tile,
        "repeat": lambda x, repeats, axis=None: a.repeat(x, repeats, axis=axis), "diff": lambda x, n=1, axis=-1: a.diff(x, n=n, axis=axis),
        "outer": lambda x, y: c.outer(a.ravel(x), a.ravel(y)), "tensordot": lambda x, y, axes=2: a.tensordot(x, y, axes=axes),
        "trace": lambda x, offset=0: a.trace(x, offset=offset),
        "diag": a.diag, "diagonal": lambda x, offset=0: a.diagonal(x, offset=offset), "tril": c.tril, "triu": c.triu,
        "take": lambda x, indices, axis=None: a.take(x, indices, axis=axis), "take_along_axis": lambda x, indices, axis=-1: a.take_along_axis(
            x, indices, axis=axis), "broadcast_to": a.broadcast_to, "nonzero": a.nonzero, "count_nonzero": lambda x, axis=None: a.count_nonzero(x, axis=axis),
        "isclose": a.isclose, "allclose": a.allclose, "array_equal": a.array_equal, "zeros_like": lambda x, dtype=None: c.zeros_like(x, dtype=dtype), "ones_like": lambda x, dtype=None: c.ones_like(x, dtype=dtype),
        "full_like": lambda x, fill_value, dtype=None: a.full_like(x, fill_value, dtype=dtype), "shape": lambda x: x.shape, "ndim": lambda x: x.ndim,
        "size": lambda x, axis=None: x.size if axis is None else x.shape[axis], "searchsorted": lambda x, v, side="left": a.searchsorted(x, v, side=side),
        "copy": lambda x: x.copy(),
        **{f"linalg.{name}": getattr(linalg, name) for name in ("cholesky", "det", "inv", "pinv", "qr", "slogdet", "solve", "eigh", "eigvalsh",
                                                                "matrix_power", "matrix_rank", "norm", "lstsq", "multi_dot", "cond")},
        **{name: getattr(numpy, name) for name in _SHARED.split()},
        "linalg.svd": lambda x, full_matrices=True: linalg.svd(x, full_matrices=full_matrices),
    }
    return table


_known: dict[str, Callable[..., Any]] = {}


def call_function(func: Any, args: Any, keywords: Any) -> Any:
    """For __array_function__ of tensors."""
    if not _known:
        _known.update(_functions())
    module = func.__module__.removeprefix("numpy").strip(".")
    name = f"{module}.{func.__name__}" if module in ("linalg", "fft", "random") else func.__name__
    if name not in _known:
        raise TypeError(f"numpy.{name}: there is no such function for tensors of gradus; x.detach().numpy() gives an array, which has no gradient")
    return _known[name](*map(_value, args), **{k: _value(v) for k, v in keywords.items()})
