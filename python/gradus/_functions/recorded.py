"""jit: functions that are recorded once and replayed."""
from __future__ import annotations

import functools

from .. import _core
from .._core import Tensor
from .._tree import STATIC, Static, build, flatten, holds_module
from .derivatives import _depth, _is_float

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Iterable, Sequence


class Jitted:
    """A function that is recorded and replayed: see jit."""

    def __init__(self, fun: Callable[..., Any], static_argnums: int | Sequence[int] = (), static_argnames: str | Sequence[str] = ()) -> None:
        functools.update_wrapper(self, fun, updated=())
        self.fun = fun
        self.static_numbers = {static_argnums} if isinstance(static_argnums, int) else set(static_argnums)
        self.static_names = {static_argnames} if isinstance(static_argnames, str) else set(static_argnames)
        self._recordings: dict[Any, _Recording] = {}
        self._why = ""

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        leaves: list[Tensor] = []
        form = (tuple(_static(a) if i in self.static_numbers else flatten(a, leaves) for i, a in enumerate(args)),
                tuple(sorted((k, _static(v) if k in self.static_names else flatten(v, leaves)) for k, v in keywords.items())))
        if _core.grad_enabled() and any(t.requires_grad for t in leaves):
            self._why = "an argument wants gradients: the function ran as it is.  jit the function that takes the gradient: jit(grad(f))"
            return self.fun(*args, **keywords)
        if not leaves or any(holds_module(f) for f in form[0]) or any(holds_module(f) for _, f in form[1]):
            self._why = "no argument is a tensor" if not leaves else "a Module is an argument: let the function use it from outside"
            return self.fun(*args, **keywords)
        key = self._key(form[0], form[1], leaves)
        recording = self._recordings.get(key)
        if recording is None:
            if len(self._recordings) >= 64:  # numbers among the arguments that change each time
                self._recordings.pop(next(iter(self._recordings)))
            recording = self._recordings[key] = _Recording(self.fun, form)
        return recording.call(leaves, args, keywords)

    def _key(self, args: Any, keywords: Any, leaves: list[Tensor]) -> Any:
        return ((args, keywords), leaves[0].context, _depth.number > 0,
                tuple((str(t.dtype), t.shape, t.axes, str(t.device)) for t in leaves))

    def many(self, args: Any, leaves: list[Tensor], axes: list[int | None], replayed: bool = False) -> tuple[Any, list[Tensor]] | None:
        """The form of the results and, stacked along their first axes, those of each element along axes of the leaves; None: the
        recording cannot do it, or, with `replayed`, the function was called for each element or draws random numbers."""
        if self.static_numbers or self.static_names or (_core.grad_enabled() and any(t.requires_grad for t in leaves)):
            return None
        one = iter([t if n is None else t[(slice(None),) * n + (0,)] for t, n in zip(leaves, axes)])
        forms = tuple(flatten(a, []) for a in args)
        given = [build(f, one) for f in forms]
        self(*given)
        flat: list[Tensor] = []
        again = tuple(flatten(a, flat) for a in given)
        recording = self._recordings.get(self._key(again, (), flat)) if flat else None
        if recording is None or recording.traced is None or (recording.with_gradients and _core.grad_enabled()):
            return None
        moved = [t if not n else _core.permute(t, [n, *(d for d in range(t.ndim) if d != n)]) for t, n in zip(leaves, axes)]
        parts = recording.split_many(recording.traced.many(tuple(n is None for n in axes), *moved))
        if replayed:
            said = recording.traced.explain()
            if "  replayed " not in said or "  random numbers: " in said:
                return None
        return recording.out_form, parts

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def explain(self) -> str:
        """What each recording does, or why there is none."""
        parts = [r.explain() for r in self._recordings.values()]
        return "\n".join(parts + ([self._why] if self._why else [])) or "it was not called yet"


def _static(value: Any) -> Any:
    return (STATIC, Static(value))


