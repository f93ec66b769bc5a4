"""Labelled tensors, autograd, modules and optimizers composed of links.

    import gradus as gd

    x = gd.tensor([1.0, 2.0, 3.0]).require_grad()
    loss = (x ** 2).sum()
    loss.backward()
    x.grad                                             # tensor([2, 4, 6])

    optimizer = gd.Optimizer([x], gd.m.clip_norm(1) | gd.m.adam() | gd.m.lr(1e-3))
    optimizer.step(lambda: (x ** 2).sum())

Everything is done by the C library; NumPy, PyTorch and JAX are imported only where they are used.
"""
# mypy: disable-error-code="assignment"
import sys as _sys

if "t" in _sys.abiflags:  # before the extension, whose objects are laid out differently there, is loaded
    raise ImportError("gradus needs an interpreter with its lock: free-threaded builds have no stable ABI yet")

from ._core import *  # noqa: F401,F403  operators, errors, Tensor, Context
from ._core import __version__ as __version__
from ._dtypes import Dtype as Dtype, bf16 as bf16, bfloat16 as bfloat16, bool_ as bool_, can_cast as can_cast, f16 as f16
from ._dtypes import f32 as f32, f64 as f64, finfo as finfo, float16 as float16, float32 as float32, float64 as float64
from ._dtypes import i32 as i32, i64 as i64, iinfo as iinfo, int32 as int32, int64 as int64, isdtype as isdtype
from ._dtypes import result_type as result_type, u8 as u8, uint8 as uint8
from ._tensor import Device as Device, devices as devices, enable_grad as enable_grad, load as load, load_meta as load_meta
from ._tensor import no_grad as no_grad, save as save, tensor as tensor
from ._array import __array_namespace_info__ as __array_namespace_info__, allclose as allclose, arange as arange
from ._array import argsort as argsort, array_equal as array_equal, asarray as asarray, astype as astype
from ._array import atleast_1d as atleast_1d, bitwise_and as bitwise_and, bitwise_invert as bitwise_invert
from ._array import bitwise_left_shift as bitwise_left_shift, bitwise_or as bitwise_or
from ._array import bitwise_right_shift as bitwise_right_shift, bitwise_xor as bitwise_xor
from ._array import broadcast_arrays as broadcast_arrays, broadcast_shapes as broadcast_shapes, broadcast_to as broadcast_to
from ._array import clip as clip, concat as concat, concatenate as concatenate, count_nonzero as count_nonzero
from ._array import cumprod as cumprod, cumulative_prod as cumulative_prod, cumulative_sum as cumulative_sum, diag as diag
from ._array import diagonal as diagonal, diff as diff, divide as divide, e as e, empty_like as empty_like, equal as equal
from ._array import expand_dims as expand_dims, eye as eye, flatten as flatten, flip as flip, floor_divide as floor_divide
from ._array import from_dlpack as from_dlpack, full as full, full_like as full_like, greater as greater
from ._array import greater_equal as greater_equal, inf as inf, isclose as isclose, isin as isin, less as less
from ._array import less_equal as less_equal, linspace as linspace, matmul as matmul, matrix_transpose as matrix_transpose
from ._array import median as median, meshgrid as meshgrid, moveaxis as moveaxis, multiply as multiply, nan as nan
from ._array import negative as negative, newaxis as newaxis, nonzero as nonzero, not_equal as not_equal
from ._array import permute_dims as permute_dims, pi as pi, positive as positive, quantile as quantile, ravel as ravel
from ._array import remainder as remainder, repeat as repeat, reshape as reshape, roll as roll, searchsorted as searchsorted
from ._array import sort as sort, split as split, squeeze as squeeze, stack as stack, std as std, subtract as subtract
from ._array import swapaxes as swapaxes, take as take, take_along_axis as take_along_axis, tensordot as tensordot
from ._array import tile as tile, topk as topk, trace as trace, unique_all as unique_all
from ._array import unique_counts as unique_counts, unique_inverse as unique_inverse, unique_values as unique_values
from ._array import unstack as unstack, var as var, vecdot as vecdot
from ._optim import Chain as Chain, Group as Group, Optimizer as Optimizer
from ._links import Rule as Rule, Value as Value, link as link, rule as rule
from ._var import Child as Child, Link as Link, Transform as Transform, Var as Var
from ._module import Functional as Functional, LoadReport as LoadReport, Module as Module, ModuleDict as ModuleDict
from ._module import ModuleList as ModuleList, TensorDict as TensorDict, TensorList as TensorList, VirtualTensor as VirtualTensor
from ._module import no_grad_tensors as no_grad_tensors, register as register
from . import m as m
from ._fit import Fit as Fit, fit as fit, fit_many as fit_many
from ._solve import CurveFit as CurveFit, Result as Result, curve_fit as curve_fit
from ._train import TrainedModel as TrainedModel, load_model as load_model, train as train
from . import linalg as linalg
from ._dtypes import bool_ as bool  # noqa: A004  the standard's name

from ._names import methods as _methods  # noqa: F401  methods of Tensor

__array_api_version__ = "2024.12"

