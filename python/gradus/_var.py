"""Interface of links written in Python: Transform (lists of tensors), Var (the whole step), Link (between steps)."""
from __future__ import annotations

from . import _core
from ._core import Tensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Iterator, Literal, Mapping, Sequence

    Method = Literal["autograd", "forward", "central"]

HOLDERS: Any = None  # optimizers by the address of the library's: see _optim.py


class State:
    """State of a link for one parameter, by the names that @gd.link(state=[...]) declares: a value is a tensor of any shape, or a
    number, which becomes a tensor without axes.  It is saved, loaded and copied with the optimizer."""

    __slots__ = ("_of", "_index")

    def __init__(self, of: "Link", index: int) -> None:
        self._of, self._index = of, index

    def __getitem__(self, slot: str) -> Tensor:
        if slot not in self:
            raise KeyError(slot)
        return self._of.state(self._index, slot)

    def __setitem__(self, slot: str, value: Any) -> None:
        self._of.set_state(self._index, slot, value)

    def __delitem__(self, slot: str) -> None:
        if slot not in self:
            raise KeyError(slot)
        self._of.set_state(self._index, slot, None)

    def __contains__(self, slot: object) -> bool:
        return isinstance(slot, str) and self._of.has_state(self._index, slot)

    def __iter__(self) -> Iterator[str]:
        return iter([slot for slot in self._of._ask("slots") if slot in self])

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def keys(self) -> list[str]:
        """Names of the existing state."""
        return list(self)

    def get(self, slot: str, default: Any = None) -> Any:
        """The value, or the default."""
        return self[slot] if slot in self else default

    def setdefault(self, slot: str, first: Any = None) -> Tensor:
        """What is there, or else `first` there: see Link.state."""
        return self._of.state(self._index, slot, first)

    def clear(self) -> None:
        """Forgets all of it."""
        for slot in list(self):
            del self[slot]

    def __repr__(self) -> str:
        return repr({slot: self[slot] for slot in self})


class Settings:
    """Settings of a link in force for one parameter: its group's, its schedule's, or the link's."""

    __slots__ = ("_of", "_index")

    def __init__(self, of: "Link", index: int) -> None:
        self._of, self._index = of, index

    def __getitem__(self, name: str) -> Any:
        if name not in self:
            raise KeyError(name)
        return self._of.setting(name, self._index)

    def __contains__(self, name: object) -> bool:
        return name in self._of._ask("settings")

    def __iter__(self) -> Iterator[str]:
        return iter(self._of._ask("settings"))

    def __len__(self) -> int:
        return len(self._of._ask("settings"))

    def keys(self) -> list[str]:
        """Their names."""
        return list(self)

    def get(self, name: str, default: Any = None) -> Any:
        """The setting, or the default where the link has none of that name."""
        return self[name] if name in self else default

    def __repr__(self) -> str:
        return repr({name: self[name] for name in self})


class GlobalState:
    """State of a link that belongs to no parameter: numbers and tensors by any names, saved with the optimizer."""

    __slots__ = ("_of",)

    def __init__(self, of: "Link") -> None:
        self._of = of

    def __getitem__(self, name: str) -> Any:
        found = self._of._ask("global", name)
        if found is None:
            raise KeyError(name)
        return found

    def __setitem__(self, name: str, value: float | Tensor) -> None:
        self._of._ask("set_global", name, value)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._of._ask("global", name) is not None

    def get(self, name: str, default: Any = None) -> Any:
        """The value, or the default."""
        found = self._of._ask("global", name)
        return default if found is None else found

    def setdefault(self, name: str, first: float | Tensor) -> Any:
        """What is there, or else `first`, put there."""
        if name not in self:
            self[name] = first
        return self[name]