class _Recording:
    """The function for arguments of one form, dtypes and shapes."""

    def __init__(self, fun: Callable[..., Any], form: Any) -> None:
        self.fun, self.form, self.out_form = fun, form, None
        self.shapes: list[tuple[int, ...]] = []
        self.dtypes: list[Any] = []
        self.axes: list[Any] = []
        self.eager = self.with_gradients = ""
        self.traced: Any = None

    def call(self, leaves: list[Tensor], args: Any, keywords: Any) -> Any:
        if self.eager or (self.with_gradients and _core.grad_enabled()):
            return self.fun(*args, **keywords)
        if self.traced is None:
            first = self.fun(*args, **keywords)
            self._look(first)
            return first
        flat = self.traced.value(*leaves)
        return self._split(flat)

    def _look(self, out: Any) -> None:
        outs: list[Tensor] = []
        self.out_form = flatten(out, outs)
        if any(t.requires_grad for t in outs):
            self.with_gradients = "it uses tensors from outside that want gradients: with gradients it ran as it is"
        kinds = {str(t.dtype) for t in outs}
        if not outs or (len(outs) > 1 and (len(kinds) > 1 or not all(map(_is_float, outs)))):
            self.eager = "it returns no tensor" if not outs else f"it returns tensors of {' and '.join(sorted(kinds))}, which are not joined"
            return
        self.shapes = [t.shape for t in outs]
        self.axes = [t.axes for t in outs]
        self.traced = _core._Traced(self._run)

    def _run(self, *leaves: Tensor) -> Tensor:
        at = iter(leaves)
        args = [build(f, at) for f in self.form[0]]
        keywords = {k: build(f, at) for k, f in self.form[1]}
        outs: list[Tensor] = []
        flatten(self.fun(*args, **keywords), outs)
        return outs[0] if len(outs) == 1 else _core.cat([t.drop_names().reshape(-1) for t in outs], 0)

    def split_many(self, flat: Tensor) -> list[Tensor]:
        """Tensors of all elements, of what `many` of the recording gives."""
        if len(self.shapes) == 1:
            return [flat]
        parts, start = [], 0
        for shape, axes in zip(self.shapes, self.axes):
            size = 1
            for n in shape:
                size *= n
            part = flat[:, start:start + size].reshape((flat.shape[0], *shape))
            parts.append(part.rename(", ".join(["_", *(a or "_" for a in axes)])) if any(axes) else part)
            start += size
        return parts

    def _split(self, flat: Tensor) -> Any:
        if len(self.shapes) == 1:
            return build(self.out_form, iter([flat]))
        parts, start = [], 0
        for shape, axes in zip(self.shapes, self.axes):
            size = 1
            for n in shape:
                size *= n
            part = flat[start:start + size].reshape(shape)
            parts.append(part.rename(", ".join(a or "_" for a in axes)) if any(axes) else part)
            start += size
        return build(self.out_form, iter(parts))

    def explain(self) -> str:
        if self.eager:
            return f"not recorded: {self.eager}"
        text = self.traced.explain().rstrip() if self.traced is not None else "called once; the next call records"
        return f"{text}\n{self.with_gradients}" if self.with_gradients else str(text)


def jit(fun: Callable[..., Any] | None = None, *, static_argnums: int | Sequence[int] = (),
        static_argnames: str | Sequence[str] = ()) -> Any:
    """fun recorded once per form and shapes of its arguments, and replayed: the same bits, without Python in between.

    What is no tensor in the arguments is part of the key, so that a number that changes records again.  A function that reads values on the
    host, or does something different each time, goes on running as it is; so does one whose arguments want gradients: jit(grad(f)) records
    loss and gradient together.  .explain() says what was recorded, or why not.  A decorator too, with or without settings."""
    if fun is None:
        return functools.partial(jit, static_argnums=static_argnums, static_argnames=static_argnames)
    if isinstance(fun, Jitted):
        return fun
    if not callable(fun):
        raise TypeError(f"jit: a function is needed, not {fun!r}")
    return Jitted(fun, static_argnums, static_argnames)
