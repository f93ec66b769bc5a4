"""Functions of functions: grad, value_and_grad, vjp, jvp, jacfwd, jacrev, hessian, vmap, jit, scan, custom_vjp, checkpoint.

A transformation gives the function tensors of its own in place of its arguments, so transformations nest.  What it returns has a
history where it can matter: inside another transformation, for arguments that want gradients, and where the function uses tensors from
outside that want gradients."""
from __future__ import annotations

import functools
import threading

from . import _core
from ._core import Tensor
from ._tensor import enable_grad, no_grad, tensor
from ._tree import LEAF, build, flatten, holds_module, tree_map as tree_map

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Iterable, Sequence


class _Depth(threading.local):
    """Transformations around the code that runs now."""
    number = 0


_depth = _Depth()


class _inside:
    def __enter__(self) -> None:
        _depth.number += 1

    def __exit__(self, *unused: Any) -> None:
        _depth.number -= 1


def _name(fn: Any) -> str:
    return getattr(fn, "__name__", type(fn).__name__)


def _is_float(t: Tensor) -> bool:
    return str(t.dtype) in ("f32", "f64", "f16", "bf16")


def _argument(what: str, value: Any) -> Any:
    """Numbers and arrays as tensors, trees as they are."""
    if isinstance(value, bool) or value is None or isinstance(value, (str, bytes)):
        raise TypeError(f"{what}: {value!r} has no derivative; choose other arguments with argnums")
    if isinstance(value, (int, float)):
        return tensor(float(value))
    if not isinstance(value, (Tensor, dict, list, tuple)) and hasattr(value, "__array__"):
        made = tensor(value)
        return made if _is_float(made) else made.to("f64")
    if isinstance(value, list):
        return [_argument(what, v) for v in value]
    if type(value) is tuple:
        return tuple(_argument(what, v) for v in value)
    if type(value) is dict:
        return {k: _argument(what, v) for k, v in value.items()}
    return value


def _same(grad: Tensor) -> list[Tensor]:
    return [grad]


def _look_at(t: Tensor) -> Tensor:
    """A tensor of its own with the same values: with t's history where that is recorded, else a leaf."""
    return _core._custom(t, (t,), _same) if t.requires_grad and _core.grad_enabled() else t.detach().require_grad()


class _Taken:
    """Arguments that are differentiated by, as tensors of their own: fresh leaves, or looks at tensors with a history."""

    def __init__(self, what: str, values: Sequence[Any]) -> None:
        self.given: list[Tensor] = []
        self.forms = [flatten(_argument(what, v), self.given) for v in values]
        self.modules = any(map(holds_module, self.forms))
        if not self.given:
            raise TypeError(f"{what}: there is no tensor in the arguments that it differentiates by")
        for t in self.given:
            if not _is_float(t):
                raise _core.DtypeError(f"{what}: a tensor of dtype {t.dtype} has no gradient; float tensors have")
        self.outer = _depth.number > 0 or (not self.modules and any(t.requires_grad for t in self.given))
        if self.modules:  # they are used where they are
            self.used = self._in_place(what)
        else:
            self.used = [_look_at(t) for t in self.given]
        self.arguments = self._built(self.used)

    def _in_place(self, what: str) -> list[Tensor]:
        used, leaves = [], iter(self.given)
        for form in self.forms:
            for own in _module_leaves(form):
                t = next(leaves)
                if own and not t.requires_grad:
                    raise _core.GraphError(f"{what}: a parameter of the module is frozen: unfreeze() it, or use only what is not frozen")
                used.append(t if own else _look_at(t))
        return used

    def _built(self, leaves: Iterable[Tensor]) -> list[Any]:
        at = iter(leaves)
        return [build(form, at) for form in self.forms]

    def like(self, leaves: Iterable[Tensor]) -> list[Any]:
        """Trees of the arguments' forms; modules become dicts by name."""
        at = iter(leaves)
        return [build(form, at, True) for form in self.forms]