class Named:
    """Numbers and tensors by name; called, it gives one or the default."""

    __slots__ = ("_get", "_set")

    def __init__(self, get: Callable[[str], Any], set: Callable[[str, Any], Any]) -> None:
        self._get, self._set = get, set

    def __call__(self, name: str, otherwise: Any = None) -> Any:
        found = self._get(name)
        return otherwise if found is None else found

    get = __call__

    def __getitem__(self, name: str) -> Any:
        found = self._get(name)
        if found is None:
            raise KeyError(name)
        return found

    def __setitem__(self, name: str, value: float | Tensor) -> None:
        self._set(name, value)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._get(name) is not None

    def update(self, values: Mapping[str, Any]) -> None:
        """Sets several."""
        for name, value in values.items():
            self[name] = value


class Child:
    """A link or chain in a setting of a link of Python."""

    __slots__ = {
        "_of": "", "_index": "", "setting": "The setting that it was given for.", "text": "The chain as text."
    }

    def __init__(self, of: "Link", index: int, setting: str, text: str) -> None:
        self._of, self._index, self.setting, self.text = of, index, setting, text

    def _run(self, what: str, var: "Var | None") -> "Var":
        on = var if var is not None else self._of
        if not isinstance(on, Var):
            raise TypeError(f"{what}: a Var is needed")
        self._of._ask("run_child", self._index, what, on._handle)
        return on

    def step(self, var: "Var | None" = None) -> "Var":
        """A step of it on a variable, a clone or the link's own, which it changes."""
        return self._run("step", var)

    def update(self, var: "Var | None" = None) -> "Var":
        """The half of a step that changes its state."""
        return self._run("update", var)

    def apply(self, var: "Var | None" = None) -> "Var":
        """The half of a step that sets the update."""
        return self._run("apply", var)

    def transform(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """What it makes of tensors, keyed by the parameters."""
        found: list[Tensor] = self._of._ask("child_transform", self._index, list(tensors))
        return found

    def get_H(self, var: "Var | None" = None) -> Tensor | None:
        """Its Hessian or approximation over all parameters [n, n]; None if it has none."""
        found: Tensor | None = self._of._ask("child_hessian", self._index, (var or self._of)._handle)
        return found

    def reset(self) -> None:
        """Clears its state."""
        self._of._ask("reset_child", self._index, False)

    def reset_for_online(self) -> None:
        """Clears its state that depends on the evaluation before."""
        self._of._ask("reset_child", self._index, True)

    def __repr__(self) -> str:
        return f"Child({self.setting}={self.text})"


class Link:
    """A link of Python: its state, settings and children.  reset and reset_for_online get one; Transform and Var are more."""

    _handle: Any

    def __init__(self, handle: Any) -> None:
        object.__setattr__(self, "_handle", handle)

    def _ask(self, name: str, *args: Any) -> Any:
        return _core._var_call(self._handle, name, args)

    def _first_value(self, index: int, first: Any) -> Any:
        raise TypeError(f"state: a number, a tensor or a function makes it first, not {first!r}")

    def state(self, index: int, slot: str, first: Any = None) -> Tensor:
        """State of a parameter, changed in place (assign) or by set_state.  At first zeros like the parameter, or `first`: a number
        everywhere, a copy of a tensor of any shape, "param", "grad", or a function of the parameter."""
        if isinstance(first, str) or callable(first) and not isinstance(first, Tensor):
            first = None if self.has_state(index, slot) else self._first_value(index, first)
        elif first is not None and not isinstance(first, (int, float, Tensor)):
            first = self._first_value(index, first)
        found: Tensor = self._ask("state", index, slot, first) if first is not None else self._ask("state", index, slot)
        return found

    def has_state(self, index: int, slot: str) -> bool:
        """Is there such state?"""
        return bool(self._ask("has_state", index, slot))

    def set_state(self, index: int, slot: str, value: Any) -> None:
        """Replaces state by a copy of a tensor or number of any shape; None forgets it."""
        if value is not None and not isinstance(value, Tensor):
            value = _core.tensor(value, dtype="f64")
        self._ask("set_state", index, slot, value)

    def setting(self, name: str, index: int = 0) -> Any:
        """A setting in force for a parameter: its group's, its schedule's, or the link's."""
        return self._ask("setting", index, name)

    @property
    def global_state(self) -> GlobalState:
        """State that belongs to no parameter: global_state["count"] = 3."""
        return GlobalState(self)

    @property
    def steps(self) -> int:
        """Updates that the link has done: of links with apply."""
        return int(self._ask("steps"))

    def children(self, setting: str | None = None) -> tuple[Child, ...]:
        """The links in a setting, or in all settings."""
        found = [Child(self, i, field, text) for i, (field, text) in enumerate(self._ask("children"))]
        return tuple(child for child in found if setting is None or child.setting == setting)


class Transform(Link):
    """The argument of update and apply of a link: lists with a tensor for each parameter."""

    def __init__(self, handle: Any, tensors: list[Tensor], params: list[Tensor], grads: list[Tensor] | None, loss: Tensor | None) -> None:
        super().__init__(handle)
        self.tensors, self.params, self.grads, self.loss = tensors, params, grads, loss
        self._var: Var | None = None

    def __len__(self) -> int:
        return len(self.tensors)

    def _first_value(self, index: int, first: Any) -> Any:
        return _made(first, self.params[index], lambda: self.grads[index] if self.grads else self.tensors[index])

    @property
    def states(self) -> list[State]:
        """The state of each parameter: states[0]["average"]."""
        return [State(self, i) for i in range(len(self))]

    @property
    def settings(self) -> list[Settings]:
        """The settings of each parameter: settings[0]["beta"]."""
        return [Settings(self, i) for i in range(len(self))]

    def child(self, setting: str, tensors: list[Tensor]) -> list[Tensor]:
        """What the links in that setting make of tensors; the same tensors where there are none."""
        found: list[Tensor] = self._ask("child_of_transform", setting, tensors)
        return found

    def random(self, distribution: str = "normal") -> list[Tensor]:
        """Random numbers like the parameters: normal, rademacher, uniform in [-1, 1], sphere."""
        return list(self._ask("random", distribution))

    @property
    def var(self) -> "Var":
        """The variable of the step."""
        if self._var is None:
            self._var = Var(self._handle)
        return self._var


def _made(first: Any, param: Tensor, grad: Callable[[], Tensor]) -> Any:
    if first == "param":
        return param
    if first == "grad":
        return grad()
    if callable(first):
        value = first(param)
        if isinstance(value, (int, float, Tensor)):
            return value
        raise TypeError(f"state: the function gave {value!r}, not a tensor or a number")
    raise TypeError(f"state: a number, a tensor, 'param', 'grad' or a function makes it first, not {first!r}")


class Closure:
    """The objective of a step where the parameters are now: closure() gives the loss and leaves its gradients on the parameters,
    closure(False) the loss alone."""

    __slots__ = ("_var", "_inner")

    def __init__(self, var: "Var") -> None:
        self._var, self._inner = var, False

    def __call__(self, backward: bool = True) -> Tensor:
        loss, grads = self._var._ask("inner_evaluate" if self._inner else "evaluate", backward)
        for p, g in zip(self._var.params, grads or ()):
            p.grad = g
        found: Tensor = loss
        return found


class Var(Link):
    """The argument of step of a link: the parameters, loss, gradient and update of a step, and ways to change it."""

    _closures: list[Closure]

    def __init__(self, handle: Any) -> None:
        super().__init__(handle)
        object.__setattr__(self, "_closures", [])

    def __len__(self) -> int:
        return len(self.params)

    def __setattr__(self, name: str, value: Any) -> None:
        act = {"stop": self.stop, "skip_update": self.skip_update}.get(name)
        if act is not None:
            if not value:
                raise AttributeError(f"'{name}' cannot be taken back")
            act()
        elif isinstance(getattr(type(self), name, None), property):
            object.__setattr__(self, name, value)
        else:
            raise AttributeError(f"a Var has no '{name}' to set; var.storage['{name}'] is for links later in the step")

    def _first_value(self, index: int, first: Any) -> Any:
        return _made(first, self.params[index], lambda: self.get_grad()[index])

    # ---- what the step is about ----

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
    def optimizer(self) -> Any:
        """The Optimizer; None inside minimize and fits."""
        return HOLDERS.get(self._ask("optimizer")) if HOLDERS is not None else None

    @property
    def model(self) -> Any:
        """The Module whose parameters the optimizer has; None if it was made of tensors."""
        optimizer = self.optimizer
        return None if optimizer is None else optimizer.model

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
        """Has a link requested the end?"""
        return bool(self._ask("flags")[3])

    @property
    def known(self) -> set[str]:
        """Those of "loss", "grad", "update" that are known: reading a different one evaluates."""
        return {name for name, there in zip(("loss", "grad", "update"), self._ask("flags")[4:]) if there}

    @property
    def states(self) -> list[State]:
        """The state of each parameter: states[0]["average"]."""
        return [State(self, i) for i in range(len(self))]

    @property
    def settings(self) -> list[Settings]:
        """The settings of each parameter: settings[0]["beta"]."""
        return [Settings(self, i) for i in range(len(self))]

    # ---- loss, gradient, update ----

    def get_loss(self, backward: bool = True) -> Tensor:
        """The loss at the start of the step, evaluated on first use; backward: with the gradient."""
        found: Tensor = self._ask("get_loss", backward)
        return found

    def get_grad(self, create_graph: bool = False) -> list[Tensor]:
        """The gradient there; create_graph: with its history, so that functions of it have gradients with regard to the parameters."""
        return list(self._ask("get_grad", create_graph))

    def get_update(self) -> list[Tensor]:
        """The update so far: the gradient where no link has set one."""
        return list(self._ask("get_update"))

    def set_update(self, update: list[Tensor] | None) -> None:
        """Replaces the update; None removes it."""
        self._ask("set_update", update)

    def set_grad(self, grad: list[Tensor] | None) -> None:
        """Replaces the gradient; None removes it."""
        self._ask("set_grad", grad)

    update = property(get_update, set_update, doc="The update so far; may be set.")
    grad = property(get_grad, set_grad, doc="The gradient; may be set.")

    @property
    def loss(self) -> Tensor | None:
        """The loss where the step begins, if it is known; may be set."""
        found: Tensor | None = self._ask("known_loss", False)
        return found

    @loss.setter
    def loss(self, value: Tensor | float | None) -> None:
        self._ask("set_loss", value, False)

    @property
    def loss_approx(self) -> Tensor | None:
        """A loss near that point, if one is known; may be set."""
        found: Tensor | None = self._ask("known_loss", True)
        return found

    @loss_approx.setter
    def loss_approx(self, value: Tensor | float | None) -> None:
        self._ask("set_loss", value, True)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forgets the gradients on the parameters, not the gradient of the step; set_to_none False: sets those there to zero."""
        self._ask("zero_grad", not set_to_none)

    # ---- evaluations ----

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

    def hvp(self, vectors: list[Tensor], method: Method = "autograd", h: float = 1e-3, normalize: bool = False) -> tuple[Tensor, ...]:
        """Products with the Hessian: exact, or by one-sided ("forward") or central differences of gradients with steps h, normalize:
        along the vector scaled to length 1."""
        return tuple(self._ask("hvp", vectors, method, h, normalize))

    def hessian(self) -> Tensor:
        """The Hessian over all parameters, [n, n]."""
        found: Tensor = self._ask("hessian")
        return found

    @property
    def closure(self) -> Closure | None:
        """The objective where the parameters are now, a function closure(backward=True); None without one.  Assigning a function
        fn(backward) changes it for the links after this one: it may call the old one, and leaves gradients on the parameters."""
        if not self.has_closure:
            return None
        self._closures.append(Closure(self))
        found: Closure = self._closures[-1]
        return found

    @closure.setter
    def closure(self, fn: Callable[..., Any]) -> None:
        from ._optim import takes_backward

        takes, below = takes_backward(fn), list(self._closures)

        def changed(handle: Any, backward: bool) -> tuple[Any, list[Tensor] | None]:
            var = Var(handle)
            params = var.params
            before = [p.grad for p in params]
            inside = [c._var for c in below]
            for c in below:
                c._var = var
            for p in params:
                p.grad = None
            try:
                loss = fn(backward) if takes else fn()
                return loss, [_core.zeros_like(p) if p.grad is None else p.grad for p in params] if backward else None
            finally:
                for c, of in zip(below, inside):
                    c._var = of
                for p, g in zip(params, before):
                    p.grad = g
        self._ask("wrap_closure", changed)
        for c in below:  # they stay the objective as it was
            c._inner = True
        self._closures.clear()

    def reformulate(self, fn: Callable[[Tensor], Tensor]) -> None:
        """The links after this one minimise fn(loss), made of operators: products with the Hessian are of that, too."""
        self._ask("reformulate", fn)

    # ---- what comes of it ----

    def stop(self) -> None:
        """No further links at this level."""
        self._ask("stop")

    def skip_update(self) -> None:
        """The parameters stay as they are: the link has set them itself."""
        self._ask("skip_update")

    def terminate(self, yes: bool = True) -> None:
        """The optimizer's should_terminate."""
        self._ask("terminate", yes)

    should_terminate = property(None, terminate, doc="Assigned: the optimizer's should_terminate.")

    def set_attr(self, name: str, value: float | Tensor) -> None:
        """A number or tensor for the user: Optimizer.attr(name)."""
        self._ask("set_attr", name, value)

    @property
    def attrs(self) -> Named:
        """Numbers and tensors for the user, Optimizer.attrs: attrs["best"] = 3."""
        return Named(lambda name: self._ask("attr", name), self.set_attr)

    @property
    def storage(self) -> Named:
        """What the step was given, or a link before has left: storage["temperature"], storage("temperature", 1.0); may be set."""
        return Named(lambda name: self._ask("storage", name), self.set_storage)

    def set_storage(self, name: str, value: float | Tensor) -> None:
        """For links later in the step."""
        self._ask("set_storage", name, value)

    def child(self, setting: str) -> list[Tensor] | None:
        """The result of a step of the links in that setting on the present update; None: there are no links."""
        found: list[Tensor] | None = self._ask("child", setting)
        return found

    def clone(self, clone_update: bool = True, parent: "Var | None" = None) -> "Var":
        """A copy for a child's step, until this step ends: it shares parameters, closure, loss, gradient, attributes and storage, and
        the update if clone_update is False."""
        return Var(self._ask("clone", clone_update, None if parent is None else parent._handle))

    def update_attrs_from_clone(self, clone: "Var") -> None:
        """Takes loss, gradient and should_terminate of a clone if they are not known here."""
        self._ask("take", clone._handle)

    @property
    def parent(self) -> "Var | None":
        """The variable that this one is a clone of, for a child in a space of its own; None: the step's."""
        handle = self._ask("parent")
        return None if handle is None else Var(handle)

    def random(self, distribution: str = "normal") -> list[Tensor]:
        """Random numbers like the parameters: normal, rademacher, uniform in [-1, 1], sphere."""
        return list(self._ask("random", distribution))

    def after_step(self, fn: "Callable[[Var], Any]") -> None:
        """fn(var) runs after the parameters of this step are set; if it raises, they are restored."""
        self._ask("after_step", lambda handle: fn(Var(handle)))
