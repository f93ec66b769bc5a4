"""Derivatives: grad, value_and_grad, vjp, jvp, jacfwd, jacrev, hessian.

A transformation gives the function tensors of its own in place of its arguments, so transformations nest.  What it returns has a
history where it can matter: inside another transformation, for arguments that want gradients, and where the function uses tensors from
outside that want gradients."""
from __future__ import annotations

import functools
import threading

from .. import _core
from .._core import Tensor
from .._tensor import enable_grad, tensor
from .._tree import LEAF, build, flatten, holds_module

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


def _count(form: Any, out: list[None]) -> None:
    for _ in _module_leaves(form):
        out.append(None)


def _numbers_as_tensors(value: Any) -> Any:
    if isinstance(value, (int, float)) or (hasattr(value, "__array__") and not isinstance(value, (Tensor, _core._Virtual))):
        return tensor(value)
    if type(value) in (list, tuple):
        return type(value)(map(_numbers_as_tensors, value))
    if type(value) is dict:
        return {k: _numbers_as_tensors(v) for k, v in value.items()}
    return value


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

    return _jacobian(fun, argnums, has_aux, _rows)


def jacfwd(fun: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Callable[..., Any]:
    """jacrev by columns: one forward product for each element of the arguments, in place of one reverse pass for each element of the
    result.  Of few numbers by which many are differentiated it is the faster one."""
    return _jacobian(fun, argnums, has_aux, _columns)


def _jacobian(fun: Callable[..., Any], argnums: int | Sequence[int], has_aux: bool,
              derivatives: Callable[[Tensor, _Taken, bool], list[Tensor]]) -> Callable[..., Any]:
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
                like = taken.like(derivatives(leaf, taken, create))
                made.append(like[0] if isinstance(argnums, int) else tuple(like))
        found = _place(form, iter(made))
        return (found, aux if create else tree_detach(aux)) if has_aux else found
    return jacobian_of


def _place(form: Any, parts: Any) -> Any:
    """A tree of a form with anything in the places of its tensors."""
    return build(form, parts, True)


def _rows(leaf: Tensor, taken: _Taken, create: bool) -> list[Tensor]:
    """By reverse passes, one for each element of the leaf; many at once where nobody differentiates them."""
    if leaf.requires_grad and not create:
        return list(_core._jacobian_of(leaf, tuple(taken.used)))
    flat = leaf.reshape(-1) if leaf.requires_grad else leaf
    found: list[list[Tensor]] = [[] for _ in taken.used]
    for i in range(leaf.size):
        for column, g in zip(found, _grads(flat[i] if leaf.requires_grad else leaf, taken, None, create, True)):
            column.append(g)
    return [_with_axes_of((_core.stack([c.drop_names() for c in column]) if column else t.detach().reshape(-1)[:0]).reshape((*leaf.shape, *t.shape)), leaf, t)
            for column, t in zip(found, taken.used)]


def _columns(leaf: Tensor, taken: _Taken, create: bool) -> list[Tensor]:
    """u -> J^T u is linear: its derivatives by u are J's columns."""
    if not leaf.requires_grad:
        return _rows(leaf, taken, create)
    u = (leaf.detach() * 0).require_grad()
    found = []
    for t, pulled in zip(taken.used, _grads(leaf, taken, u, True, True)):
        n, flat = t.size, pulled.drop_names().reshape(-1)
        if not pulled.requires_grad or not n:
            columns = t.detach().drop_names().reshape(-1)[:, None] * leaf.detach().drop_names().reshape(-1)[None] * 0
        elif create:
            columns = _core.stack([_core.grad(flat[i], u, retain_graph=True, create_graph=True).drop_names().reshape(-1) for i in range(n)])
        else:
            columns = _core._jacobian_of(flat, (u,))[0].drop_names().reshape((n, leaf.size))
        found.append(_with_axes_of(columns.T.reshape((*leaf.shape, *t.shape)), leaf, t))
    return found


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


def hessian(fun: Callable[..., Any], *inputs: Any, argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Any:
    """hessian(fun, argnums=0): the function that gives the second derivatives of a scalar function, [axes of x..., axes of x...], of
    several arguments or trees as trees in trees.  hessian(fun, inputs): those at tensors, flattened and joined: [n, n]."""
    if len(inputs) == 1 and not isinstance(inputs[0], int):
        return _core.hessian(fun, inputs[0])
    if inputs:
        argnums = inputs[0]
    return jacrev(_grad_of(fun, argnums, has_aux), argnums, has_aux)
