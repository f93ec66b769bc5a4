"""Chains and optimizers."""
from __future__ import annotations

import weakref
from math import isfinite

from . import _core, _var
from ._core import Tensor
from ._links import definitions, known_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Iterator, Mapping, Sequence

REAL, SELECTION = 2, 64  # kinds of settings, gradus/link.h and core.c

holders: "weakref.WeakValueDictionary[int, Any]" = weakref.WeakValueDictionary()  # optimizers by the address of the library's
_var.HOLDERS = holders

# Functions of parameters that stand in chains where a selection does: under a name that no parameter has, until an optimizer replaces
# it by the names of those for which the function is true.
functions: dict[str, Callable[[Any], Any]] = {}


def _name_of(fn: Callable[[Any], Any]) -> str:
    for name, known in functions.items():
        if known is fn:
            return name
    own = getattr(fn, "__name__", "")
    name = f"@{own if own.isidentifier() else 'function'}.{len(functions) + 1}"
    functions[name] = fn
    return name


def _has_functions(text: str) -> bool:
    return '"@' in text


def _selection(fn: Callable[[Any], Any], parameters: Sequence[tuple[str, Any]]) -> str:
    """The text that selects the parameters for which a function is true."""
    names = ["".join(c if c.isalnum() or c in "_.-" else "\\" + c for c in name) for name, p in parameters if fn(p)]
    return "*" if names and len(names) == len(parameters) else " or ".join(names) or "not *"


class Selections:
    """Functions in the chain of an optimizer."""

    def __init__(self, optimizer: _core._Optimizer) -> None:
        self._places = []
        for path, field, text in _core._optimizer_selections(optimizer):
            if text.startswith("@"):
                if text not in functions:
                    raise ValueError(f"'{text}' in the chain is a function of another process; give it again")
                self._places.append((path, field, functions[text]))

    def look(self, optimizer: _core._Optimizer, parameters: Sequence[tuple[str, Any]]) -> None:
        """After parameters have come or gone."""
        for path, field, fn in self._places if parameters else ():
            _core._optimizer_set_text(optimizer, path, field, _selection(fn, parameters))


class Chain:
    """Links joined by |: Chain("adam | lr(1e-3)"), or from gradus.m.  Its text is what the library prints."""

    __slots__ = {"text": "The chain as the library prints it."}
    text: str

    def __init__(self, text: "str | Chain") -> None:
        if definitions:
            known_in(_core.current_context())
        object.__setattr__(self, "text", _core.check_chain(text.text if isinstance(text, Chain) else str(text)))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("a chain does not change")

    def __or__(self, other: Any) -> "Chain":  # links that a class decorator made are classes for mypy
        if not isinstance(other, (Chain, str)):
            return NotImplemented
        return Chain(f"{self.text} | {other.text if isinstance(other, Chain) else other}")

    def __ror__(self, other: str) -> "Chain":
        return Chain(f"{other} | {self.text}") if isinstance(other, str) else NotImplemented

    def __str__(self) -> str:
        if _has_functions(self.text):
            raise TypeError(f"the chain '{self.text}' has functions of parameters, which are for optimizers; a selection is a text: \"axes>=2\"")
        return self.text

    def __repr__(self) -> str:
        return f"Chain({self.text!r})"

    def _repr_html_(self) -> str:
        import html

        return " | ".join(f"<code>{html.escape(link)}</code>" for link in self.text.split(" | "))

    def __eq__(self, other: object) -> bool:
        return self.text == other.text if isinstance(other, Chain) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.text)

    def __reduce__(self) -> Any:
        return (Chain, (str(self),))


# ---- links as functions ----

def _value(owner: str, name: str, value: Any, kinds: int = 0) -> Any:
    """A value as the library takes it: links as a tuple of texts, numbers of NumPy and others as a float."""
    if isinstance(value, Chain):
        return (value.text,)
    if value is None or isinstance(value, (bool, str)):
        return value
    if kinds & SELECTION and callable(value) and not isinstance(value, type):
        return _name_of(value)
    try:
        if isinstance(value, (list, tuple)) and value and any(isinstance(v, Chain) for v in value):
            return (" | ".join(v.text if isinstance(v, Chain) else str(v) for v in value),)
        if isinstance(value, (list, tuple)):
            return [float(v) for v in value]
        if hasattr(value, "tolist") and not isinstance(value, Tensor) and getattr(value, "ndim", 0) == 1:
            return [float(v) for v in value.tolist()]
        return value.item() if type(value).__name__ in ("bool", "bool_") else float(value)
    except (TypeError, ValueError, AttributeError):
        raise TypeError(f"{owner}: '{name}' cannot be {value!r}") from None


