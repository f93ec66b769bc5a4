"""Optimizers of PyTorch as links."""
# mypy: disable-error-code="attr-defined, union-attr"
from __future__ import annotations

from typing import Any, Callable

import torch  # type: ignore[import-not-found, unused-ignore]

from .. import _core
from .._links import link as _link
from .._optim import Chain
from .._var import Var

_made: dict[Any, Callable[..., Chain]] = {}


def Wrap(optimizer: Callable[..., Any], *args: Any, **settings: Any) -> Chain:
    """A link that makes the step of an optimizer of PyTorch, torch.optim's or anyone's, from the update that there is:

        gradus.torch.Optimizer(model, clip_norm(1) | Wrap(torch.optim.Adam, lr=1e-3, betas=(0.9, 0.99)) | weight_decay(1e-2))

    optimizer is a class, or a function of the parameters; settings are its own.  Those that are numbers are settings of the link, which
    groups, schedules and torch's schedulers change.  What it keeps for a parameter is state of the link: saved, loaded and forgotten with
    the rest.  It works with gradus.Optimizer too.  Optimizers that evaluate a closure are refused."""
    numbers = {k: v for k, v in settings.items() if isinstance(v, (int, float)) and not isinstance(v, bool)}
    rest = {k: v for k, v in settings.items() if k not in numbers}
    key = (optimizer, args, tuple(numbers), repr(rest))
    try:
        make = _made.get(key)
    except TypeError:
        raise TypeError(f"Wrap: {optimizer!r} or its arguments have no hash") from None
    if make is None:
        make = _made[key] = _define(optimizer, args, numbers, rest)
    return make(**numbers)


def _define(optimizer: Callable[..., Any], args: tuple[Any, ...], numbers: dict[str, Any], rest: dict[str, Any]) -> Callable[..., Chain]:
    name = getattr(optimizer, "__name__", "")
    kinds = _probe(optimizer, args, {**numbers, **rest}, name or repr(optimizer))

    def step(self: Any, var: Var) -> None:
        before = [_torch_of(p).clone() for p in var.params]
        params = [x.clone().requires_grad_() for x in before]
        groups = [{"params": [x], **{k: _like(var.setting(k, i), default) for k, default in numbers.items()}}
                  for i, x in enumerate(params)]
        inner = optimizer(groups, *args, **{**numbers, **rest})
        for i, (x, update) in enumerate(zip(params, var.get_update())):
            x.grad = _torch_of(update).clone()
            state = {slot: _restored(var.state(i, slot), kind) for slot, kind in kinds.items() if var.has_state(i, slot)}
            if state:
                inner.state[x] = state
        with torch.no_grad():
            inner.step()
        for i, x in enumerate(params):
            for slot, value in inner.state[x].items():
                if slot not in kinds and value is not None:
                    raise _core.StateError(f"Wrap: {name} keeps '{slot}' now, which it did not in its first steps")
                if value is not None:
                    var.set_state(i, slot, _core.from_dlpack(value.detach()) if isinstance(value, torch.Tensor) else float(value))
        var.update = [_core.from_dlpack(a - x.detach()) for a, x in zip(before, params)]

    doc = f"A step of {name or 'an optimizer'} of PyTorch."
    made = type(f"wrap_{name if name.isidentifier() else 'optimizer'}", (), {"step": step, "__doc__": doc, **numbers})
    return _link(made, state=tuple(kinds))


def _torch_of(t: Any) -> Any:
    return torch.from_dlpack(t.detach())


def _like(value: Any, default: Any) -> Any:
    return int(value) if isinstance(default, int) and value == int(value) else value


def _restored(t: Any, kind: type) -> Any:
    """State as the optimizer had it: a tensor of its own, or a number."""
    return _torch_of(t).clone() if kind is torch.Tensor else kind(t.item())


def _probe(optimizer: Callable[..., Any], args: tuple[Any, ...], settings: dict[str, Any], name: str) -> dict[str, type]:
    """What it keeps for a parameter, by name: found in two steps of small ones."""
    kinds: dict[str, type] = {}
    failed: Exception | None = None
    worked = False
    for shape in ((2,), (2, 2), (2, 2, 1, 1)):
        x = torch.ones(shape, requires_grad=True)
        try:
            inner = optimizer([{"params": [x]}], *args, **settings)
            for slope in (1.0, -0.5):
                x.grad = torch.full(shape, slope)
                inner.step()
        except Exception as e:  # some take matrices alone
            failed = e
            continue
        worked = True
        for slot, value in inner.state[x].items():
            if value is None:
                continue
            if not isinstance(value, (torch.Tensor, int, float)):
                raise TypeError(f"Wrap: {name} keeps '{slot}', a {type(value).__name__}; state is tensors and numbers")
            kinds[slot] = torch.Tensor if isinstance(value, torch.Tensor) else type(value)
    if not worked:
        raise TypeError(f"Wrap: {name} makes no step without a closure: {failed}") from failed
    return kinds
