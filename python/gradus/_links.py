"""Links and rules written in Python."""
from __future__ import annotations

from . import _core
from ._core import Context, Tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Iterator, Sequence, overload

    from ._optim import Chain
else:
    def overload(fn):
        return fn


class _Definition:
    """A link of Python: its name in chains, and its description for the library."""

    def __init__(self, name: str, summary: str, target: Any, settings: dict[str, Any], slots: tuple[str, ...], is_rule: bool = False,
                 has_step: bool = False, has_update: bool = False, uses_grad: bool = False, needs_closure: bool = False) -> None:
        self.name, self.summary, self.target, self.settings, self.slots = name, summary, target, settings, slots
        self.traits = is_rule, has_step, has_update, uses_grad, needs_closure

    def table(self) -> dict[str, Any]:
        """As _core.link_table gives it for those of the library."""
        kind = {bool: 4, str: 8, type(None): 33}  # none, or a chain
        fields = tuple((key, kind.get(type(value), 2), False, value, float("-inf"), float("inf"), False, None, False, "a setting")
                       for key, value in self.settings.items())
        return {"name": self.name, "family": "python", "summary": self.summary, "formula": None, "paper": None, "cost": None,
                "example": None, "fields": fields}


definitions: dict[str, _Definition] = {}


def known_in(context: Context) -> None:
    """The context knows every link of Python from here on."""
    for d in definitions.values():
        _core._register_link(context, d.name, d.summary, d.target, d.settings, d.slots, *d.traits)


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
        if value is not None and not isinstance(value, (bool, int, float, str)):
            raise TypeError(f"{name}: the setting '{key}' needs a default that is a number, a flag, a text, or None for links")
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
    if any(v is None or isinstance(v, str) for v in settings.values()):
        raise TypeError(f"{name}: settings of a rule are numbers or flags")

    def make(handle: Any, update: int) -> int:
        r = Rule(handle)
        given = {key: _core._rule_call(handle, "flag", (key,)) if isinstance(default, bool) else r._call("setting", key)
                 for key, default in settings.items()}
        return r._value(function(r, Value(r, update), **given))

    return _defined(name, summary=_summary(fn, name), target=make, settings=settings, slots=tuple(state), is_rule=True)


# ---- links of tensors ----

class Transform:
    """What update and apply of a link see: lists with a tensor for each parameter."""

    def __init__(self, handle: Any, tensors: list[Tensor], params: list[Tensor], grads: list[Tensor] | None, loss: Tensor | None) -> None:
        self._handle, self.tensors, self.params, self.grads, self.loss = handle, tensors, params, grads, loss

    def __len__(self) -> int:
        return len(self.tensors)

    @property
    def steps(self) -> int:
        """Steps that the link has done."""
        return _core._transform_steps(self._handle)

    def state(self, index: int, slot: str) -> Tensor:
        """A state tensor like the parameter, zeros at first; change it in place: assign()."""
        return _core._transform_state(self._handle, index, slot)

    def setting(self, name: str, index: int = 0) -> Any:
        """A setting in force for a parameter: its group's, its schedule's, or the link's."""
        return _core._transform_setting(self._handle, index, name)

    def child(self, setting: str, tensors: list[Tensor]) -> list[Tensor]:
        """What the links in that setting make of tensors; the same tensors where there are none."""
        return _core._transform_child(self._handle, setting, tensors)