for _name in ("cumsum", "dot", "einsum", "pad", "round", "transpose"):  # NumPy's take more than the operators
    del globals()[_name]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from . import models as models, nn as nn
    from ._functions import checkpoint as checkpoint, custom_vjp as custom_vjp, grad as grad, hessian as hessian, jacfwd as jacfwd
    from ._functions import jacrev as jacrev, jit as jit, jvp as jvp, scan as scan, stop_gradient as stop_gradient
    from ._functions import value_and_grad as value_and_grad, vjp as vjp
    from ._functions import vmap as vmap
    from ._minimize import LeastSquares as LeastSquares, least_squares as least_squares, minimize as minimize
    from .models import Minimizer as Minimizer, MinimizerResult as MinimizerResult, create_params as create_params
    from .models import Model as Model, ModelResult as ModelResult, Parameter as Parameter, Parameters as Parameters
    from ._tree import tree_leaves as tree_leaves, tree_map as tree_map
    from ._names.numpy import absolute as absolute, amax as amax, amin as amin, append as append, arccos as arccos, arccosh as arccosh
    from ._names.numpy import arcsin as arcsin, arcsinh as arcsinh, arctan as arctan, arctan2 as arctan2, arctanh as arctanh
    from ._names.numpy import argpartition as argpartition, argwhere as argwhere, around as around, array as array
    from ._names.numpy import array_split as array_split, atleast_2d as atleast_2d, atleast_3d as atleast_3d, average as average
    from ._names.numpy import bincount as bincount, block as block, cbrt as cbrt, column_stack as column_stack, convolve as convolve
    from ._names.numpy import copyto as copyto, corrcoef as corrcoef, correlate as correlate, cov as cov, cross as cross
    from ._names.numpy import cumsum as cumsum, deg2rad as deg2rad, degrees as degrees, delete as delete, digitize as digitize
    from ._names.numpy import divmod as divmod, dot as dot, dstack as dstack, ediff1d as ediff1d, einsum as einsum, exp2 as exp2
    from ._names.numpy import fabs as fabs, fix as fix, flatnonzero as flatnonzero, fliplr as fliplr, flipud as flipud, float_power as float_power
    from ._names.numpy import fmax as fmax, fmin as fmin, fmod as fmod, geomspace as geomspace, gradient as gradient
    from ._names.numpy import heaviside as heaviside, histogram as histogram, hsplit as hsplit, hstack as hstack, identity as identity
    from ._names.numpy import indices as indices, inner as inner, insert as insert, interp as interp, invert as invert
    from ._names.numpy import iscomplexobj as iscomplexobj, isscalar as isscalar, kron as kron, left_shift as left_shift
    from ._names.numpy import logaddexp2 as logaddexp2, logspace as logspace, modf as modf, nan_to_num as nan_to_num, nanmax as nanmax
    from ._names.numpy import nanmean as nanmean, nanmin as nanmin, nanprod as nanprod, nanstd as nanstd, nansum as nansum
    from ._names.numpy import nanvar as nanvar, ndim as ndim, pad as pad, partition as partition, percentile as percentile
    from ._names.numpy import polyfit as polyfit, polyval as polyval, power as power, ptp as ptp, rad2deg as rad2deg, radians as radians
    from ._names.numpy import right_shift as right_shift, rint as rint, rollaxis as rollaxis, rot90 as rot90, round as round
    from ._names.numpy import select as select, shape as shape, sinc as sinc, size as size, transpose as transpose
    from ._names.numpy import trapezoid as trapezoid, tri as tri, true_divide as true_divide, unique as unique
    from ._names.numpy import unravel_index as unravel_index, vander as vander, vdot as vdot, vsplit as vsplit, vstack as vstack
    from ._names.torch import bmm as bmm, chunk as chunk, from_numpy as from_numpy, is_tensor as is_tensor, manual_seed as manual_seed
    from ._names.torch import mm as mm, randint as randint, randperm as randperm

# Loaded when first used.
_later = {name: module for module, names in {
    "_functions": "checkpoint custom_vjp grad hessian jacfwd jacrev jit jvp scan stop_gradient value_and_grad vjp vmap",
    "_minimize": "LeastSquares least_squares minimize",
    "models": "Minimizer MinimizerResult Model ModelResult Parameter Parameters create_params",
    "_tree": "tree_leaves tree_map",
    "_names.torch": "bmm chunk from_numpy is_tensor manual_seed mm randint randperm",
    "_names.numpy": ("absolute amax amin append arccos arccosh arcsin arcsinh arctan arctan2 arctanh argpartition argwhere around array "
                     "array_split atleast_2d atleast_3d average bincount block cbrt column_stack convolve copyto corrcoef correlate cov "
                     "cross cumsum deg2rad degrees delete digitize divmod dot dstack ediff1d einsum exp2 fabs fix flatnonzero fliplr flipud "
                     "float_power fmax fmin fmod geomspace gradient heaviside histogram hsplit hstack identity indices inner insert interp "
                     "invert iscomplexobj isscalar kron left_shift logaddexp2 logspace modf nan_to_num nanmax nanmean nanmin nanprod nanstd "
                     "nansum nanvar ndim pad partition percentile polyfit polyval power ptp rad2deg radians right_shift rint rollaxis rot90 "
                     "round select shape sinc size transpose trapezoid tri true_divide unique unravel_index vander vdot vsplit vstack"),
}.items() for name in names.split()}


if not TYPE_CHECKING:  # a checker would believe in any name
    def __getattr__(name: str) -> object:
        from importlib import import_module

        if name in ("nn", "models"):
            return import_module(f".{name}", __name__)
        module = _later.get(name)
        if name in ("complex64", "complex128", "conj", "imag", "real", "fft"):
            raise AttributeError(f"gradus has no '{name}': there are no complex numbers")
        if name in ("int8", "int16", "uint16", "uint32", "uint64"):
            raise AttributeError(f"gradus has no '{name}': integers are int32, int64 and uint8")
        if module is None:
            raise AttributeError(f"module 'gradus' has no attribute '{name}'")
        globals()[name] = value = getattr(import_module(f".{module}", __name__), name)
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_later, "models", "nn"})
