"""Arguments of functions as trees: dicts, lists, tuples, named tuples, dataclasses and modules of tensors."""
from __future__ import annotations

from . import _core
from ._core import Tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Iterator

LEAF, NONE, STATIC, LIST, TUPLE, NAMED, DICT, DATA, MODULE = range(9)


class Static:
    """A part of a tree that is no tensor.  Equal parts make equal keys; what cannot be hashed goes by identity."""

    __slots__ = ("value", "_key")

    def __init__(self, value: Any) -> None:
        self.value = value
        try:
            hash(value)
            self._key: Any = (type(value), value)
        except TypeError:
            self._key = id(value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Static) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)


def _is_module(value: Any) -> bool:
    return isinstance(value, _core._Module)


def flatten(tree: Any, leaves: list[Tensor]) -> Any:
    """Appends the tensors of a tree to leaves, and gives its form: a hashable tuple."""
    if isinstance(tree, Tensor):
        leaves.append(tree)
        return (LEAF,)
    if tree is None:
        return (NONE,)
    kind = type(tree)
    if kind is list:
        return (LIST, tuple(flatten(v, leaves) for v in tree))
    if isinstance(tree, dict):
        return (DICT, kind, tuple(tree), tuple(flatten(v, leaves) for v in tree.values()))
    if isinstance(tree, tuple):
        return (NAMED if hasattr(kind, "_fields") else TUPLE, kind, tuple(flatten(v, leaves) for v in tree))
    if _is_module(tree):
        found = list(tree.named_parameters().items())
        leaves.extend(p for _, p in found)
        return (MODULE, Static(tree), tuple(name for name, _ in found))
    if isinstance(tree, _core._Virtual):
        leaves.append(tree.value)
        return (LEAF,)
    if hasattr(kind, "__dataclass_fields__"):
        names = tuple(kind.__dataclass_fields__)
        return (DATA, kind, names, tuple(flatten(getattr(tree, n), leaves) for n in names))
    return (STATIC, Static(tree))


def build(form: Any, leaves: Iterator[Tensor], modules_as_dicts: bool = False) -> Any:
    """The tree of a form with other tensors.  A module is itself, or a dict of its tensors by name."""
    kind = form[0]
    if kind == LEAF:
        return next(leaves)
    if kind == NONE:
        return None
    if kind == STATIC:
        return form[1].value
    if kind == LIST:
        return [build(f, leaves, modules_as_dicts) for f in form[1]]
    if kind == DICT:
        made = {name: build(f, leaves, modules_as_dicts) for name, f in zip(form[2], form[3])}
        return made if form[1] is dict else _like_dict(form[1], made)
    if kind == TUPLE:
        items = tuple(build(f, leaves, modules_as_dicts) for f in form[2])
        return items if form[1] is tuple else form[1](items)
    if kind == NAMED:
        return form[1](*(build(f, leaves, modules_as_dicts) for f in form[2]))
    if kind == MODULE:
        tensors = {name: next(leaves) for name in form[2]}
        return tensors if modules_as_dicts else form[1].value
    parts = {name: build(f, leaves, modules_as_dicts) for name, f in zip(form[2], form[3])}
    made = object.__new__(form[1])
    for name, value in parts.items():  # also of frozen ones, and without their __post_init__
        object.__setattr__(made, name, value)
    return made


def _like_dict(kind: Any, items: dict[Any, Any]) -> Any:
    try:
        return kind(items)
    except TypeError:  # a defaultdict and the like
        return items


def holds_module(form: Any) -> bool:
    """Is a module part of the tree?"""
    return form[0] == MODULE or any(holds_module(f) for part in form[1:] if isinstance(part, tuple)
                                    for f in part if isinstance(f, tuple) and f and isinstance(f[0], int))


def tree_map(fn: Callable[..., Any], tree: Any, *others: Any) -> Any:
    """fn of each tensor of a tree, and of those in the same places of others: a tree of the same form.  A module gives a dict."""
    leaves: list[Tensor] = []
    form = flatten(tree, leaves)
    columns = [leaves]
    for other in others:
        columns.append([])
        flatten(other, columns[-1])
        if len(columns[-1]) != len(leaves):
            raise ValueError(f"tree_map: one tree has {len(leaves)} tensors, another {len(columns[-1])}")
    return build(form, iter([fn(*row) for row in zip(*columns)]), True)


def tree_leaves(tree: Any) -> list[Tensor]:
    """The tensors of a tree: those in dicts, lists, tuples, dataclasses and modules."""
    leaves: list[Tensor] = []
    flatten(tree, leaves)
    return leaves