def _module_leaves(form: Any) -> Iterable[bool]:
    """For each tensor of a form: does it belong to a module?"""
    if form[0] == LEAF:
        yield False
    elif form[0] == 8:
        for _ in form[2]:
            yield True
    else:
        for part in form[1:]:
            if isinstance(part, tuple):
                for f in part:
                    if isinstance(f, tuple) and f and isinstance(f[0], int):
                        yield from _module_leaves(f)


def _keeps_history(taken: _Taken, outputs: Iterable[Tensor], recording: bool) -> bool:
    """Can anybody want derivatives of what comes out?"""
    if not recording:
        return False
    if taken.outer:
        return True
    own = {t._handle for t in taken.used}
    return any(leaf._handle not in own for out in outputs if out.requires_grad for leaf in _core._leaves(out))


def _grads(output: Tensor, taken: _Taken, seed: Tensor | None, create: bool, retain: bool = False) -> list[Tensor]:
    if not output.requires_grad:
        return [t.detach() * 0 for t in taken.used]
    found = _core.grad(output, taken.used, seed, retain_graph=retain or create, create_graph=create)
    return [g if create else g.detach() for g in found]


def _numbers_of(argnums: int | Sequence[int], args: tuple[Any, ...], what: str) -> tuple[int, ...]:
    numbers = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    out = tuple(n + len(args) if n < 0 else n for n in numbers)
    for n in out:
        if not 0 <= n < len(args):
            raise ValueError(f"{what}: argnums names argument {n}, {len(args)} were given by position")
    return out


def _taken_at(argnums: int | Sequence[int], args: tuple[Any, ...], what: str) -> tuple[_Taken, list[Any]]:
    """The arguments at argnums as leaves, and all arguments with these in their places."""
    numbers = _numbers_of(argnums, args, what)
    taken = _Taken(what, [args[n] for n in numbers])
    given = list(args)
    for n, value in zip(numbers, taken.arguments):
        given[n] = value
    return taken, given


def _scalar(what: str, fn: Any, out: Any) -> Tensor:
    if isinstance(out, _core._Virtual):
        out = out.value
    if not isinstance(out, Tensor):
        kind = type(out).__name__
        hint = "; has_aux=True takes (loss, anything)" if isinstance(out, tuple) else ""
        raise TypeError(f"{what}: {_name(fn)} must return a tensor of one element, it returned {kind}{hint}")
    if out.size != 1:
        raise _core.ShapeError(f"{what}: {_name(fn)} must return one element, it returned the shape {out.shape}; jacrev has derivatives of those")
    return out


