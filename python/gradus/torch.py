"""Chains of gradus as optimizers of PyTorch.

    import torch, gradus.torch

    optimizer = gradus.torch.Optimizer(model.parameters(), "clip_norm(1) | adam | lr(1e-3)")
    loss.backward()
    optimizer.step()

Parameters and gradients are used where they lie.  Groups are read at every step, so that torch's schedulers work; state
dicts have torch's format, and those of torch's own Adam and AdamW load.  Parameters without a gradient are left out of a step.
A step inside torch.compile is a break of its graph; graphs of CUDA cannot record one.
"""
# mypy: disable-error-code="attr-defined, union-attr"
from __future__ import annotations

import json
import sys
import warnings
from collections import OrderedDict, defaultdict
from typing import Any, Callable

import torch  # type: ignore[import-not-found, unused-ignore]
from torch.optim import optimizer as _base  # type: ignore[import-not-found, unused-ignore]

from . import _core
from ._optim import Attributes, Chain, Selections, _has_functions, attr_of, holders, joined, reset_links, takes_backward
from ._torch.closure import Evaluations, Nothing, SumOfSquares
from ._torch.wrap import Wrap

__all__ = ["Optimizer", "Wrap"]

# what schedulers, torch and its wrappers put into groups for themselves
_OTHERS = {"params", "param_names", "chain", "initial_lr", "max_lr", "min_lr", "base_lr", "swa_lr", "max_momentum", "base_momentum",
           "foreach", "fused"}
# what torch's own optimizers do where it is true
_REFUSED = {"maximize": "begin the chain with mul(-1)", "capturable": "graphs of CUDA cannot hold a step",
            "differentiable": "a step has no gradient"}


class _Link:
    """A link of the chain: its number among all, parents first."""

    def __init__(self, number: int, row: tuple[str, str, tuple[str, ...], dict[str, float], bool, bool, bool]) -> None:
        self.number = number
        self.path, self.name, self.slots, self.numbers, self.needs_closure, self.is_local, self.acts_first = row