class Var:
    """What step of a link sees: the parameters, loss, gradient and update of a step, and what may come of it."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle

    def _ask(self, name: str, *args: Any) -> Any:
        return _core._var_call(self._handle, name, args)

    def __len__(self) -> int:
        return len(self.params)

    @property
    def params(self) -> list[Tensor]:
        """The parameters."""
        return list(self._ask("params"))

    @property
    def names(self) -> list[str]:
        """Their names in the optimizer."""
        return list(self._ask("names"))

    @property
    def current_step(self) -> int:
        """Steps that the optimizer has done."""
        return int(self._ask("number"))

    @property
    def is_last(self) -> bool:
        """Is it the last link, or the last before lr?"""
        return bool(self._ask("flags")[0])

    @property
    def nested_is_last(self) -> bool:
        """The same for the last of children."""
        return bool(self._ask("flags")[1])

    @property
    def last_lrs(self) -> list[float] | None:
        """The learning rate of each parameter, where the next link is the last lr."""
        found: list[float] | None = self._ask("last_lrs")
        return found

    @property
    def has_closure(self) -> bool:
        """Was the step given one?"""
        return bool(self._ask("flags")[2])

    @property
    def stopped(self) -> bool:
        """Has a link said stop?"""
        return bool(self._ask("flags")[3])

    @property
    def known(self) -> set[str]:
        """Those of "loss", "grad", "update" that are known: reading a different one evaluates."""
        return {name for name, there in zip(("loss", "grad", "update"), self._ask("flags")[4:]) if there}

    def get_loss(self, backward: bool = True) -> Tensor:
        """The loss where the step begins, evaluated when first asked for; backward: with the gradient."""
        found: Tensor = self._ask("get_loss", backward)
        return found

    def get_grad(self) -> list[Tensor]:
        """The gradient there."""
        return list(self._ask("get_grad"))

    def get_update(self) -> list[Tensor]:
        """The update so far: the gradient where no link has set one."""
        return list(self._ask("get_update"))

    def set_update(self, update: list[Tensor] | None) -> None:
        """Another update; None forgets it."""
        self._ask("set_update", update)

    def set_grad(self, grad: list[Tensor] | None) -> None:
        """Another gradient; None forgets it."""
        self._ask("set_grad", grad)

    update = property(get_update, set_update, doc="The update so far; may be set.")
    grad = property(get_grad, set_grad, doc="The gradient; may be set.")

    def evaluate(self, backward: bool = True) -> tuple[Tensor, tuple[Tensor, ...] | None]:
        """Loss and gradients where the parameters are now."""
        loss, grads = self._ask("evaluate", backward)
        return loss, grads

    def evaluate_at(self, alpha: float, direction: list[Tensor]) -> float:
        """The loss at params + alpha direction; the parameters are back afterwards."""
        return float(self._ask("evaluate_at", alpha, direction))

    def move(self, alpha: float, direction: list[Tensor]) -> None:
        """params += alpha direction."""
        self._ask("move", alpha, direction)

    def hvp(self, vectors: list[Tensor]) -> tuple[Tensor, ...]:
        """Products with the Hessian."""
        return tuple(self._ask("hvp", vectors))

    def hessian(self) -> Tensor:
        """The Hessian over all parameters, [n, n]."""
        found: Tensor = self._ask("hessian")
        return found

    def stop(self) -> None:
        """No further links at this level."""
        self._ask("stop")

    def skip_update(self) -> None:
        """The parameters stay as they are: the link has set them itself."""
        self._ask("skip_update")

    def terminate(self, yes: bool = True) -> None:
        """The optimizer's should_terminate."""
        self._ask("terminate", yes)

    def set_attr(self, name: str, value: float | Tensor) -> None:
        """A number or tensor for the user: Optimizer.attr(name)."""
        self._ask("set_attr", name, value)

    def storage(self, name: str, otherwise: Any = None) -> Any:
        """What the step was given, or a link before has left."""
        found = self._ask("storage", name)
        return otherwise if found is None else found

    def set_storage(self, name: str, value: float | Tensor) -> None:
        """For links later in the step."""
        self._ask("set_storage", name, value)

    def state(self, index: int, slot: str) -> Tensor:
        """A state tensor like the parameter, zeros at first; change it in place: assign()."""
        found: Tensor = self._ask("state", index, slot)
        return found

    def setting(self, name: str, index: int = 0) -> Any:
        """A setting in force for a parameter: its group's, its schedule's, or the link's."""
        return self._ask("setting", index, name)

    def child(self, setting: str) -> list[Tensor] | None:
        """The update that the links in that setting make of the one that is there, in a step of theirs; None: there are no links."""
        found: list[Tensor] | None = self._ask("child", setting)
        return found

    def after_step(self, fn: "Callable[[Var], Any]") -> None:
        """fn(var) runs once the parameters of this step are set; where it raises, they are as before the step."""
        self._ask("after_step", lambda handle: fn(Var(handle)))


@overload
def link(cls: type, *, state: Sequence[str] = (), uses_grad: bool = False, needs_closure: bool = False) -> Callable[..., Chain]: ...
@overload
def link(cls: None = None, *, state: Sequence[str] = (), uses_grad: bool = False,
         needs_closure: bool = False) -> Callable[[type], Callable[..., Chain]]: ...
def link(cls: type | None = None, *, state: Sequence[str] = (), uses_grad: bool = False, needs_closure: bool = False) -> Any:
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

    apply returns the new update, a tensor for each of t.tensors, or None where it has changed them in place.  Its state is saved,
    loaded and moved like any other link's.  One object serves all links of the class, so what differs belongs into state: setting
    an attribute of self in these methods is a StateError.

    A link with step(self, var) may evaluate (needs_closure=True), stop, skip the update, run other links and leave hooks (Var):

        @gd.link
        class half_of:
            inner = None                                 # links, given as half_of(inner="adam")

            def step(self, var):
                var.update = [u * 0.5 for u in var.child("inner") or var.update]"""
    if cls is None:
        return lambda cls: link(cls, state=state, uses_grad=uses_grad, needs_closure=needs_closure)
    has_step = callable(getattr(cls, "step", None))
    if has_step == callable(getattr(cls, "apply", None)):
        raise TypeError(f"{cls.__name__}: a link needs a method apply(self, t), or one step(self, var)")
    settings = _checked({k: v for k, v in vars(cls).items() if not k.startswith("_") and not callable(v)}, cls.__name__)
    target = _Target(cls())
    return _defined(cls.__name__, summary=_summary(cls, cls.__name__), target=target, settings=settings, slots=tuple(state),
                    has_step=has_step, has_update=callable(getattr(cls, "update", None)), uses_grad=uses_grad, needs_closure=needs_closure)


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

    def __init__(self, link: Any) -> None:
        cls: Any = type(link)
        self.link, self._running = link, 0

        def set_attribute(link: Any, name: str, value: Any) -> None:
            if self._running:
                raise _not_here(cls.__name__, name)
            cls.__setattr__(link, name, value)

        def delete_attribute(link: Any, name: str) -> None:
            if self._running:
                raise _not_here(cls.__name__, name)
            cls.__delattr__(link, name)
        link.__class__ = type(cls.__name__, (cls,), {"__setattr__": set_attribute, "__delattr__": delete_attribute, "__slots__": (),
                                                     "__module__": cls.__module__, "__doc__": cls.__doc__})

    def _run(self, fn: Callable[..., Any], seen: Any) -> Any:
        before = _contents(self.link)
        self._running += 1
        try:
            with _no_grad():
                found = fn(seen)
        finally:
            self._running -= 1
        now = _contents(self.link) if before else before
        for key, held in before.items():
            if now.get(key) != held:
                raise _not_here(type(self.link).__name__, key)
        return found

    def _update(self, *what: Any) -> None:
        self._run(self.link.update, Transform(*what))

    def _step(self, handle: Any) -> None:
        self._run(self.link.step, Var(handle))

    def _apply(self, *what: Any) -> Any:
        return self._run(self.link.apply, Transform(*what))


def _no_grad() -> Any:
    from ._tensor import no_grad

    return no_grad()