def _link_doc(table: Mapping[str, Any]) -> str:
    lines = [f"{table['summary']}.", ""]
    if table["formula"]:
        lines += ["    " + part.strip() for part in table["formula"].split(";") if part.strip()] + [""]
    for name, kinds, needed, default, low, high, whole, choices, variadic, help_text in table["fields"]:
        says = [choices.replace("|", ", ")] if choices else []
        if kinds & REAL and (isfinite(low) or isfinite(high)):
            says.append(f"{low:g} to {high:g}")
        says.append("must be given" if needed else f"default {default!r}" if not variadic else "any number of them")
        lines.append(f"{name}: {help_text or ''} ({'; '.join(says)})")
    for key, title in (("paper", "Paper"), ("cost", "Cost"), ("example", "Example")):
        if table[key]:
            lines.append(f"{title}: {table[key]}")
    return "\n".join(lines)


def make_link(name: str) -> Callable[..., Chain] | None:
    """The function of a link or preset; None where there is none."""
    import inspect

    table = definitions[name].table() if name in definitions else _core.link_table(name)
    if table is None:
        return None
    fields = table["fields"]
    kinds = {f[0]: f[1] for f in fields}
    many = next((i for i, f in enumerate(fields) if f[8]), None)  # takes all that is left by position

    def link(*args: Any, **settings: Any) -> Chain:
        if many is None and len(args) > len(fields):
            raise TypeError(f"{name}() has {len(fields)} settings, {len(args)} were given")
        values: dict[str, Any] = {}
        for i, value in enumerate(args):
            field = fields[i if many is None else min(i, many)][0]
            if field in settings:
                raise TypeError(f"{name}(): '{field}' is given twice")
            one = _value(name, field, value, kinds[field])
            if many is None or i < many:
                values[field] = one
            else:
                values[field] = values.get(field, ()) + (one if isinstance(one, tuple) else (one,))
        for key, value in settings.items():
            if key not in kinds:
                import difflib

                near = difflib.get_close_matches(key, kinds, 1)
                raise TypeError(f"{name}() has no setting '{key}'" + (f", did you mean '{near[0]}'?" if near else ""))
            values[key] = _value(name, key, value, kinds[key])
        if definitions:
            known_in(_core.current_context())
        return Chain(_core._link_text(name, tuple(values.items()), kinds))

    P = inspect.Parameter
    parameters: list[inspect.Parameter] = []
    seen_default = after_many = False
    for f in fields:
        if f[8]:
            parameters = [P(q.name, P.POSITIONAL_ONLY, default=q.default) for q in parameters]
            parameters.append(P(f[0], P.VAR_POSITIONAL))
            after_many = True
            continue
        seen_default = seen_default or not f[2]
        kind = P.KEYWORD_ONLY if after_many else P.POSITIONAL_OR_KEYWORD
        parameters.append(P(f[0], kind, default=f[3] if not f[2] or (seen_default and not after_many) else P.empty))
    link.__name__ = link.__qualname__ = name
    link.__module__ = "gradus.m"
    link.__doc__ = _link_doc(table)
    link.__signature__ = inspect.Signature(parameters, return_annotation=Chain)  # type: ignore[attr-defined]
    return link


# ---- optimizers ----

def takes_backward(closure: Callable[..., Any]) -> bool:
    """Is it called with backward=False where the loss alone is wanted?"""
    import inspect

    try:
        return "backward" in inspect.signature(closure).parameters
    except (TypeError, ValueError):
        return False


def _settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {key: _value("group", key, value) for key, value in settings.items()}


