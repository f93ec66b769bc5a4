"""vmap: a function of the elements along an axis."""
from __future__ import annotations

import functools

from .. import _core
from .._core import Tensor
from .._tensor import tensor
from .._tree import build, flatten
from .derivatives import _count, _is_float, _numbers_as_tensors, vjp
from .own import _joined
from .recorded import Jitted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Iterable, Sequence


def vmap(fun: Callable[..., Any], in_axes: Any = 0, out_axes: Any = 0, axis_size: int | None = None) -> Callable[..., Any]:
    """fun of each element along an axis of its arguments, results stacked along out_axes.

    in_axes: the axis, by number or name, for all arguments, or one entry for each; None: the argument is the same for all.  For trees an
    entry is for all tensors of it, or a tree of entries.  axis_size: how many elements there are, if no argument has such an axis.
    Of 8 elements and more fun is called for the first ones and recorded as jit records it; the others are replayed without it, 16
    in each operation where the recording is element-wise operators and sums of small tensors.  What cannot be recorded is
    called once per element."""
    recorded = fun if isinstance(fun, Jitted) else Jitted(lambda *a: _numbers_as_tensors(fun(*a)))
    slopes: dict[Any, Any] = {}

    @functools.wraps(fun, updated=())
    def mapped(*args: Any, **keywords: Any) -> Any:
        args = tuple(tensor(a) if not isinstance(a, (Tensor, _core._Virtual)) and hasattr(a, "__array__") else a for a in args)
        if isinstance(in_axes, (tuple, list)) and len(in_axes) != len(args):
            raise ValueError(f"vmap: in_axes has {len(in_axes)} entries for {len(args)} arguments")
        axes = list(in_axes) if isinstance(in_axes, (tuple, list)) else [in_axes] * len(args)
        leaves: list[Tensor] = []
        forms = [flatten(a, leaves) for a in args]
        places: list[int | None] = []
        for form, entry in zip(forms, axes):
            _spread_axes(form, entry, places)
        for name, value in keywords.items():  # always along the first axis, as in JAX
            forms.append(flatten(value, leaves))
            _spread_axes(forms[-1], 0, places)
        numbers = [None if p is None else _axis_number(t, p) for t, p in zip(leaves, places)]
        sizes = {t.shape[n] for t, n in zip(leaves, numbers) if n is not None} | ({axis_size} if axis_size is not None else set())
        if len(sizes) != 1:
            raise ValueError("vmap: no argument has an axis to go along: in_axes is None for all" if not sizes else
                             f"vmap: the axes have different sizes: {', '.join(map(str, sorted(sizes)))}")
        count = sizes.pop()
        if not count:
            raise ValueError("vmap: the axis has no elements: the form of the result is not known")
        if not keywords and count > (1 if recorded is fun else 7) and any(n is not None for n in numbers):
            if _core.grad_enabled() and any(t.requires_grad for t in leaves):
                many = None if recorded is fun else _many_with_gradients(recorded, slopes, forms, leaves, numbers)
            else:
                many = recorded.many(args, leaves, numbers)
            if many is not None:
                form, parts = many
                outs: list[Any] = []
                _spread_axes(form, out_axes, outs)
                return build(form, iter([t[0] if o is None else _axis_to(t, o) for t, o in zip(parts, outs)]))
        results: list[list[Tensor]] = []
        form = None
        for i in range(count):
            at = iter([t if n is None else t[(slice(None),) * n + (i,)] for t, n in zip(leaves, numbers)])
            built = [build(f, at) for f in forms]
            parts = []
            form = flatten(_numbers_as_tensors(fun(*built[:len(args)], **dict(zip(keywords, built[len(args):])))), parts)
            results.append(parts)
        outs = []
        _spread_axes(form, out_axes, outs)
        stacked = [parts[0] if o is None else _core.stack(list(parts), o) for parts, o in zip(zip(*results), outs)]
        return build(form, iter(stacked))
    return mapped


def _many_with_gradients(recorded: Jitted, slopes: dict[Any, Any], forms: list[Any], leaves: list[Tensor],
                         numbers: list[int | None]) -> tuple[Any, list[Tensor]] | None:
    """Jitted.many of leaves that want gradients, which are those of each element, computed together too.  None: it cannot be recorded,
    or it uses tensors from outside that want gradients."""
    bare = iter([t.detach() for t in leaves])
    given = tuple(build(f, bare) for f in forms)
    flat: list[Tensor] = []
    for value in given:
        flatten(value, flat)
    many = recorded.many(given, flat, numbers, True)
    if many is None or not all(map(_is_float, many[1])):
        return None
    wanted = tuple(i for i, t in enumerate(leaves) if t.requires_grad)
    key = (tuple(forms), tuple(numbers), wanted)
    if key not in slopes:
        slopes[key] = _slopes_of(recorded.fun, forms, tuple(numbers), wanted)

    def pullback(grads: list[Tensor]) -> list[Tensor | None]:
        found = slopes[key](tuple(leaves), tuple(grads))
        return [g.sum(0) if numbers[i] is None else g for i, g in zip(wanted, found)]
    return many[0], _joined(many[1], [leaves[i] for i in wanted], pullback)


def _slopes_of(fun: Callable[..., Any], forms: list[Any], numbers: tuple[int | None, ...], wanted: tuple[int, ...]) -> Callable[..., Any]:
    """(all leaves, gradients of all results) -> gradients by the wanted leaves, of each element."""
    def of_one(leaves: tuple[Tensor, ...], grads: tuple[Tensor, ...]) -> tuple[Any, ...]:
        def of_wanted(*some: Tensor) -> tuple[Tensor, ...]:
            every = list(leaves)
            for i, t in zip(wanted, some):
                every[i] = t
            at, parts = iter(every), list[Tensor]()
            flatten(fun(*[build(f, at) for f in forms]), parts)
            return tuple(parts)
        return tuple(vjp(of_wanted, *[leaves[i] for i in wanted])[1](grads))
    return vmap(of_one, (numbers, 0), tuple(numbers[i] or 0 for i in wanted))


def _axis_to(t: Tensor, place: int) -> Tensor:
    """The first axis moved there."""
    at = place + t.ndim if place < 0 else place
    return _core.permute(t, [*range(1, at + 1), 0, *range(at + 1, t.ndim)]) if at else t


def _spread_axes(form: Any, entry: Any, out: list[Any]) -> None:
    """An entry of in_axes for each tensor of a form."""
    if entry is None or isinstance(entry, (int, str)):
        count: list[None] = []
        _count(form, count)
        out.extend([entry] * len(count))
        return
    if isinstance(entry, dict):
        for name, f in zip(form[2], form[3]):
            _spread_axes(f, entry[name], out)
        return
    parts = form[1] if form[0] == 3 else form[2]
    if len(parts) != len(entry):
        raise ValueError(f"vmap: in_axes has {len(entry)} entries where the argument has {len(parts)}")
    for f, e in zip(parts, entry):
        _spread_axes(f, e, out)


def _axis_number(t: Tensor, axis: Any) -> int:
    if isinstance(axis, str):
        if axis not in t.axes:
            raise _core.AxisError(f"vmap: there is no axis '{axis}'; the axes are {', '.join(map(str, t.axes))}")
        return list(t.axes).index(axis)
    number = axis + t.ndim if axis < 0 else axis
    if not 0 <= number < t.ndim:
        raise _core.AxisError(f"vmap: there is no axis {axis}: a tensor has the shape {t.shape}")
    return int(number)
