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
import sys as _sys

if "t" in _sys.abiflags:  # before the extension, whose objects are laid out differently there, is loaded
    raise ImportError("gradus needs an interpreter with its lock: free-threaded builds have no stable ABI yet")

from ._core import *  # noqa: F401,F403  operators, errors, Tensor, Context
from ._core import __version__ as __version__
from ._tensor import Device as Device, arange as arange, bf16 as bf16, bool_ as bool_, devices as devices
from ._tensor import enable_grad as enable_grad, eye as eye, f16 as f16, f32 as f32, f64 as f64, i32 as i32, i64 as i64
from ._tensor import load as load, load_meta as load_meta, no_grad as no_grad, save as save, tensor as tensor, u8 as u8
from ._optim import Chain as Chain, Group as Group, Optimizer as Optimizer
from ._links import Rule as Rule, Transform as Transform, Value as Value, Var as Var, link as link, rule as rule
from ._module import Functional as Functional, LoadReport as LoadReport, Module as Module, ModuleDict as ModuleDict
from ._module import ModuleList as ModuleList, TensorDict as TensorDict, TensorList as TensorList, VirtualTensor as VirtualTensor
from ._module import no_grad_tensors as no_grad_tensors, register as register
from . import m as m
from ._fit import Fit as Fit, fit as fit, fit_many as fit_many
from ._solve import CurveFit as CurveFit, Result as Result, curve_fit as curve_fit
from ._train import TrainedModel as TrainedModel, load_model as load_model, train as train

TYPE_CHECKING = False
if TYPE_CHECKING:
    from . import nn as nn
    from ._functions import checkpoint as checkpoint, custom_vjp as custom_vjp, grad as grad, hessian as hessian, jacfwd as jacfwd
    from ._functions import jacrev as jacrev, jit as jit, jvp as jvp, scan as scan, value_and_grad as value_and_grad, vjp as vjp
    from ._functions import vmap as vmap
    from ._minimize import LeastSquares as LeastSquares, least_squares as least_squares, minimize as minimize
    from ._model import Model as Model, ModelResult as ModelResult, Parameter as Parameter, Parameters as Parameters
    from ._tree import tree_leaves as tree_leaves, tree_map as tree_map

# Loaded when first used.
_later = {name: module for module, names in {
    "_functions": "checkpoint custom_vjp grad hessian jacfwd jacrev jit jvp scan value_and_grad vjp vmap",
    "_minimize": "LeastSquares least_squares minimize",
    "_model": "Model ModelResult Parameter Parameters",
    "_tree": "tree_leaves tree_map",
}.items() for name in names.split()}


if not TYPE_CHECKING:  # a checker would believe in any name
    def __getattr__(name: str) -> object:
        from importlib import import_module

        if name == "nn":
            return import_module(".nn", __name__)
        module = _later.get(name)
        if module is None:
            raise AttributeError(f"module 'gradus' has no attribute '{name}'")
        globals()[name] = value = getattr(import_module(f".{module}", __name__), name)
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_later, "nn"})
