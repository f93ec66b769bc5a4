"""scan."""
from __future__ import annotations

from .. import _core
from .._core import Tensor
from .._tree import build, flatten
from .derivatives import _name, _numbers_as_tensors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Iterable, Sequence


def scan(fun: Callable[[Any, Any], Any], init: Any, xs: Any = None, length: int | None = None, reverse: bool = False) -> Any:
    """carry, ys: fun(carry, x) -> (carry, y) over the first axis of xs, a tree of tensors; ys are stacked.  Without xs `length` times,
    with x None.  reverse: from the last to the first, ys stay in the places of their xs.

    fun is called for the first steps; if it does the same work in them, the others are replayed without it, and so is the way back, which
    keeps only the carries (gd_scan in C).  A fun that reads values, draws random numbers or changes shapes is called in each step."""
    init, xs = _numbers_as_tensors(init), _numbers_as_tensors(xs)
    leaves: list[Tensor] = []
    form = flatten(xs, leaves)
    sizes = {t.shape[0] if t.ndim else -1 for t in leaves}
    if -1 in sizes or len(sizes) > 1 or (length is not None and sizes - {length}):
        raise ValueError(f"scan: tensors of xs have the first sizes {sorted(sizes)}" + (f", length is {length}" if length is not None else ""))
    if not sizes and length is None:
        raise ValueError("scan: xs has no tensor, and there is no length")
    count = sizes.pop() if sizes else length
    assert count is not None
    states: list[Tensor] = []
    flatten(init, states)
    if count >= 5 and 0 < len(states) <= 64 and len(leaves) <= 64:
        try:
            return _loop(fun, init, tuple(states), form, tuple(leaves), count, reverse)
        except _Changes:
            pass
    carry, results, out_form = init, {}, None
    for i in reversed(range(count)) if reverse else range(count):
        carry, y = _step(fun, carry, build(form, iter([t[i] for t in leaves])))
        parts: list[Tensor] = []
        out_form = flatten(y, parts)
        results[i] = parts
    if out_form is None:
        return carry, None
    columns = zip(*(results[i] for i in range(count)))
    return carry, build(out_form, iter([_core.stack(list(c)) for c in columns]))


class _Changes(Exception):
    """A carry or a result with more or fewer tensors, or different numbers beside them, than in the step before."""


def _step(fun: Callable[[Any, Any], Any], carry: Any, x: Any) -> tuple[Any, Any]:
    step = fun(carry, x)
    if not isinstance(step, tuple) or len(step) != 2:
        raise TypeError(f"scan: {_name(fun)} must return (carry, y), not {type(step).__name__}")
    return _numbers_as_tensors(step[0]), _numbers_as_tensors(step[1])


def _loop(fun: Callable[[Any, Any], Any], init: Any, states: tuple[Tensor, ...], form: Any, leaves: tuple[Tensor, ...], count: int,
          reverse: bool) -> Any:
    """scan by the library, which runs the first steps and records them."""
    forms: list[Any] = [flatten(init, []), None]

    def step(states: tuple[Tensor, ...], slices: tuple[Tensor, ...]) -> tuple[list[Tensor], list[Tensor]]:
        carry, y = _step(fun, build(forms[0], iter(states)), build(form, iter(slices)))
        after: list[Tensor] = []
        parts: list[Tensor] = []
        now = [flatten(carry, after), flatten(y, parts)]
        if len(after) != len(states) or len(parts) > 64 or (forms[1] is not None and now != forms):
            raise _Changes
        forms[:] = now
        return after, parts

    last, ys = _core._scan(step, states, leaves, count, reverse)
    return build(forms[0], iter(last)), build(forms[1], iter(ys))
