"""Links and rules written in Python."""
from __future__ import annotations

from _thread import get_ident

from . import _core
from ._core import Context
from ._var import Link, Transform, Var

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Sequence, overload

    from ._optim import Chain
else:
    def overload(fn):
        return fn


# what a link is and has: python/src/optim/links.c has the same list
TRAITS = {name: 1 << bit for bit, name in enumerate((
    "rule", "step", "update", "apply", "uses_grad", "uses_loss", "needs_closure", "get_H", "reset", "reset_for_online", "pre_step",
    "post_step", "concat_params"))}
TARGETS = ("update", "grad", "closure", "params_direct", "params_difference", "update_difference")


class _Definition:
    """A link of Python: its name in chains, and its description for the library."""

    def __init__(self, name: str, summary: str, target: Any, settings: dict[str, Any], slots: tuple[str, ...], traits: int,
                 online: tuple[str, ...] = ()) -> None:
        self.name, self.summary, self.target, self.settings, self.slots = name, summary, target, settings, slots
        self.traits, self.online = traits, online

    def table(self) -> dict[str, Any]:
        """As _core.link_table gives it for those of the library."""
        kind = {bool: 4, str: 8, type(None): 33, tuple: 32}  # none, or a chain
        fields = tuple((key, 3 if key == "seed" else kind.get(type(value), 2), False, None if value == () else value, float("-inf"),
                        float("inf"), False, None, isinstance(value, tuple), "a setting") for key, value in self.settings.items())
        return {"name": self.name, "family": "python", "summary": self.summary, "formula": None, "paper": None, "cost": None,
                "example": None, "fields": fields}


definitions: dict[str, _Definition] = {}


def known_in(context: Context) -> None:
    """The context knows every link of Python from here on."""
    for d in definitions.values():
        _core._register_link(context, d.name, d.summary, d.target, d.settings, d.slots, d.online, d.traits)


def _defined(name: str, **what: Any) -> Callable[..., Chain]:
    from ._optim import make_link

    taken, number = {*_core.link_names(), *definitions}, 1
    chosen = name
    while chosen in taken:  # a cell of a notebook that is run again
        number += 1
        chosen = f"{name}_{number}"
    definitions[chosen] = _Definition(chosen, **what)
    try:
        known_in(_core.current_context())
    except _core.Error:
        del definitions[chosen]
        raise
    fn = make_link(chosen)
    assert fn is not None
    return fn


def _summary(target: Any, name: str) -> str:
    text = (target.__doc__ or "").strip()
    return text.splitlines()[0].rstrip(".") if text else f"{name}, written in Python"


def _checked(settings: dict[str, Any], name: str) -> dict[str, Any]:
    for key, value in settings.items():
        if value is not None and value != () and not isinstance(value, (bool, int, float, str)):
            raise TypeError(f"{name}: the setting '{key}' needs a default that is a number, a flag, a text, None for links, or () for one or "
                            "more")
    if settings.get("target", "update") not in TARGETS:
        raise ValueError(f"{name}: target is one of {', '.join(TARGETS)}, not {settings['target']!r}")
    for key, kind in (("update_freq", int), ("concat_params", bool)):
        if key in settings and type(settings[key]) is not kind:
            raise TypeError(f"{name}: '{key}' is {'a flag' if kind is bool else 'a whole number'}, not {settings[key]!r}")
    if settings.get("update_freq", 1) < 1:
        raise ValueError(f"{name}: 'update_freq' is 1 or more")
    return settings


# ---- rules ----