class Optimizer(torch.optim.Optimizer):  # type: ignore[misc, unused-ignore]
    """Steps of a chain over parameters of PyTorch.

    params    as for any optimizer of torch: tensors, pairs of name and tensor, or groups; or a module, for all it has
    chain     text or links: "clip_norm(1) | adam | lr(1e-3)", gradus.m.adam() | gradus.m.lr(1e-3), also one by one or as a list
    settings  numbers for all groups: lr=1e-3, betas=(0.9, 0.99)

    A group has every number of the chain: lr (1 where the chain has no such link: it scales the update; with 0 nothing moves),
    betas, momentum and the rest by their names, or as LINK.name where several links have one.

    step(closure) evaluates as often as the links ask for.  closure() computes the loss and its gradients; one that takes
    `backward` is called with False where the loss alone is wanted, and chains that need products with the Hessian get
    those of torch's autograd.  step(residuals=f) minimises the sum of squares of the tensor f() by the links of least squares, which
    get its Jacobian, or by any other; f leaves all derivatives to torch's autograd."""

    def __init__(self, params: Any, *chain: Any, foreach: bool | None = None, fused: bool | None = None, **settings: Any) -> None:
        del foreach, fused  # everything is
        for key in _REFUSED:
            _refuse(key, settings.pop(key, None))
        text = _with_lr(Chain(joined((settings.pop("chain"),) if not chain and "chain" in settings else chain)).text)
        self._model = params if isinstance(params, torch.nn.Module) else None
        self._chain = text
        self._core = _core._Optimizer(_core.current_context(), text)
        holders[self._core._handle] = self
        self._selections = Selections(self._core)
        self._lent = _core._Borrower(self._core, torch.Tensor, torch.autograd.graph.increment_version)
        self._links = [_Link(i, row) for i, row in enumerate(self._lent.links())]
        self._keys, defaults = _group_keys(self._links)
        self._slots = _slot_names(self._links)
        self._needs_closure = any(link.needs_closure for link in self._links)
        self._acts_first = [link.name for link in self._links if link.acts_first]  # before the objective is asked
        self._torchs = _torchs_keys(text, self._links, self._keys)
        self._pushed: list[dict[str, Any]] = []
        self._group_numbers: list[int] = []
        self._first: list[int] = []
        self._names: list[str] = []
        self._warned: set[str] = self.__dict__.get("_warned", set())  # a copy's are there already
        self._on_gpu = self._has_shards = False
        self._conventions: dict[Any, bool] = {}
        self._differentiates = False  # a closure does so where the loss alone is wanted
        own = dict(defaults)
        for key, value in settings.items():
            self._check_key(key)
            if key not in self._keys:
                raise TypeError(f"gradus.torch: the chain '{text}' has no setting '{key}'")
            defaults[key] = value
        self._own = own
        super().__init__(params.named_parameters() if isinstance(params, torch.nn.Module) else params, defaults)

    # ---- groups ----

    def _check_key(self, key: str) -> None:
        shared = [k for k in self._keys if k.endswith("." + key)]
        if key not in self._keys and shared:
            raise ValueError(f"gradus.torch: several links have '{key}'; say one of {', '.join(shared)}")

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """A group with numbers of its own, by the names that the links have; the chain is one for all groups."""
        for key in param_group:
            self._check_key(key)
        if "chain" in param_group and _with_lr(Chain(param_group["chain"]).text) != self._chain:  # ZeroRedundancyOptimizer repeats it
            raise ValueError(f"gradus.torch: a group has '{param_group['chain']}' for a chain, the optimizer '{self._chain}'; it has one for all")
        super().add_param_group(param_group)
        group = self.param_groups[-1]
        try:
            names = group.get("param_names") or [f"p{len(self._names) + i}" for i in range(len(group["params"]))]
            for name, p in zip(names, group["params"]):
                self._check_shards(name, p)
            number = self._lent.add(tuple(names), tuple(map(_local_of, group["params"])))
        except BaseException:
            self.param_groups.pop()
            raise
        self._first.append(len(self._names))
        self._names += names
        self._selections.look(self._core, [*zip(self._names, (p for g in self.param_groups for p in g["params"]))])
        self._group_numbers.append(number)
        self._pushed.append(dict(self._own))
        self._on_gpu = self._on_gpu or any(p.is_cuda for p in group["params"])
        self._push(len(self.param_groups) - 1)

    def _check_shards(self, name: str, p: torch.Tensor) -> None:
        """Pieces of tensors are enough for some links only."""
        if not _is_distributed(p):
            return
        self._has_shards = True
        if any(placement.is_partial() for placement in p.placements):
            raise ValueError(f"gradus.torch: parameter '{name}' is a sum that its processes have not made yet")
        cut = any(not placement.is_replicate() and p.device_mesh.size(i) > 1 for i, placement in enumerate(p.placements))
        alone = [link for link in self._links if not link.is_local and link.path and (link.needs_closure or not any(
            other.path.startswith(link.path + ".") and not other.is_local for other in self._links))]
        if cut and alone:
            raise ValueError(f"gradus.torch: parameter '{name}' is spread over processes, and '{alone[0].name}' needs more than the piece "
                             "that is here: norms and sums are not joined")

    def _push(self, g: int) -> None:
        """What has changed in a group goes to the links."""
        group, pushed = self.param_groups[g], self._pushed[g]
        for key, value in group.items():
            if key in pushed:
                if value is pushed[key]:
                    continue
                value = tuple(value) if isinstance(value, list) else value
                if isinstance(value, torch.Tensor) and value.numel() != 1:
                    raise ValueError(f"gradus.torch: '{key}' of group {g} is a tensor of {value.numel()} numbers, not of one")
                if value == pushed[key]:
                    continue
                numbers = self._numbers(g, key, value)
                self._set(g, key, numbers)
                pushed[key] = numbers if key == "betas" else numbers[0]  # not the object, which may change
            elif key in _REFUSED:
                _refuse(key, value)
            elif key not in _OTHERS and not _says_nothing(value) and key not in self._warned:
                self._warned.add(key)
                warnings.warn(f"gradus.torch: no link of '{self._chain}' has '{key}'; it stays in the group and does nothing",
                              stacklevel=3)

    def _numbers(self, g: int, key: str, value: Any) -> tuple[float, ...]:
        try:
            numbers = tuple(map(float, value)) if key == "betas" else (float(value),)
        except (TypeError, ValueError):
            numbers = ()
        if len(numbers) != len(self._keys[key]):
            what = "two numbers" if key == "betas" else "a number"
            raise ValueError(f"gradus.torch: '{key}' of group {g} is {value!r}, not {what}")
        return numbers

    def _set(self, g: int, key: str, numbers: tuple[float, ...]) -> None:
        for (link, field, alone), number in zip(self._keys[key], numbers):
            if alone:
                self._core.set(field, number, group=self._group_numbers[g])
            else:
                last = self._first[g] + len(self.param_groups[g]["params"])
                self._lent.set(link, field, number, self._first[g], last)

    # ---- steps ----

    param_groups: list[dict[str, Any]]
    _optimizer_state_dict_post_hooks: OrderedDict[int, Callable[..., Any]]
    _optimizer_load_state_dict_pre_hooks: OrderedDict[int, Callable[..., Any]]
    _optimizer_load_state_dict_post_hooks: OrderedDict[int, Callable[..., Any]]

    def step(self, closure: Callable[..., Any] | None = None, loss: Any = None, *, residuals: Callable[[], torch.Tensor] | None = None,
             **numbers: float) -> Any:
        """One step; with a closure the loss of its first evaluation, with residuals the sum of their squares there.  Without either
        links take the loss of the gradients, and links of one's own numbers by name (TypeError if the chain has none)."""
        if (closure is not None) + (loss is not None) + (residuals is not None) > 1:
            raise TypeError("gradus.torch: a step has a closure, or residuals, or the loss of gradients that are there; not two of them")
        if isinstance(loss, torch.Tensor) and loss.numel() != 1:
            raise ValueError(f"gradus.torch: the loss is one number, not a tensor of the shape {tuple(loss.shape)}")
        if residuals is not None:
            closure = SumOfSquares(residuals, [p for group in self.param_groups for p in group["params"] if p.requires_grad])
        if (self._optimizer_step_pre_hooks or self._optimizer_step_post_hooks or _base._global_optimizer_pre_hooks
                or _base._global_optimizer_post_hooks or torch.autograd.profiler._is_profiler_enabled):
            return _hooked_step(self, closure, loss, **numbers) if loss is not None else _hooked_step(self, closure, **numbers)
        return self._step(closure, loss, numbers)

    setattr(step, "hooked", True)  # torch would wrap it, which costs 8 us per step

    def _step(self, closure: Callable[..., Any] | None, loss: Any, numbers: dict[str, float]) -> Any:
        held: list[torch.Tensor] = []
        for g in range(len(self.param_groups)):
            self._push(g)
            if self._pushed[g]["lr"] == 0:
                held += self.param_groups[g]["params"]
        if self._on_gpu and torch.cuda.is_current_stream_capturing():
            raise RuntimeError("gradus.torch: a graph of CUDA that torch records cannot hold a step")
        lists = [group["params"] for group in self.param_groups]
        if held:
            return self._step_of_held(lists, closure, loss, numbers, held)
        if closure is not None or loss is not None or self._has_shards:
            return self._step_of(lists, closure, loss, numbers)
        self._lent.step(lists, None, numbers)
        return None

    def _step_of(self, lists: list[list[torch.Tensor]], closure: Callable[..., Any] | None, loss: Any, numbers: dict[str, float]) -> Any:
        if self._has_shards:
            return self._step_of_shards(lists, closure, loss, numbers)
        if closure is None:
            self._lent.step(lists, _known(loss), numbers)
            return None
        if self._needs_closure or self._acts_first:
            return self._minimize(lists, closure, numbers)
        with torch.enable_grad():
            loss = closure()
        if isinstance(loss, torch.Tensor) and loss.numel() != 1:
            raise ValueError(f"gradus.torch: a closure returns one number, not a tensor of the shape {tuple(loss.shape)}")
        if "closure" not in self._warned and all(p.grad is None for list_ in lists for p in list_):
            self._warned.add("closure")
            warnings.warn("gradus.torch: the closure left no gradients on the parameters, so the step changes nothing; it calls "
                          "backward() itself", stacklevel=4)
        self._lent.step(lists, _known(loss), numbers)
        return loss

    def _step_of_held(self, lists: list[list[torch.Tensor]], closure: Callable[..., Any] | None, loss: Any,
                      numbers: dict[str, float], held: list[torch.Tensor]) -> Any:
        """If lr is 0 nothing moves, even if later links jump or give 0 times infinity."""
        if closure is None and len(held) == len(self._names) and not self.state:
            return self._make_state(lists)
        local = [_local_of(p).detach() for p in held if closure is not None or p.grad is not None]
        before = [p.clone() for p in local]
        try:
            return self._step_of(lists, closure, loss, numbers)
        finally:
            for p, value in zip(local, before):
                p.copy_(value)

    def _make_state(self, lists: list[list[torch.Tensor]]) -> None:
        """How torch's checkpoints ask for state to load into: a step with lr 0 and slopes of 0, and none before.  Some links begin to
        keep what they keep with the second step; those that evaluate get a loss that is 0 everywhere."""
        params = [p for list_ in lists for p in list_]
        local = [_local_of(p).detach() for p in params]
        before = [p.clone() for p in local]

        free = [p for p in params if p.requires_grad]
        nothing = Nothing(lambda: torch.cat([(0 * p).abs().sum().reshape(1) for p in free]), free)
        try:
            for _ in range(2):
                self._step_of(lists, nothing if self._needs_closure or self._acts_first else None, torch.zeros(()), {})
        finally:
            for p, value in zip(local, before):
                p.copy_(value)

    def _step_of_shards(self, lists: list[list[torch.Tensor]], closure: Callable[..., Any] | None, loss: Any,
                        numbers: dict[str, float]) -> Any:
        """The pieces that are here get the pieces of gradients; what holds them hears of the change too."""
        if self._needs_closure:
            raise RuntimeError("gradus.torch: a chain that evaluates takes no distributed tensors")
        if closure is not None and self._acts_first:
            raise RuntimeError(f"gradus.torch: '{self._acts_first[0]}' acts before the closure is called, which takes no distributed tensors; "
                               "call backward() before the step")
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        known = _known(loss)
        spread = [p for list_ in lists for p in list_ if _is_distributed(p)]
        changed = [p for p in spread if p.grad is not None]
        try:
            for p in changed:
                g = p.grad
                if _is_distributed(g) and (g.placements != p.placements or g.device_mesh != p.device_mesh):
                    g = g.redistribute(p.device_mesh, p.placements)
                _local_of(p).grad = _local_of(g)
            self._lent.step([[_local_of(p) for p in list_] for list_ in lists], known, numbers)
        finally:
            for p in changed:
                _local_of(p).grad = None
        if changed:
            torch.autograd.graph.increment_version(changed)
        return loss if closure is not None else None

    def _takes_backward(self, closure: Callable[..., Any]) -> bool:
        """By its signature, read once for all closures of one function; other callables may differ each time."""
        code = None if hasattr(closure, "__wrapped__") else getattr(closure, "__code__", None)
        if code in self._conventions:
            return self._conventions[code]
        takes = takes_backward(closure)
        if code is not None:
            self._conventions[code] = takes
        return takes

    def _minimize(self, lists: list[list[torch.Tensor]], closure: Callable[..., Any], numbers: dict[str, float]) -> Any:
        free = [p for list_ in lists for p in list_ if p.requires_grad]
        takes, of_squares = self._takes_backward(closure), isinstance(closure, SumOfSquares)
        memory = [p.detach() for list_ in lists for p in list_]  # stays until the step is done, whatever the closure does to p.data
        asked = Evaluations(closure, free, takes, _torch_of, self._differentiates)
        try:
            self._lent.minimize(lists, asked.value, asked.gradient, (asked.kept, asked.products) if takes else None,
                                asked.linearised if of_squares else None, numbers)
        finally:
            self._differentiates = asked.differentiates
        del memory
        first = asked.first
        return first.detach() if of_squares and first is not None else first

    # ---- what links leave and say ----

    @property
    def chain(self) -> str:
        """The chain as text."""
        return self._core.chain

    @property
    def model(self) -> Any:
        """The module whose parameters it has; None if it was made of tensors."""
        return self._model

    @property
    def links(self) -> list[str]:
        """The places of all links in the chain, parents first: "0:clip_norm", "1:adam"."""
        return [path for path, _ in _core._optimizer_links(self._core)]

    @property
    def attrs(self) -> Attributes:
        """What links have left for the user, as a mapping: attrs["best_loss"]."""
        return Attributes(self._core, self.attr)

    def reset(self, link: "str | Chain | None" = None) -> None:
        """Forgets all state, or that of the links with a name ("adam") or a place ("1:adam") and of links inside them."""
        reset_links(self._core, link)

    @property
    def steps(self) -> int:
        """Steps done."""
        return self._core.steps

    @property
    def evaluations(self) -> int:
        """Evaluations of closures that links asked for."""
        return self._core.evaluations

    @property
    def should_terminate(self) -> bool:
        """Has a termination link said stop?"""
        return self._core.should_terminate

    def attr(self, name: str) -> Any:
        """A number, a tensor or a dict of tensors by parameter that a link has left for the user, or None: attr("best_params")."""
        value = attr_of(self._core, name)
        if isinstance(value, dict):
            return {p: torch.from_dlpack(t) for p, t in value.items()}
        return torch.from_dlpack(value) if isinstance(value, _core.Tensor) else value

    def explain(self, source: bool = False) -> str:
        """How a step runs: passes over memory, state, cost."""
        return self._core.explain(source)

    def evaluate(self, on: bool) -> None:
        """Sets the parameters to what links recommend to evaluate with (averages), and with False back."""
        self._lent.evaluate([[_local_of(p) for p in group["params"]] for group in self.param_groups], bool(on))

    # ---- state ----

    @property
    def state(self) -> Any:
        """What the links keep, a dict a parameter: `step`, and tensors on the memory of their slots."""
        all_ = _State(self)
        if "_lent" not in self.__dict__:
            return all_
        self._lent.check([[_local_of(p) for p in group["params"]] for group in self.param_groups])
        for i, p in enumerate(p for group in self.param_groups for p in group["params"]):
            kept: dict[str, Any] = {}
            steps = 0
            for (number, slot), key in self._slots.items():
                value = self._lent.state(number, i, slot)
                if value is not None:
                    steps = max(steps, self._lent.steps_of(number, i))
                    kept[key] = _torch_of(value, p)
            if kept:
                dict.__setitem__(all_, p, {"step": torch.tensor(float(steps)), **kept})
        return all_

    @state.setter
    def state(self, value: Any) -> None:
        state = _State(self)
        state.clear()
        for p, kept in value.items():
            state[p] = kept

    def state_dict(self) -> dict[str, Any]:
        """In torch's format.  What belongs to no parameter is in the first group as text, under "gradus"."""
        after, self._optimizer_state_dict_post_hooks = self._optimizer_state_dict_post_hooks, OrderedDict()
        try:
            saved: dict[str, Any] = super().state_dict()
        finally:
            self._optimizer_state_dict_post_hooks = after
        text, tensors = self._lent.pack()
        for group in saved["param_groups"]:
            group.update(self._torchs)
        saved["param_groups"][0]["gradus"] = text
        for name, t in tensors.items():
            if self._place_of(name) is None:
                saved["state"].setdefault(0, {})["gradus/" + name] = torch.from_dlpack(t)
        for hook in after.values():  # they see all of it
            saved = hook(self, saved) or saved
        return saved

    def _place_of(self, name: str) -> tuple[int, str] | None:
        """The parameter and key of PARAM/PATH/SLOT; None for what belongs to no parameter."""
        parts = name.rsplit("/", 2)
        if len(parts) != 3 or parts[0] not in self._names:
            return None
        for (number, slot), key in self._slots.items():
            if slot == parts[2] and self._links[number].path == parts[1]:
                return self._names.index(parts[0]), key
        return None

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """One of its own, or of an optimizer of torch whose state has the names of the chain's.  What does not fit is refused, and
        all is as before."""
        before, self._optimizer_load_state_dict_pre_hooks = self._optimizer_load_state_dict_pre_hooks, OrderedDict()
        after, self._optimizer_load_state_dict_post_hooks = self._optimizer_load_state_dict_post_hooks, OrderedDict()
        try:
            state_dict = state_dict.copy()
            for hook in before.values():  # they see all of it
                state_dict = hook(self, state_dict) or state_dict
            self._load(state_dict)
        finally:
            self._optimizer_load_state_dict_pre_hooks, self._optimizer_load_state_dict_post_hooks = before, after
        for hook in after.values():
            hook(self)

    def _load(self, state_dict: dict[str, Any]) -> None:
        text = state_dict["param_groups"][0].get("gradus") if state_dict["param_groups"] else None
        left_out = {"gradus", *(self._torchs if text is not None else ())}
        groups = [{k: v for k, v in g.items() if k not in left_out} for g in state_dict["param_groups"]]
        kept = state_dict["state"]
        names = [n for g in self.param_groups for n in g.get("param_names") or []]
        before = self.param_groups
        super().load_state_dict({**state_dict, "state": {}, "param_groups": groups})
        saved_ids = [i for g in groups for i in g["params"]]
        saved_names = [n for g in groups for n in g.get("param_names") or []]
        if len(names) == len(saved_names) == len(saved_ids) and set(names) == set(saved_names):
            here = {i: names.index(n) for i, n in zip(saved_ids, saved_names)}
        else:
            here = {i: k for k, i in enumerate(saved_ids)}
        try:
            if text is None:
                self._replace_state(kept, here)
            else:
                old = saved_names if len(saved_names) == len(saved_ids) else [f"p{k}" for k in range(len(saved_ids))]
                self._take_state(text, kept, here, dict(zip(old, (self._names[here[i]] for i in saved_ids))))
        except BaseException:
            self.param_groups = before
            raise
        for g, group in enumerate(self.param_groups):
            for key, value in self.defaults.items():
                group.setdefault(key, value)
            self._pushed[g] = {key: None for key in self._pushed[g]}
            self._push(g)

    def _take_state(self, text: str, kept: dict[Any, Any], here: dict[int, int], renamed: dict[str, str]) -> None:
        meta = json.loads(text)
        local = [_local_of(p) for g in self.param_groups for p in g["params"]]
        for holder in [meta, *meta["links"].values()]:
            holder["params"] = {renamed.get(n, n): v for n, v in holder["params"].items()}
        for name, row in meta["params"].items() if self._has_shards else ():  # cut in other pieces where it was saved
            if name in self._names:
                row["shape"] = list(local[self._names.index(name)].shape)
        tensors = {}
        back = {key: place for place, key in self._slots.items()}
        for saved, entries in kept.items():
            for key, value in entries.items() if saved in here else ():
                if key.startswith("gradus/"):
                    tensors[key[7:]] = _gradus_of(value)
                elif key in back and isinstance(value, torch.Tensor):
                    number, slot = back[key]
                    tensors[f"{self._names[here[saved]]}/{self._links[number].path}/{slot}"] = _gradus_of(value)
        self._lent.unpack(json.dumps(meta), tensors)

    def _replace_state(self, kept: dict[Any, Any], here: dict[int, int]) -> None:
        """In place of all that there is, or what there is stays."""
        saved = self._lent.pack()
        self._core.reset()
        try:
            self._take_torch_state(kept, here)
        except BaseException:
            self._lent.unpack(*saved)
            raise

    def _take_torch_state(self, kept: dict[Any, Any], here: dict[int, int]) -> None:
        """What an optimizer of torch has saved: slots by their names, and the count of steps."""
        back = {key: place for place, key in self._slots.items()}
        for saved, entries in kept.items():
            for key, value in entries.items() if saved in here else ():
                if key == "step":
                    for number in {number for number, _ in self._slots}:
                        self._lent.set_steps_of(number, here[saved], int(float(value)))
                elif key in back and isinstance(value, torch.Tensor):
                    self._lent.set_state(back[key][0], here[saved], back[key][1], _gradus_of(value))
                elif value is not None and key not in self._warned:
                    self._warned.add(key)
                    warnings.warn(f"gradus.torch: no link of '{self._chain}' keeps '{key}'; it is left out", stacklevel=4)

    # ---- copies ----

    def __getstate__(self) -> dict[str, Any]:
        chain = self._core.chain if _has_functions(self._chain) else self._chain  # names in the place of functions, which may not be there
        return {"chain": chain, "defaults": self.defaults, "param_groups": self.param_groups, "saved": self.state_dict(),
                "warned": self._warned}

    def __setstate__(self, state: dict[str, Any]) -> None:
        if "chain" not in state:  # from load_state_dict
            self.param_groups = state["param_groups"]
            return
        known = {k: v for k, v in state["defaults"].items() if k != "differentiable"}
        self._warned = set(state["warned"])
        Optimizer.__init__(self, [dict(g) for g in state["param_groups"]], state["chain"], **known)
        self.load_state_dict(state["saved"])

    def __repr__(self) -> str:
        return f"gradus.torch.Optimizer({self._chain!r}): {len(self._names)} parameters in {len(self.param_groups)} groups"