class Group(dict):  # type: ignore[type-arg]
    """A group of parameters and its settings, live: group["lr"] = 0.1 is in force at the next step.  What is no setting of the chain is
    kept for those who put it there, as learning rate schedulers do with "initial_lr"."""

    def __init__(self, optimizer: "Optimizer", number: int, params: dict[str, Tensor], settings: Mapping[str, Any]) -> None:
        super().__init__(settings, params=list(params.values()))
        self._optimizer, self._number, self._names = optimizer, number, list(params)
        self.schedules: dict[str, Callable[[int], float]] = {}

    def __setitem__(self, key: str, value: Any) -> None:
        if key == "params":
            raise KeyError("the parameters of a group change by add_param_group, add and remove")
        if key in SETTINGS_OF_TORCH or key in self or self._known(key):
            self._put(key, value)
        super().__setitem__(key, value)

    def _known(self, key: str) -> bool:
        return bool(self._names) and _core._optimizer_setting(self._optimizer, key, self._names[0]) is not None

    def _put(self, key: str, value: Any) -> None:
        if key == "params" or not (self._known(key) or isinstance(value, str)):
            return
        if isinstance(value, Tensor) or hasattr(value, "item"):
            value = value.item()
        self._optimizer.set(key, value, self._number)

    def __getitem__(self, key: str) -> Any:
        if key != "params" and self._names:
            found = _core._optimizer_setting(self._optimizer, key, self._names[0])
            if found is not None:
                return found
        return super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        """The setting in force, an assigned value, or the default."""
        try:
            return self[key]
        except KeyError:
            return default

    def setdefault(self, key: str, default: Any = None) -> Any:
        """What is there, or else the default, put there."""
        try:
            return self[key]
        except KeyError:
            self[key] = default
            return default

    def update(self, *others: Any, **settings: Any) -> None:
        """Sets several."""
        for key, value in dict(*others, **settings).items():
            self[key] = value

    def __reduce__(self) -> Any:
        return (dict, ({**self},))


SETTINGS_OF_TORCH = ("lr",)


class ByTensor(dict):  # type: ignore[type-arg]
    """A dict whose keys are tensors: every Python object of one tensor is the same key."""

    def _key(self, key: Any) -> Any:
        handle = getattr(key, "_handle", None)
        return next((k for k in self if k is key or (handle is not None and k._handle == handle)), None)

    def __getitem__(self, key: Any) -> Any:
        own = self._key(key)
        if own is None:
            raise KeyError(key)
        return super().__getitem__(own)

    def __contains__(self, key: Any) -> bool:
        return self._key(key) is not None

    def get(self, key: Any, default: Any = None) -> Any:
        """The value of a tensor, or the default."""
        return self[key] if key in self else default


