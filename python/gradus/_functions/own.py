"""Gradients of the user's own: custom_vjp, checkpoint."""
from __future__ import annotations

import functools
import threading

from .. import _core
from .._core import Tensor
from .._tensor import enable_grad
from .._tree import build, flatten, holds_module
from .derivatives import _count, _look_at, _name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Iterable, Sequence


def _joined(leaves: list[Tensor], inputs: list[Tensor], pullback: Callable[[list[Tensor]], list[Tensor | None]]) -> list[Tensor]:
    """Values as functions of inputs, with a gradient of their own: one node for all of them."""
    if len(leaves) == 1:
        return [_core._custom(leaves[0], tuple(inputs), lambda g: pullback([g]))]
    wide = "f64" if any(str(t.dtype) == "f64" for t in leaves) else "f32"
    flat = _core.cat([t.detach().drop_names().reshape(-1).to(wide) for t in leaves], 0)
    sizes = [t.size for t in leaves]

    def back(g: Tensor) -> list[Tensor | None]:
        start, parts = 0, []
        for t, size in zip(leaves, sizes):
            parts.append(g[start:start + size].reshape(t.shape).to(t.dtype))
            start += size
        return pullback(parts)
    whole = _core._custom(flat, tuple(inputs), back)
    out, start = [], 0
    for t, size in zip(leaves, sizes):
        part = whole[start:start + size].reshape(t.shape).to(t.dtype)
        out.append(part.rename(", ".join(a or "_" for a in t.axes)) if any(t.axes) else part)
        start += size
    return out


class _Running(threading.local):
    """Does the forward function of a custom_vjp run in this thread?"""
    forward = False


class custom_vjp:
    """A function with a gradient of its own.

        @gd.custom_vjp
        def f(x, y): return ...
        def forward(x, y): return f(x, y), (x, y)            # the result, and what backward needs
        def backward(kept, g): return (..., ...)             # a gradient, or None, for each argument
        f.defvjp(forward, backward)

    nondiff_argnums: arguments that have none; backward gets them first.  backward is made of operators where it is to be differentiated
    again."""

    def __init__(self, fun: Callable[..., Any], nondiff_argnums: Sequence[int] = ()) -> None:
        functools.update_wrapper(self, fun, updated=())
        self.fun, self.fixed = fun, tuple(nondiff_argnums)
        self.forward: Callable[..., Any] | None = None
        self.backward: Callable[..., Any] | None = None
        self._running = _Running()

    def defvjp(self, fwd: Callable[..., Any], bwd: Callable[..., Any]) -> None:
        """Sets forward and backward."""
        self.forward, self.backward = fwd, bwd

    def __call__(self, *args: Any) -> Any:
        if self.forward is None or self.backward is None:
            raise TypeError(f"custom_vjp: {_name(self.fun)}.defvjp(forward, backward) was not called")
        free = [i for i in range(len(args)) if i not in self.fixed]
        leaves: list[Tensor] = []
        forms = [flatten(args[i], leaves) for i in free]
        if self._running.forward or not _core.grad_enabled() or not any(t.requires_grad for t in leaves):
            return self.fun(*args)
        self._running.forward = True  # forward may call the function itself
        try:
            out, kept = self.forward(*args)
        finally:
            self._running.forward = False
        outs: list[Tensor] = []
        form = flatten(out, outs)
        before = [args[i] for i in self.fixed]
        backward = self.backward

        def pullback(grads: list[Tensor]) -> list[Tensor | None]:
            given = backward(*before, kept, build(form, iter(grads)))
            if not isinstance(given, (tuple, list)) or len(given) != len(free):
                raise TypeError(f"custom_vjp: backward of {_name(self.fun)} gives one gradient for each of {len(free)} arguments")
            flat: list[Tensor | None] = []
            for f, g in zip(forms, given):
                count: list[None] = []
                _count(f, count)
                some: list[Tensor] = []
                flatten(g, some)
                if not count:  # a number, not a tensor
                    continue
                if g is not None and len(some) != len(count):
                    raise ValueError(f"custom_vjp: backward of {_name(self.fun)} gives a gradient of another form than its argument")
                flat.extend([None] * len(count) if g is None else some)
            return flat
        return build(form, iter(_joined(outs, leaves, pullback)))


def checkpoint(fun: Callable[..., Any]) -> Callable[..., Any]:
    """fun without the memory of its graph: what its gradient needs is computed again when the gradient is asked for.  Random numbers
    are drawn again, so a function that draws some has a gradient of other ones."""

    @functools.wraps(fun, updated=())
    def checkpointed(*args: Any, **keywords: Any) -> Any:
        if not _core.grad_enabled():
            return fun(*args, **keywords)
        leaves: list[Tensor] = []
        form = flatten((args, keywords), leaves)
        own = [t.detach().require_grad() if t.requires_grad and not holds_module(form) else t for t in leaves]
        built_args, built_keywords = build(form, iter(own))
        out = fun(*built_args, **built_keywords)
        outs: list[Tensor] = []
        out_form = flatten(out, outs)
        ids = {t._handle for t in own}
        others: dict[int, Tensor] = {}  # from outside of the arguments
        for t in outs:
            if t.requires_grad:
                others.update((leaf._handle, leaf) for leaf in _core._leaves(t) if leaf._handle not in ids)
        wanted = [t for t in leaves if t.requires_grad]
        if not wanted and not others:
            return out
        values = [t.detach() for t in outs]
        del out, outs, own

        def pullback(grads: list[Tensor]) -> list[Tensor | None]:
            create = _core.grad_enabled()
            with enable_grad():
                again = [_look_at(t) if t.requires_grad and not holds_module(form) else t for t in leaves]
                a, k = build(form, iter(again))
                parts: list[Tensor] = []
                flatten(fun(*a, **k), parts)
                inputs = [y for y, t in zip(again, leaves) if t.requires_grad] + list(others.values())
                total: list[Any] = [None] * len(inputs)
                for part, g in zip(parts, grads):
                    if part.requires_grad:
                        some = _core.grad(part, inputs, g, retain_graph=True, create_graph=create, allow_unused=True)
                        total = [b if a is None else a if b is None else a + b for a, b in zip(total, some)]
            return total
        return build(out_form, iter(_joined(values, wanted + list(others.values()), pullback)))
    return checkpointed