class Value:
    """A number in a rule: an element of the tensors at hand, or the same for a whole tensor."""

    __slots__ = ("_rule", "_number")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, rule: "Rule", number: int) -> None:
        self._rule, self._number = rule, number

    def __bool__(self) -> bool:
        raise TypeError("a value of a rule is not known when the rule is made: r.where(condition, a, b) chooses")

    def __add__(self, other: Any) -> "Value":
        return self._rule._two("add", self, other)

    def __radd__(self, other: Any) -> "Value":
        return self._rule._two("add", other, self)

    def __sub__(self, other: Any) -> "Value":
        return self._rule._two("sub", self, other)

    def __rsub__(self, other: Any) -> "Value":
        return self._rule._two("sub", other, self)

    def __mul__(self, other: Any) -> "Value":
        return self._rule._two("mul", self, other)

    def __rmul__(self, other: Any) -> "Value":
        return self._rule._two("mul", other, self)

    def __truediv__(self, other: Any) -> "Value":
        return self._rule._two("div", self, other)

    def __rtruediv__(self, other: Any) -> "Value":
        return self._rule._two("div", other, self)

    def __pow__(self, other: Any) -> "Value":
        if isinstance(other, (int, float)) and other == 2:
            return self._rule._one("square", self)
        return self._rule._two("pow", self, other)

    def __rpow__(self, other: Any) -> "Value":
        return self._rule._two("pow", other, self)

    def __neg__(self) -> "Value":
        return self._rule._one("neg", self)

    def __abs__(self) -> "Value":
        return self._rule._one("abs", self)

    def __lt__(self, other: Any) -> "Value":
        return self._rule._two("lt", self, other)

    def __le__(self, other: Any) -> "Value":
        return self._rule._two("le", self, other)

    def __gt__(self, other: Any) -> "Value":
        return self._rule._two("gt", self, other)

    def __ge__(self, other: Any) -> "Value":
        return self._rule._two("ge", self, other)

    def __eq__(self, other: Any) -> "Value":  # type: ignore[override]
        return self._rule._two("eq", self, other)

    def __ne__(self, other: Any) -> "Value":  # type: ignore[override]
        return self._rule._two("ne", self, other)

    def __getattr__(self, name: str) -> "Callable[[], Value]":
        if name in ONE:
            return lambda: self._rule._one(name, self)
        raise AttributeError(f"a value of a rule has no '{name}'")


ONE, TWO = _core._rule_functions()  # every operator of real numbers