class _State(defaultdict):  # type: ignore[type-arg]
    """What links keep, by parameter.  Tensors are on the memory of their slots; what is set here is copied there."""

    def __init__(self, optimizer: Optimizer) -> None:
        super().__init__(dict)
        self._optimizer = optimizer

    def __missing__(self, p: torch.Tensor) -> dict[str, Any]:
        return {}

    def __setitem__(self, p: torch.Tensor, kept: dict[str, Any]) -> None:
        params = [q for group in self._optimizer.param_groups for q in group["params"]]
        at = next((i for i, q in enumerate(params) if q is p), None)
        if at is None:
            raise KeyError("gradus.torch: that is no parameter of this optimizer")
        self._optimizer._take_torch_state({0: kept}, {0: at})
        super().__setitem__(p, kept)

    def clear(self) -> None:
        self._optimizer._core.reset()
        super().clear()

    def __delitem__(self, p: torch.Tensor) -> None:
        raise TypeError("gradus.torch: state of one parameter cannot be taken away; clear() forgets all")

    pop = popitem = update = setdefault = __delitem__  # type: ignore[assignment]

    def __reduce__(self) -> Any:
        return dict, (dict(self),)


def _refuse(key: str, value: Any) -> None:
    if value:
        raise ValueError(f"gradus.torch: '{key}' is not possible: {_REFUSED[key]}")