class Optimizer(_core._Optimizer):
    """Steps of a chain over parameters.

    params  a Module, a Tensor, tensors, tensors by name, or groups with settings of their own:
            [{"params": [w], "lr": 0.1}, {"params": [b]}]
    chain   text or links: "clip_norm(1) | adam | lr(1e-3)", m.adam() | m.lr(1e-3)

    Links may be given one by one, or as a list: Optimizer(net, m.adam(), m.lr(1e-3)).  param_groups are live views, as in torch, and
    copy, deepcopy and pickle work: the parameters are copied with it.

    step(closure) evaluates closure(), which returns one number, as often as the links need; step(residuals=f) does so with a tensor
    of residuals, whose sum of squares is the loss; step() uses the gradients of backward().  A closure with an argument
    `backward` is called with False if only the loss is needed, and else leaves the gradients on the parameters."""

    def __init__(self, params: Any, *chain: Any) -> None:
        from ._module import Module

        self._params, self._model = params, params if isinstance(params, Module) else None
        self._views: list[Group] = []
        text = joined(chain)
        groups = _groups_of(params, Module)
        if groups and not any(tensors for _, tensors in groups):
            raise ValueError("Optimizer: no parameters were given")
        first = next((p for group in groups for p in group[1].values()), None) if not isinstance(params, Module) else None
        context = params._context if isinstance(params, Module) else first.context if first is not None else _core.current_context()
        if definitions:
            known_in(context)
        super().__init__(context, text)
        holders[self._handle] = self
        self._selections = Selections(self) if _has_functions(text) else None
        if isinstance(params, Module):
            self.add_module(params)
        for number, (settings, tensors) in enumerate(groups):
            if number == 0:  # there from the start
                for name, p in tensors.items():
                    self.add(name, p)
                self._set_group(0, settings)
            else:
                self.add_group(tuple(tensors), tuple(tensors.values()), settings)
            self._views.append(Group(self, number, tensors, settings))
        self._look()

    def __new__(cls, *args: Any, **keywords: Any) -> "Optimizer":
        return super().__new__(cls)

    def _look(self) -> None:
        if self._selections is not None:
            self._selections.look(self, list(self.parameters.items()))

    def add(self, name: str, tensor: Tensor, /) -> None:
        """Adds a parameter to the first group."""
        super().add(name, tensor)
        self._look()

    def add_group(self, names: tuple[str, ...], tensors: tuple[Tensor, ...], settings: Any = None, /) -> int:
        """Adds a group with settings of its own: {'lr': 0.1, 'momentum': 0.5}, or the text 'lr=0.1, momentum=0.5'."""
        number = super().add_group(names, tensors, settings)
        self._look()
        return number

    def add_module(self, module: Any, glob: str | None = None, settings: str | None = None, /) -> None:
        """Adds the parameters of a module whose names match."""
        super().add_module(module, glob, settings)
        self._look()

    def remove(self, name: str, /) -> None:
        """Removes a parameter and its state."""
        super().remove(name)
        self._look()

    def reset(self, link: "str | Chain | None" = None) -> None:
        """Resets all state, or that of the links with a name ("adam") or a place ("1:adam", "0:multistep.0:adam") and of links inside
        them; the parameters stay."""
        reset_links(self, link)

    def set_param_groups(self, link: "str | Chain", groups: Sequence[Mapping[str, Any]]) -> "Optimizer":
        """Settings of one link, by its name or place, for some parameters: set_param_groups("adam", [{"params": [w], "beta1": 0.5}]).
        They take precedence over those of param_groups."""
        paths = places(self, link, "set_param_groups")
        if len(paths) > 1:
            raise ValueError(f"set_param_groups: several links are called so: {', '.join(paths)}")
        for settings, tensors in _groups_of(list(groups), type(None)):
            text = ", ".join(f"{key}={_written(value)}" for key, value in settings.items())
            _core._optimizer_set_for(self, paths[0], tuple(tensors.values()), text)
        return self

    @property
    def links(self) -> list[str]:
        """The places of all links in the chain, parents first: "0:clip_norm", "1:adam"."""
        return [path for path, _ in _core._optimizer_links(self)]

    @property
    def attrs(self) -> "Attributes":
        """Values published by links, as a mapping: attrs["best_loss"]."""
        return Attributes(self)

    def transform(self, tensors: Sequence[Tensor], grads: Sequence[Tensor] | None = None, loss: Tensor | None = None) -> list[Tensor]:
        """The chain's result for tensors with the shapes of the parameters, whose state and settings it uses; the parameters stay.
        Links that evaluate, move parameters or stop raise.  grads: the gradients, if links want them and the tensors are others."""
        return _core._optimizer_transform(self, "both", tensors, grads, loss)

    def transform_update(self, tensors: Sequence[Tensor], grads: Sequence[Tensor] | None = None, loss: Tensor | None = None) -> None:
        """The half of transform() that changes state, of a chain of one link; it may be called several times before transform_apply."""
        _core._optimizer_transform(self, "update", tensors, grads, loss)

    def transform_apply(self, tensors: Sequence[Tensor], grads: Sequence[Tensor] | None = None, loss: Tensor | None = None) -> list[Tensor]:
        """The half of transform() that gives the result, of a chain of one link."""
        return _core._optimizer_transform(self, "apply", tensors, grads, loss)

    @property
    def model(self) -> Any:
        """The Module whose parameters it has, or None."""
        return self._model

    @property
    def param_groups(self) -> list[Group]:
        """The groups as live dicts: "params", and settings by name, those in force and those that were put there."""
        if not self._views:
            self._views.append(Group(self, 0, {}, {}))
        if len(self._views) == 1:  # with what add() and add_module() brought
            view = self._views[0]
            view._names = list(self.parameters)
            dict.__setitem__(view, "params", list(self.parameters.values()))
        for view in self._views:
            lr = view.get("lr")
            if lr is not None:
                dict.__setitem__(view, "lr", lr)
        return self._views

    def add_param_group(self, group: Mapping[str, Any]) -> None:
        """One more group: {"params": [w], "lr": 0.1}."""
        settings, tensors = _groups_of([group], type(None))[0]
        known = self.parameters
        taken = {t._handle for t in known.values()}
        if any(t._handle in taken for t in tensors.values()):
            raise ValueError("add_param_group: a parameter is in the optimizer already")
        tensors = {name if name not in known else f"p{len(known) + i}": t for i, (name, t) in enumerate(tensors.items())}
        self.param_groups  # those so far
        self.add_group(tuple(tensors), tuple(tensors.values()), settings)
        self._views.append(Group(self, self.groups - 1, tensors, settings))

    @property
    def state(self) -> "ByTensor":
        """Copies of the state of links for each parameter: state[w]["exp_avg"]."""
        tensors, _ = _core._optimizer_pack(self)
        out = ByTensor()
        for name, p in self.parameters.items():
            found = {key.rsplit("/", 1)[1]: t for key, t in tensors.items() if key.startswith(f"{name}/")}
            if found:
                out[p] = found
        return out

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forgets the gradients on the parameters."""
        super().zero_grad()

    def setting(self, name: str, parameter: str | None = None) -> Any:
        """The setting in force of the last link that has it, for a parameter by name; None where no link has it."""
        return _core._optimizer_setting(self, name, parameter if parameter is not None else next(iter(self.parameters)))

    def state_dict(self) -> dict[str, Any]:
        """A copy of all state: of links, step counts, settings and generators."""
        tensors, texts = _core._optimizer_pack(self)
        return {"tensors": tensors, "texts": texts, "chain": self.chain}

    def load_state_dict(self, state: Mapping[str, Any], strict: bool = True) -> None:
        """Sets the state to what state_dict() gave."""
        _core._optimizer_unpack(self, dict(state["tensors"]), dict(state["texts"]), strict)

    def __reduce_ex__(self, protocol: Any) -> Any:
        groups = [(list(view._names), {k: v for k, v in view.items() if k != "params"}) for view in self._views]
        parameters = self._model if self._model is not None else list(self.parameters.items())
        return (_optimizer_again, (type(self), parameters, self.chain, groups, self.state_dict()))

    def group(self, selection: str, **settings: Any) -> "Optimizer":
        """Gives the parameters that a selection matches ("*.bias", "axes>=2") separate settings."""
        self.regroup(selection, _settings(settings))
        return self

    def attr(self, name: str, /) -> Any:
        """A number, a tensor or a dict of tensors by parameter that a link has published, or None: attr("best_params")."""
        return attr_of(self, name)

    def __repr__(self) -> str:
        return f"<Optimizer {self.chain}: {len(self.parameters)} parameters, {self.steps} steps>"

    def _repr_html_(self) -> str:
        return f"{Chain(self.chain)._repr_html_()}<br>{len(self.parameters)} parameters, {self.steps} steps"


def joined(chain: tuple[Any, ...]) -> str:
    """Of text, a Chain, several of them, or a list."""
    parts = list(chain[0]) if len(chain) == 1 and isinstance(chain[0], (list, tuple)) else list(chain)
    if not parts:
        raise TypeError("Optimizer: a chain is needed")
    for part in parts:
        if not isinstance(part, (Chain, str)):
            raise TypeError(f"Optimizer: links are text or a Chain, not {type(part).__name__}")
    return " | ".join(part.text if isinstance(part, Chain) else part for part in parts)


def _written(value: Any) -> str:
    """A setting as text of a chain."""
    import json

    return json.dumps(value) if isinstance(value, (str, bool)) else "none" if value is None else repr(value)


def places(optimizer: _core._Optimizer, link: "str | Chain", who: str) -> list[str]:
    """Of the links with a name or place."""
    wanted, all_ = link.text.split("(")[0] if isinstance(link, Chain) else link, _core._optimizer_links(optimizer)
    found = [path for path, name in all_ if wanted in (path, name)]
    if not found:
        raise KeyError(f"{who}: no link '{wanted}' in the chain; there are {', '.join(path for path, _ in all_)}")
    return found


def reset_links(optimizer: _core._Optimizer, link: "str | Chain | None") -> None:
    """All state, or that of links by name or place."""
    for path in [None] if link is None else places(optimizer, link, "reset"):
        _core._optimizer_reset(optimizer, path)


class Attributes:
    """Values published by links, by name: numbers, tensors, and dicts of tensors by parameter."""

    def __init__(self, optimizer: _core._Optimizer, read: Callable[[str], Any] | None = None) -> None:
        self._optimizer = optimizer
        self._read = read if read is not None else lambda name: attr_of(optimizer, name)

    def _names(self) -> list[str]:
        import json

        texts = _core._optimizer_description(self._optimizer)
        known = json.loads(next(iter(texts.values())))
        names: dict[str, None] = {}
        params = list(self._optimizer.parameters)
        for name in [*known["attributes"], *known["attribute_tensors"]]:
            of = next((p for p in params if name.endswith("." + p)), None)
            names[name[:-len(of) - 1] if of is not None else name] = None
        return [name for name in names if self._read(name) is not None]

    def __getitem__(self, name: str) -> Any:
        found = self._read(name)
        if found is None:
            raise KeyError(name)
        return found

    def get(self, name: str, default: Any = None) -> Any:
        """A published value, or the default."""
        found = self._read(name)
        return default if found is None else found

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._read(name) is not None

    def __iter__(self) -> Iterator[str]:
        return iter(self._names())

    def __len__(self) -> int:
        return len(self._names())

    def keys(self) -> list[str]:
        """The names."""
        return self._names()

    def values(self) -> list[Any]:
        """What there is."""
        return [self[name] for name in self]

    def items(self) -> list[tuple[str, Any]]:
        """Names and what there is."""
        return [(name, self[name]) for name in self]

    def __repr__(self) -> str:
        return repr(dict(self.items()))


def _optimizer_again(cls: type[Optimizer], parameters: Any, chain: str, groups: Any, state: Any) -> Optimizer:
    if isinstance(parameters, list):
        named = dict(parameters)
        rest = [{"params": {n: named[n] for n in names}} for names, _ in groups] or named
        made = cls(rest if groups else named, chain)
    else:
        made = cls(parameters, chain)
    made.load_state_dict(state)
    for view, (_, settings) in zip(made.param_groups, groups):
        for key, value in settings.items():
            dict.__setitem__(view, key, value)
    return made


def attr_of(optimizer: _core._Optimizer, name: str) -> Any:
    found = _core._Optimizer.attr(optimizer, name)
    if found is not None:
        return found
    of_each = {p: _core._Optimizer.attr(optimizer, f"{name}.{p}") for p in optimizer.parameters}
    return {p: t for p, t in of_each.items() if t is not None} or None


def _named(tensors: Any, count: int) -> dict[str, Tensor]:
    if isinstance(tensors, Tensor):
        tensors = [tensors]
    named: dict[str, Tensor] = {}
    for p in tensors.items() if isinstance(tensors, dict) else tensors:
        name, p = p if isinstance(p, tuple) else (f"p{count + len(named)}", p)
        if not isinstance(p, Tensor):
            raise TypeError(_no_tensor(name, p))
        named[name] = p
    return named


def _no_tensor(name: Any, given: Any) -> str:
    kind = type(given)
    what = kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"
    hint = "; gradus.torch.Optimizer takes those" if kind.__module__.split(".")[0] == "torch" else ""
    return f"Optimizer: parameter '{name}' is to be a gradus.Tensor, a {what} was given{hint}"


def _groups_of(params: Any, module_type: type) -> list[tuple[dict[str, Any], dict[str, Tensor]]]:
    """[(settings, tensors by name)]"""
    if isinstance(params, module_type):
        return []
    if not isinstance(params, (Tensor, dict)):
        params = list(params)
        if params and isinstance(params[0], dict):
            groups: list[tuple[dict[str, Any], dict[str, Tensor]]] = []
            for group in params:
                if "params" not in group:
                    raise KeyError("Optimizer: a group is a dict with 'params' and settings")
                settings = {k: v for k, v in group.items() if k != "params"}
                groups.append((_settings(settings), _named(group["params"], sum(len(g[1]) for g in groups))))
            return groups
    return [({}, _named(params, 0))]