class Rule:
    """What a rule asks while it is made: state, the step, reductions, functions of values (r.sqrt(x), r.where(c, a, b)): those of
    tensors of real numbers, by their names."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle

    def _call(self, name: str, *args: Any) -> Value:
        return Value(self, _core._rule_call(self._handle, name, args))

    def _value(self, x: Any) -> int:
        if isinstance(x, Value):
            return x._number
        return int(_core._rule_call(self._handle, "const", (float(x),)))

    def _one(self, name: str, a: Any) -> Value:
        return self._call(name, self._value(a))

    def _two(self, name: str, a: Any, b: Any) -> Value:
        return self._call(name, self._value(a), self._value(b))

    def __getattr__(self, name: str) -> Callable[..., Value]:
        if name in ONE:
            return lambda a: self._one(name, a)
        if name in TWO:
            return lambda a, b: self._two(name, a, b)
        raise AttributeError(f"rules have no '{name}'")

    @property
    def param(self) -> Value:
        """The parameter."""
        return self._call("param")

    @property
    def grad(self) -> Value:
        """The gradient, whatever the update has become."""
        return self._call("grad")

    @property
    def step(self) -> Value:
        """Steps of this link for this parameter, from 1."""
        return self._call("step")

    @property
    def numel(self) -> Value:
        """Elements of the tensor."""
        return self._call("numel")

    def state(self, slot: str, first: Any = None) -> Value:
        """A slot of state: 0 (or `first`) at first."""
        return self._call("state", slot) if first is None else self._call("state_or", slot, self._value(first))

    def set(self, slot: str, value: Any) -> None:
        """Sets a slot."""
        _core._rule_call(self._handle, "set", (slot, self._value(value)))

    def average(self, slot: str, x: Any, beta: Any) -> Value:
        """slot = beta slot + (1 - beta) x; gives the new average."""
        return self._call("average", slot, self._value(x), self._value(beta))

    def bias(self, beta: Any) -> Value:
        """1 - beta^step: what an average that starts at 0 is divided by."""
        return self._one("bias", beta)

    def where(self, condition: Any, a: Any, b: Any) -> Value:
        """a where the condition is not 0, else b."""
        return self._call("where", self._value(condition), self._value(a), self._value(b))

    def lerp(self, a: Any, b: Any, weight: Any) -> Value:
        """a + weight (b - a)."""
        return self._call("lerp", self._value(a), self._value(b), self._value(weight))

    def clamp(self, x: Any, low: Any, high: Any) -> Value:
        """min(max(x, low), high)."""
        return self._call("clamp", self._value(x), self._value(low), self._value(high))

    def minimum(self, a: Any, b: Any) -> Value:
        """The smaller."""
        return self._two("min", a, b)

    def maximum(self, a: Any, b: Any) -> Value:
        """The larger."""
        return self._two("max", a, b)

    def copysign(self, a: Any, b: Any) -> Value:
        """|a| with the sign of b."""
        return self._two("copysign", a, b)

    def sum(self, x: Any, all: bool = False) -> Value:
        """Over the tensor, or over all parameters together."""
        return self._call("sum", self._value(x), int(all))

    def largest(self, x: Any, all: bool = False) -> Value:
        """The largest of the tensor, or of all parameters together."""
        return self._call("max_over", self._value(x), int(all))

    def norm(self, x: Any, p: float = 2.0, all: bool = False) -> Value:
        """(sum |x|^p)^(1/p) over the tensor, or over all parameters together."""
        return self._call("norm", self._value(x), float(p), all)

    def uniform(self) -> Value:
        """A random number in [0, 1) an element, new every step."""
        return self._call("random", 0)

    def normal(self) -> Value:
        """A random number of the standard normal distribution an element, new every step."""
        return self._call("random", 1)


@overload
def rule(fn: Callable[..., Any], *, state: Sequence[str] = ()) -> Callable[..., Chain]: ...
@overload
def rule(fn: None = None, *, state: Sequence[str] = ()) -> Callable[[Callable[..., Any]], Callable[..., Chain]]: ...
def rule(fn: Callable[..., Any] | None = None, *, state: Sequence[str] = ()) -> Any:
    """An element-wise link from a function that says what it computes.

        @gd.rule(state=["velocity"])
        def my_momentum(r, update, beta=0.9):
            v = beta * r.state("velocity") + update
            r.set("velocity", v)
            return v

        gd.Optimizer([w], my_momentum(0.8) | gd.m.lr(0.1))

    The function is called once with symbolic values; the library compiles what comes out and runs it in one pass over memory with
    its neighbours, on the CPU and on GPUs.  Further parameters are settings: numbers are values, which groups and schedules may
    change from step to step, flags are what they are."""
    if fn is None:
        return lambda fn: rule(fn, state=state)
    import inspect

    name, function = fn.__name__ if fn.__name__.isidentifier() else "python_rule", fn
    parameters = list(inspect.signature(fn).parameters.values())[2:]
    if any(p.default is p.empty for p in parameters):
        raise TypeError(f"{name}: settings of a rule need defaults")
    settings = _checked({p.name: p.default for p in parameters}, name)
    if any(v is None or isinstance(v, (str, tuple)) for key, v in settings.items() if key != "target"):
        raise TypeError(f"{name}: settings of a rule are numbers or flags, and target")
    for key in ("update_freq", "concat_params", "seed"):
        if key in settings:
            raise TypeError(f"{name}: '{key}' is for links with update and apply, gd.link")

    def make(handle: Any, update: int) -> int:
        r = Rule(handle)
        given = {key: _core._rule_call(handle, "flag", (key,)) if isinstance(default, bool) else r._call("setting", key)
                 for key, default in settings.items() if key != "target"}
        return r._value(function(r, Value(r, update), **given))

    return _defined(name, summary=_summary(fn, name), target=make, settings=settings, slots=tuple(state), traits=TRAITS["rule"])


# ---- links of tensors, and of steps ----

@overload
def link(cls: type, *, state: Sequence[str] = (), online: Sequence[str] = (), uses_grad: bool = False, uses_loss: bool = False,
         needs_closure: bool = False) -> Callable[..., Chain]: ...
@overload
def link(cls: None = None, *, state: Sequence[str] = (), online: Sequence[str] = (), uses_grad: bool = False, uses_loss: bool = False,
         needs_closure: bool = False) -> Callable[[type], Callable[..., Chain]]: ...
def link(cls: type | None = None, *, state: Sequence[str] = (), online: Sequence[str] = (), uses_grad: bool = False,
         uses_loss: bool = False, needs_closure: bool = False) -> Any:
    """A link from a class with apply(self, t) and, if it likes, update(self, t); or with step(self, var).

        @gd.link(state=["average"])
        class my_ema:
            beta = 0.9                                   # settings: attributes that are numbers, flags or texts

            def update(self, t):
                for i, u in enumerate(t.tensors):
                    a = t.state(i, "average")
                    a.assign(a + (1 - t.setting("beta", i)) * (u - a))

            def apply(self, t):
                return [t.state(i, "average") for i in range(len(t))]

    apply returns the new update, a tensor for each of t.tensors, or None where it has changed them in place.  In place of both,
    update_tensor and apply_tensor(self, tensor, param, grad, loss, state, setting) are called for each parameter, and update_tensors and
    apply_tensors with lists.  uses_grad and uses_loss: t.grads and t.loss are there.

    Settings with these names are the library's: target ("update", "grad", "closure", "params_direct", "params_difference",
    "update_difference"), update_freq (update at every n-th step), concat_params (all parameters as one vector), inner (None: links that
    the tensors pass between update and apply), seed (for t.random).  Other settings whose default is None take links, () one or
    more.  self.beta is t.setting("beta") in these methods.

    State is saved, loaded and moved like any other link's; state=[...] of parameters, online=[...] those of it that reset_for_online
    forgets, global_state the rest.  One object serves all links of the class, so what differs belongs into state: setting
    an attribute of self in these methods is a StateError.

    A link with step(self, var) may evaluate (needs_closure=True), stop, skip the update, change the closure, run other links and leave
    hooks (Var); update(self, var) and apply(self, var) beside it are its halves:

        @gd.link
        class half_of:
            inner = None                                 # links, given as half_of(inner="adam")

            def step(self, var):
                var.update = [u * 0.5 for u in var.child("inner") or var.update]

    Each may have get_H(self, var), which gives links around it a Hessian over all parameters, a Tensor [n, n], its diagonal [n], a pair
    (U, s) for U diag(s) U^T, or a function for products; reset(self, link) and reset_for_online(self, link), called after the state is
    cleared; pre_step(self, var) and post_step(self, var)."""
    if cls is None:
        return lambda cls: link(cls, state=state, online=online, uses_grad=uses_grad, uses_loss=uses_loss, needs_closure=needs_closure)
    name = cls.__name__
    has = {key for key in ("step", "update", "apply", "update_tensor", "apply_tensor", "update_tensors", "apply_tensors", "get_H", "reset",
                           "reset_for_online", "pre_step", "post_step") if callable(getattr(cls, key, None))}
    applies = has & {"apply", "apply_tensor", "apply_tensors"}
    if "step" in has and (applies - {"apply"} or applies and "update" not in has) or len(applies - {"apply" if "step" in has else ""}) > 1 \
            or not has & {"step", *applies}:
        raise TypeError(f"{name}: a link needs a method apply(self, t), or one step(self, var)")
    settings = _checked(_settings_of(cls), name)
    known = {"target", "update_freq", "concat_params"} & settings.keys()
    if known and "step" in has:
        raise TypeError(f"{name}: '{known.pop()}' is for links with apply, not with step")
    if stray := set(online) - set(state):
        raise ValueError(f"{name}: online names state, and '{stray.pop()}' is none")
    half = next(iter(applies), "apply").replace("apply", "update")
    if {"update", "update_tensor", "update_tensors"} & has - {half}:
        raise TypeError(f"{name}: beside {next(iter(applies))} stands {half}")
    if "update_freq" in settings and half not in has:
        raise TypeError(f"{name}: 'update_freq' says when update runs, and there is none")
    is_: set[str] = (has & TRAITS.keys()) | ({"update"} if half in has else set()) | ({"concat_params"} & settings.keys())
    is_ |= {key for key, on in (("uses_grad", uses_grad), ("uses_loss", uses_loss), ("needs_closure", needs_closure)) if on}
    return _defined(name, summary=_summary(cls, name), target=_Target(cls(), settings), settings=settings, slots=tuple(state),
                    online=tuple(online), traits=sum(TRAITS[key] for key in is_))


def _settings_of(cls: type) -> dict[str, Any]:
    """Attributes of the class and of those it is made of; [] is ()."""
    found: dict[str, Any] = {}
    for base in reversed(cls.__mro__[:-1]):
        found.update({k: () if isinstance(v, list) and not v else v for k, v in vars(base).items()
                      if not k.startswith("_") and not callable(v) and not hasattr(v, "__get__")})
    return found


def _not_here(name: str, attribute: str) -> _core.StateError:
    return _core.StateError(f"{name}: 'self.{attribute}' would be shared by all optimizers and not be saved: state belongs to the "
                            f"optimizer, @gd.link(state=[{attribute!r}]) and state(i, {attribute!r})")


def _contents(link: Any) -> dict[str, tuple[Any, ...]]:
    """What lists, dicts and sets of an object hold, to see whether they are used as state."""
    found = {k: v for base in reversed(type(link).__mro__) for k, v in vars(base).items() if not k.startswith("__")}
    found.update(getattr(link, "__dict__", {}))
    return {key: tuple(id(part) for pair in value.items() for part in pair) if isinstance(value, dict) else tuple(map(id, value))
            for key, value in found.items() if isinstance(value, (list, dict, set))}


class _Target:
    """The object behind all links of a class, which no step changes."""

    def __init__(self, link: Any, settings: dict[str, Any]) -> None:
        cls: Any = type(link)
        self.link = link
        self._seen: dict[int, list[Link]] = {}  # what the running methods see, by thread
        self._each = next((name for name in ("tensors", "tensor") if hasattr(cls, f"apply_{name}")), "")

        def set_attribute(link: Any, name: str, value: Any) -> None:
            if self._now() is not None:
                raise _not_here(cls.__name__, name)
            object.__setattr__(link, name, value) if name in settings else cls.__setattr__(link, name, value)

        def delete_attribute(link: Any, name: str) -> None:
            if self._now() is not None:
                raise _not_here(cls.__name__, name)
            cls.__delattr__(link, name)
        reads = {name: self._reads(name, value) for name, value in settings.items() if value is not None and value != ()}
        link.__class__ = type(cls.__name__, (cls,), {**reads, "__setattr__": set_attribute, "__delattr__": delete_attribute,
                                                     "__slots__": (), "__module__": cls.__module__, "__doc__": cls.__doc__})

    def _reads(self, name: str, default: Any) -> property:
        """self.NAME is the setting in force in methods of a step."""
        def get(link: Any) -> Any:
            seen = self._now()
            if seen is None or name in link.__dict__:
                return link.__dict__.get(name, default)
            value = seen.setting(name, -1)
            return int(value) if type(default) is int and value == int(value) else value

        def set(link: Any, value: Any) -> None:
            link.__dict__[name] = value
        return property(get, set)

    def _now(self) -> Link | None:
        seen = self._seen.get(get_ident())
        return seen[-1] if seen else None

    def _run(self, fn: Callable[..., Any], seen: Link) -> Any:
        before, thread = _contents(self.link), get_ident()
        self._seen.setdefault(thread, []).append(seen)
        try:
            with _no_grad():
                found = fn(seen)
        finally:
            running = self._seen[thread]
            running.pop()
            if not running:
                del self._seen[thread]
        now = _contents(self.link) if before else before
        for key, held in before.items():
            if now.get(key) != held:
                raise _not_here(type(self.link).__name__, key)
        return found

    def _of_lists(self, what: str) -> Callable[[Transform], Any]:
        """update or apply of a link that has those of each tensor, or of lists."""
        method = getattr(self.link, f"{what}_{self._each}")
        if self._each == "tensors":
            return lambda t: method(t.tensors, t.params, t.grads, t.loss, t.states, t.settings)

        def run(t: Transform) -> Any:
            grads: list[Any] = list(t.grads) if t.grads else [None] * len(t)
            return [method(x, p, g, t.loss, state, setting)
                    for x, p, g, state, setting in zip(t.tensors, t.params, grads, t.states, t.settings)]
        return run

    def _update(self, *what: Any) -> None:
        self._run(self._of_lists("update") if self._each else self.link.update, Transform(*what))

    def _apply(self, *what: Any) -> Any:
        found = self._run(self._of_lists("apply") if self._each else self.link.apply, Transform(*what))
        return found if found is None or isinstance(found, (list, tuple)) else list(found)

    def _step(self, handle: Any) -> None:
        self._run(self.link.step, Var(handle))

    def _link_update(self, handle: Any) -> None:
        self._run(self.link.update, Var(handle))

    def _link_apply(self, handle: Any) -> None:
        self._run(self.link.apply, Var(handle))

    def _get_H(self, handle: Any) -> Any:
        return self._run(self.link.get_H, Var(handle))

    def _pre_step(self, handle: Any) -> None:
        self._run(self.link.pre_step, Var(handle))

    def _post_step(self, handle: Any) -> None:
        self._run(self.link.post_step, Var(handle))

    def _reset(self, handle: Any) -> None:
        self._run(self.link.reset, Link(handle))

    def _reset_for_online(self, handle: Any) -> None:
        self._run(self.link.reset_for_online, Link(handle))


def _no_grad() -> Any:
    from ._tensor import no_grad

    return no_grad()