def value_and_grad(fun: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Callable[..., Any]:
    """The function that gives (fun(...), its gradient by the arguments at argnums).

    Arguments may be trees: dicts, lists, tuples, named tuples, dataclasses and Modules of tensors; the gradient has the same form, that
    of a Module is a dict by name.  argnums of several numbers gives a tuple.  has_aux: fun returns (loss, anything), which is handed on:
    ((loss, anything), gradient)."""

    @functools.wraps(fun, updated=())
    def value_and_grad_of(*args: Any, **keywords: Any) -> Any:
        what, recording = "grad", _core.grad_enabled()
        taken, given = _taken_at(argnums, args, what)
        with enable_grad(), _inside():
            out = fun(*given, **keywords)
            if has_aux and not (isinstance(out, tuple) and len(out) == 2):
                raise TypeError(f"{what}: with has_aux {_name(fun)} returns a pair: (loss, anything)")
            loss, aux = out if has_aux else (out, None)
            loss = _scalar(what, fun, loss)
        create = _keeps_history(taken, [loss], recording)
        with enable_grad():
            grads = taken.like(_grads(loss, taken, None, create))
        if not create:
            loss, aux = loss.detach(), tree_detach(aux)
        return ((loss, aux) if has_aux else loss), (grads[0] if isinstance(argnums, int) else tuple(grads))
    return value_and_grad_of


def tree_detach(tree: Any) -> Any:
    """A tree without the history of its tensors; what holds none is the same object."""
    leaves: list[Tensor] = []
    form = flatten(tree, leaves)
    return build(form, iter([t.detach() for t in leaves])) if leaves and not holds_module(form) else tree


def _grad_of(fun: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Callable[..., Any]:
    both = value_and_grad(fun, argnums, has_aux)

    @functools.wraps(fun, updated=())
    def grad_of(*args: Any, **keywords: Any) -> Any:
        value, found = both(*args, **keywords)
        return (found, value[1]) if has_aux else found
    return grad_of


def grad(*args: Any, **keywords: Any) -> Any:
    """grad(fun, argnums=0, has_aux=False): the function that gives the gradient of fun by its arguments at argnums.
    grad(output, inputs, seed=None, retain_graph=False, create_graph=False, allow_unused=False): the gradients of a tensor (times seed)
    by inputs, one tensor or a list of them; they may be inner tensors.

    What is differentiated tells which: a function or a tensor.  Arguments of functions may be trees; see value_and_grad."""
    first = args[0] if args else keywords.get("fun", keywords.get("output"))
    if callable(first) and not isinstance(first, (Tensor, _core._Virtual)):
        return _grad_of(*args, **keywords)
    return _core.grad(*args, **keywords)


def stop_gradient(x: Any) -> Any:
    """A tensor, or a tree of tensors, through which no gradient flows."""
    return x.detach() if isinstance(x, Tensor) else tree_detach(x)


# ---- products with Jacobians ----

def vjp(fun: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """(fun(*primals), the function that takes a gradient of the result to a tuple of gradients by the arguments); with has_aux
    fun returns (result, anything), and anything comes third."""
    recording = _core.grad_enabled()
    taken = _Taken("vjp", primals)
    with enable_grad(), _inside():
        out = fun(*taken.arguments)
    out, aux = out if has_aux else (out, None)
    leaves: list[Tensor] = []
    form = flatten(out, leaves)
    if not leaves:
        raise TypeError(f"vjp: {_name(fun)} returned no tensor")
    create = _keeps_history(taken, leaves, recording)
    outer = _depth.number

    def pullback(cotangent: Any) -> tuple[Any, ...]:
        seeds: list[Tensor] = []
        if flatten(cotangent if not isinstance(cotangent, (int, float)) else tensor(cotangent).to(leaves[0].dtype), seeds) != form:
            raise ValueError(f"vjp: the gradient of the result has another form than what {_name(fun)} returned")
        history = create or _depth.number > outer or (_core.grad_enabled() and any(s.requires_grad for s in seeds))
        return tuple(taken.like(_pull(leaves, seeds, taken, history)))
    shown = out if create else tree_detach(out)
    return (shown, pullback, aux if create else tree_detach(aux)) if has_aux else (shown, pullback)


def _pull(leaves: list[Tensor], seeds: list[Tensor], taken: _Taken, create: bool) -> list[Tensor]:
    total: list[Tensor] | None = None
    with enable_grad():
        for leaf, seed in zip(leaves, seeds):
            if leaf.requires_grad:
                some = _grads(leaf, taken, seed.to(leaf.dtype), create, True)
                total = some if total is None else [a + b for a, b in zip(total, some)]
    return [t.detach() * 0 for t in taken.used] if total is None else total


def _inner(a: Iterable[Tensor], b: Iterable[Tensor]) -> Tensor | None:
    total = None
    for x, y in zip(a, b):
        term = (x.drop_names() * y.drop_names()).sum()
        total = term if total is None else total + term.to(total.dtype)
    return total


def _jvp_of(fun: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool = False) -> Any:
    recording = _core.grad_enabled()
    if not isinstance(primals, (tuple, list)) or not isinstance(tangents, (tuple, list)) or len(primals) != len(tangents):
        raise TypeError("jvp: primals and tangents are tuples of the same length, one entry for each argument")
    taken = _Taken("jvp", list(primals))
    along: list[Tensor] = []
    forms = [flatten(_argument("jvp", t), along) for t in tangents]
    if len(along) != len(taken.used) or (not taken.modules and forms != taken.forms):
        raise ValueError("jvp: the tangents have another form than the primals")
    with enable_grad(), _inside():
        out = fun(*taken.arguments)
        out, aux = out if has_aux else (out, None)
    leaves: list[Tensor] = []
    form = flatten(out, leaves)
    create = _keeps_history(taken, [*leaves], recording) or (recording and any(t.requires_grad for t in along))
    moved = []
    with enable_grad():
        for leaf in leaves:  # the derivative of u -> J^T u, which is linear, along the tangents
            zero = leaf.detach() * 0
            if not leaf.requires_grad:
                moved.append(zero)
                continue
            u = zero.require_grad()
            product = _inner(_grads(leaf, taken, u, True, True), along)
            assert product is not None
            moved.append(_core.grad(product, u, create_graph=create, retain_graph=True) if product.requires_grad else zero.detach())
    tangent = build(form, iter(moved if create else [m.detach() for m in moved]))
    shown = out if create else tree_detach(out)
    return (shown, tangent, aux) if has_aux else (shown, tangent)


def jvp(fun: Callable[..., Any], primals: Any, tangents: Any, has_aux: bool = False) -> Any:
    """(fun(*primals), the derivative of the result along the tangents): both are tuples, or lists, with one entry for each argument.
    For one tensor, or tensors that are not in a tuple or list, it gives the derivative alone: jvp(fun, x, v)."""
    if isinstance(primals, Tensor) or not isinstance(primals, (tuple, list)):
        return _core.jvp(fun, primals, tangents)
    return _jvp_of(fun, primals, tangents, has_aux)


# ---- whole Jacobians ----

def jacrev(fun: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Callable[..., Any]:
    """The function that gives the derivative of every element of fun's result by every element of its arguments at argnums:
    [axes of the result..., axes of the argument...], in a tree of the result's form with trees of the argument's form in it."""

    @functools.wraps(fun, updated=())
    def jacobian_of(*args: Any, **keywords: Any) -> Any:
        what, recording = "jacobian", _core.grad_enabled()
        taken, given = _taken_at(argnums, args, what)
        with enable_grad(), _inside():
            out = fun(*given, **keywords)
            out, aux = out if has_aux else (out, None)
        leaves: list[Tensor] = []
        form = flatten(out, leaves)
        if not leaves:
            raise TypeError(f"{what}: {_name(fun)} returned no tensor")
        create = _keeps_history(taken, leaves, recording)
        with enable_grad():
            made = []
            for leaf in leaves:
                like = taken.like(_rows(leaf, taken, create))
                made.append(like[0] if isinstance(argnums, int) else tuple(like))
        found = _place(form, iter(made))
        return (found, aux if create else tree_detach(aux)) if has_aux else found
    return jacobian_of


def _place(form: Any, parts: Any) -> Any:
    """A tree of a form with anything in the places of its tensors."""
    return build(form, parts, True)


def _rows(leaf: Tensor, taken: _Taken, create: bool) -> list[Tensor]:
    flat = leaf.reshape(-1) if leaf.requires_grad else leaf
    found: list[list[Tensor]] = [[] for _ in taken.used]
    for i in range(leaf.size):
        for column, g in zip(found, _grads(flat[i] if leaf.requires_grad else leaf, taken, None, create, True)):
            column.append(g)
    return [_with_axes_of((_core.stack([c.drop_names() for c in column]) if column else t.detach().reshape(-1)[:0]).reshape((*leaf.shape, *t.shape)), leaf, t)
            for column, t in zip(found, taken.used)]


def _with_axes_of(made: Tensor, *parts: Tensor) -> Tensor:
    """The axes of the parts one after the other, with names and labels; a repeated name gets a number, "x2"."""
    given = [n for p in parts for n in p.axes]
    if not any(given):
        return made
    names: list[str | None] = []
    for name in given:
        new, number = name, 2
        while new is not None and new in names:
            new, number = f"{name}{number}", number + 1
        names.append(new)
    made = _core.rename(made, ", ".join("_" if n is None else n for n in names))
    for new, labels in zip(names, (row for p in parts for row in p.labels)):
        if new is not None and labels is not None:
            made = made.with_labels(new, list(labels))
    return made


jacfwd = jacrev  # the same numbers; forward products are made of reverse ones here, so there is no cheaper way by columns


def hessian(fun: Callable[..., Any], *inputs: Any, argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Any:
    """hessian(fun, argnums=0): the function that gives the second derivatives of a scalar function, [axes of x..., axes of x...], of
    several arguments or trees as trees in trees.  hessian(fun, inputs): those at tensors, flattened and joined: [n, n]."""
    if len(inputs) == 1 and not isinstance(inputs[0], int):
        return _core.hessian(fun, inputs[0])
    if inputs:
        argnums = inputs[0]
    return jacrev(_grad_of(fun, argnums, has_aux), argnums, has_aux)


# ---- over an axis ----

def vmap(fun: Callable[..., Any], in_axes: Any = 0, out_axes: Any = 0, axis_size: int | None = None) -> Callable[..., Any]:
    """fun of each element along an axis of its arguments, results stacked along out_axes.

    in_axes: the axis, by number or name, for all arguments, or one entry for each; None: the argument is the same for all.  For trees an
    entry is for all tensors of it, or a tree of entries.  axis_size: how many elements there are, if no argument has such an axis.
    fun is called once per element; vmap(jit(fun)) replays it instead, 16 elements in each operation where the recording is
    element-wise operators and sums of small tensors."""

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
        if isinstance(fun, Jitted) and not keywords and count > 1 and any(n is not None for n in numbers):
            many = fun.many(args, leaves, numbers)
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


def _axis_to(t: Tensor, place: int) -> Tensor:
    """The first axis moved there."""
    at = place + t.ndim if place < 0 else place
    return _core.permute(t, [*range(1, at + 1), 0, *range(at + 1, t.ndim)]) if at else t


def _numbers_as_tensors(value: Any) -> Any:
    if isinstance(value, (int, float)) or (hasattr(value, "__array__") and not isinstance(value, (Tensor, _core._Virtual))):
        return tensor(value)
    if type(value) in (list, tuple):
        return type(value)(map(_numbers_as_tensors, value))
    if type(value) is dict:
        return {k: _numbers_as_tensors(v) for k, v in value.items()}
    return value


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


def _count(form: Any, out: list[None]) -> None:
    for _ in _module_leaves(form):
        out.append(None)


def _axis_number(t: Tensor, axis: Any) -> int:
    if isinstance(axis, str):
        if axis not in t.axes:
            raise _core.AxisError(f"vmap: there is no axis '{axis}'; the axes are {', '.join(map(str, t.axes))}")
        return list(t.axes).index(axis)
    number = axis + t.ndim if axis < 0 else axis
    if not 0 <= number < t.ndim:
        raise _core.AxisError(f"vmap: there is no axis {axis}: a tensor has the shape {t.shape}")
    return int(number)


# ---- recorded once, replayed ----

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

    def many(self, args: Any, leaves: list[Tensor], axes: list[int | None]) -> tuple[Any, list[Tensor]] | None:
        """The form of the results and, stacked along their first axes, those of each element along axes of the leaves; None: the
        recording cannot do it."""
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
        return recording.out_form, recording.split_many(recording.traced.many(tuple(n is None for n in axes), *moved))

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def explain(self) -> str:
        """What each recording does, or why there is none."""
        parts = [r.explain() for r in self._recordings.values()]
        return "\n".join(parts + ([self._why] if self._why else [])) or "it was not called yet"


def _static(value: Any) -> Any:
    from ._tree import STATIC, Static

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


# ---- loops ----

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


# ---- gradients of the user's own ----

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