def _plain_step(self: Optimizer, closure: Callable[..., Any] | None = None, loss: Any = None, **numbers: float) -> Any:
    return self._step(closure, loss, numbers)


_hooked_step = torch.optim.Optimizer.profile_hook_step(_plain_step)


# ---- the numbers of a chain ----

def _with_lr(text: str) -> str:
    """Where no link is the learning rate of the whole update, one more is."""
    rows = _links_of(text)
    having = [row for row in rows if "lr" in row.numbers]
    last = [row for row in rows if row.path and "." not in row.path][-1]
    return text if len(having) == 1 or (having and last.name == "lr") else text + " | lr(1)"


def _links_of(text: str) -> list[_Link]:
    probe = _core._Optimizer(_core.current_context(), text)
    lent = _core._Borrower(probe, torch.Tensor, torch.autograd.graph.increment_version)
    return [_Link(i, row) for i, row in enumerate(lent.links())]


def _group_keys(links: list[_Link]) -> tuple[dict[str, list[tuple[int, str, bool]]], dict[str, Any]]:
    """Keys of groups: the links and fields they set, and whether only this key sets that field; their values."""
    keys: dict[str, list[tuple[int, str, bool]]] = {}
    values: dict[str, Any] = {}
    having: dict[str, list[_Link]] = defaultdict(list)
    for link in links:
        for field in link.numbers:
            having[field].append(link)
    last = [link for link in links if link.path and "." not in link.path][-1]
    for field, all_ in having.items():
        for link in all_:
            alone = len(all_) == 1
            plain = alone or (field == "lr" and link is last)
            same = [other for other in all_ if other.name == link.name]
            key = field if plain else f"{link.name}.{field}" if len(same) == 1 else f"{link.path}.{field}"
            keys[key] = [(link.number, field, alone)]
            values[key] = link.numbers[field]
    if "beta1" in keys and "beta2" in keys:
        keys["betas"] = keys.pop("beta1") + keys.pop("beta2")
        values["betas"] = (values.pop("beta1"), values.pop("beta2"))
    return keys, values


def _torchs_keys(text: str, links: list[_Link], keys: dict[str, Any]) -> dict[str, Any]:
    """What torch's Adam reads in a group besides the numbers of a chain that keeps adam's state: the step it makes there is ours."""
    names = [link.name for link in links if link.path and "." not in link.path]
    if names.count("adam") != 1 or not {"lr", "betas", "eps"} <= keys.keys():
        return {}
    after = names.index("adam") < names.index("weight_decay") if names.count("weight_decay") == 1 else False
    own = {"amsgrad": "amsgrad=true" in text, "decoupled_weight_decay": after, "maximize": names[0] == "mul" and text.startswith("mul(-1)")}
    return own if "weight_decay" in keys else {"weight_decay": 0.0, **own}


def _says_nothing(value: Any) -> bool:
    """What an optimizer of torch has switched off."""
    return value is None or value is False or isinstance(value, (int, float)) and value == 0


def _slot_names(links: list[_Link]) -> dict[tuple[int, str], str]:
    count: dict[str, int] = defaultdict(int)
    for link in links:
        for slot in link.slots:
            count[slot] += 1
    return {(link.number, slot): slot if count[slot] == 1 else f"{link.path}.{slot}" for link in links for slot in link.slots}


# ---- tensors ----

def _is_distributed(t: Any) -> bool:
    """A DTensor: there is none before its module is imported."""
    module = sys.modules.get("torch.distributed.tensor")
    return module is not None and isinstance(t, module.DTensor)


def _known(loss: Any) -> torch.Tensor | None:
    """A loss for links that ask for it."""
    if loss is None or isinstance(loss, torch.Tensor) and loss.numel() != 1:
        return None
    return loss.detach() if isinstance(loss, torch.Tensor) else torch.tensor(float(loss), dtype=torch.double)


def _local_of(t: Any) -> Any:
    """What this process has of a tensor."""
    return t._local_tensor if _is_distributed(t) else t


def _torch_of(value: Any, like: torch.Tensor) -> torch.Tensor:
    """A tensor of torch on the same memory; pairs of numbers where the parameter is complex."""
    t = torch.from_dlpack(value)
    if _is_distributed(like):
        whole = t.shape == _local_of(like).shape
        return type(like).from_local(t, like.device_mesh, like.placements, run_check=False, shape=like.shape,
                                     stride=like.stride()) if whole else t
    return torch.view_as_complex(t) if like.is_complex() and t.dim() == like.dim() + 1 and t.is_floating_point() else t


def _gradus_of(value: torch.Tensor) -> Any:
    value = _local_of(value.detach())
    if value.is_complex():
        value = torch.view_as_real(value)
    return _core.from_dlpack(value)
