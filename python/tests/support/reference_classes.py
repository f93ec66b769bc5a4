"""What the reference's classes of links have, as links in Python: run with gradus tensors by test_reference_links.py and with parameters
of PyTorch by test_torch_reference.py.  The objective is sum p^2 throughout, so that a gradient is 2 p."""
import gradus as gd
from gradus import m
from reference_links import near, steps

START = (1.0, -2.0, 0.5)


@gd.link
class cls_doubles:
    target = "update"

    def apply(self, t):
        return [u * 2 for u in t.tensors]


@gd.link(state=["mean"])
class cls_concat:
    """Takes the mean of all elements off."""

    concat_params = True

    def update(self, t):
        assert len(t) == len(t.params) == 1 and t.state(0, "mean").shape == t.tensors[0].shape
        t.set_state(0, "mean", t.tensors[0].mean())

    def apply(self, t):
        return [t.tensors[0] - t.states[0]["mean"]]


@gd.link(state=["seen"], uses_loss=True)
class cls_every:
    """Holds the update of every n-th step, and multiplies by the loss."""

    update_freq = 2
    inner = None

    def update(self, t):
        t.global_state["updates"] = t.global_state.get("updates", 0) + 1
        for state, u in zip(t.states, t.tensors):
            state["seen"] = u
        t.var.set_attr("updates", t.global_state["updates"])

    def apply(self, t):
        return [s["seen"] * 0 + u * t.loss for s, u in zip(t.states, t.tensors)]


@gd.link
class cls_sequence:
    """The sum of what any number of chains make of the update."""

    modules = ()

    def step(self, var):
        total = None
        for child in var.children("modules"):
            clone = child.step(var.clone(clone_update=True))
            var.update_attrs_from_clone(clone)
            total = clone.update if total is None else [a + b for a, b in zip(total, clone.update)]
        var.set_attr("children", len(var.children()))
        var.update = total or var.update


@gd.link
class cls_transforms_sequence:
    modules = ()

    def apply(self, t):
        for child in t.children("modules"):
            t.tensors = child.transform(t.tensors)
        return t.tensors


@gd.link(state=["zeros", "number", "param", "grad", "made", "square"])
class cls_first_values:
    def apply(self, t):
        t.state(0, "zeros"), t.state(0, "number", 3), t.state(0, "param", "param"), t.state(0, "grad", "grad")
        t.state(0, "made", lambda p: p * 10), t.state(0, "square", gd.ones((2, 2)))
        state = t.states[0]
        if t.steps == 1:
            assert state["square"].shape == (2, 2) and state["zeros"].shape == t.params[0].shape
            for slot in ("number", "param", "grad", "made"):
                t.var.set_attr(slot, state[slot])
            assert sorted(state) == sorted(state.keys()) and len(state) == 6 and "nothing" not in state
            del state["zeros"]
            assert "zeros" not in state and state.get("zeros", 7) == 7
            state["square"] = gd.ones(5)  # of another shape
        else:
            assert state["square"].shape == (5,)


@gd.link(state=["velocity"])
class cls_tensorwise:
    """The methods of TensorwiseTransform, by their names."""

    beta = 0.5

    def update_tensor(self, tensor, param, grad, loss, state, setting):
        state["velocity"] = setting["beta"] * state.get("velocity", tensor * 0) + tensor

    def apply_tensor(self, tensor, param, grad, loss, state, setting):
        assert self.beta == setting["beta"] and dict(setting) == {"beta": setting["beta"]}
        return state["velocity"]


@gd.link(state=["velocity"])
class cls_tensors:
    """Those of Transform."""

    beta = 0.5

    def update_tensors(self, tensors, params, grads, loss, states, settings):
        for u, state, setting in zip(tensors, states, settings):
            state["velocity"] = setting["beta"] * state.setdefault("velocity") + u

    def apply_tensors(self, tensors, params, grads, loss, states, settings):
        return [state["velocity"] for state in states]


@gd.link(state=["kept", "before"], online=["before"])
class cls_resets:
    def step(self, var):
        var.set_attr("had", float(var.has_state(0, "before")) + 2 * float(var.has_state(0, "kept")))
        var.set_attr("resets", var.global_state.get("resets", 0))
        var.set_attr("online", var.global_state.get("online", 0))
        var.state(0, "kept"), var.state(0, "before")

    def update(self, var):
        self.step(var)

    def reset(self, link):
        link.global_state["resets"] = 1

    def reset_for_online(self, link):
        link.global_state["online"] = link.global_state.get("online", 0) + 1


@gd.link
class cls_hessian:
    """Gives the Hessian of sum p^2 to a trust region around it."""

    form = "dense"

    def update(self, t):
        t.global_state["updates"] = t.global_state.get("updates", 0) + 1

    def apply(self, t):
        return t.tensors

    def get_H(self, var):
        n = sum(p.size for p in var.params)
        assert self.form == var.setting("form") and var.global_state["updates"] > 0
        like = var.params[0]
        two = gd.ones(n, dtype=like.dtype) * 2
        return {"dense": gd.diag(two), "diagonal": two, "low_rank": (gd.eye(n, dtype=like.dtype), two), "products": lambda x: x * 2,
                "none": None}[self.form]


@gd.link(needs_closure=True)
class cls_products:
    def step(self, var):
        v = [p * 0 + 1 for p in var.params]
        for method in ("autograd", "forward", "central"):
            for normalize in (False, True):
                product = var.hvp(v, method=method, h=1e-3, normalize=normalize)[0]
                assert max(abs(x - 2) for x in product.tolist()) < 2e-2, (method, normalize)
        var.zero_grad()
        assert all(p.grad is None for p in var.params)
        loss = var.closure(False)
        assert abs(var.closure().item() - loss.item()) < 1e-12 and near(var.params[0].grad.tolist(), (2 * var.params[0]).tolist())
        var.zero_grad(set_to_none=False)
        assert var.params[0].grad.tolist() == [0] * 3
        var.loss_approx = 7.0
        assert var.loss_approx.item() == 7 and var.parent is None
        var.set_attr("hessian", var.hessian())


@gd.link(needs_closure=True)
class cls_variable:
    """The rest of a variable, and what it refuses."""

    def step(self, var):
        assert var.loss is None or var.known
        clone = var.clone(clone_update=False, parent=var)
        assert clone.parent.names == var.names
        clone.get_grad()
        var.update_attrs_from_clone(clone)
        assert {"loss", "grad"} <= var.known and var.loss.item() == clone.loss.item()
        clone.update = [u * 100 for u in clone.update]
        assert near(var.update[0].tolist(), var.grad[0].tolist())
        var.attrs["mapped"], var.storage["stored"] = 3.0, 4.0
        assert var.attrs["mapped"] == 3 and var.storage["stored"] == var.storage("stored") == 4 and var.storage.get("none", 5) == 5
        for name in ("stopp", "params", "current_step"):
            try:
                setattr(var, name, 1)
            except AttributeError:
                continue
            raise AssertionError(name)
        var.should_terminate = True
        var.set_attr("same", float(var.optimizer is cls_variable.of and var.model is cls_variable.of.model))
        assert len(var.random("rademacher")) == len(var.params)


@gd.link(needs_closure=True)
class cls_log:
    """The links after it minimise log(1 + loss)."""

    by = "reformulate"

    def step(self, var):
        if self.by == "reformulate":
            var.reformulate(lambda loss: (loss + 1).log())
            return
        below = var.closure
        params = var.params

        def closure(backward=True):
            loss = below(backward)
            for p in params if backward else ():
                p.grad = p.grad / (1 + loss.item())
            return (loss + 1).log()
        var.closure = closure
        before = below(False).item()  # still the objective as it was
        assert abs(var.closure(False).item() - gd.log(gd.tensor(1 + before)).item()) < 1e-6


@gd.link(needs_closure=True)
class cls_own:
    """The links after it minimise an objective of this link's own: sum (p - 1)^2."""

    def step(self, var):
        params = var.params

        def closure(backward=True):
            loss = sum(((p.detach() - 1) ** 2).sum() for p in params)
            if backward:
                for p in params:
                    p.grad = 2 * (p.detach() - 1)
            return loss
        var.closure = closure


# ---- checks ----

def targets(world):
    for target, factor in (("update", 0.6), ("grad", 0.6), ("closure", 0.6), ("params_direct", 1.6), ("params_difference", 1.1),
                           ("update_difference", 1.2)):
        values, _ = steps(world, cls_doubles(target=target) | m.lr(0.1), 1, closure=True)
        assert near(values, [factor * p for p in START]), target


def all_parameters_as_one_vector(world):
    p, q = world.parameter([1.0, 2.0]), world.parameter([6.0])
    optimizer = world.optimizer([p, q], cls_concat() | m.lr(0.5))
    world.step(optimizer, [p, q])  # gradients 2, 4, 12, their mean 6
    assert near([*world.values(p), *world.values(q)], [1 - 0.5 * -4, 2 - 0.5 * -2, 6 - 0.5 * 6])


def update_freq_loss_and_inner(world):
    values, optimizer = steps(world, cls_every(inner=m.sign()) | m.lr(0.1), 1, closure=True)
    assert near(values, [p - 0.1 * 5.25 * (1 if p > 0 else -1) for p in START])
    _, optimizer = steps(world, cls_every() | m.lr(0.001), 5, closure=True)
    assert optimizer.attrs["updates"] == 3
    _, optimizer = steps(world, cls_every(update_freq=1) | m.lr(0.001), 5, closure=True)
    assert optimizer.attrs["updates"] == 5


def sequences_of_children(world):
    values, optimizer = steps(world, cls_sequence(m.sign(), [m.clip_value(1), m.mul(3)]) | m.lr(0.1), 1)
    assert near(values, [p - 0.1 * ((1 if p > 0 else -1) + 3 * max(-1, min(1, 2 * p))) for p in START])
    assert optimizer.attr("children") == 2
    values, _ = steps(world, cls_transforms_sequence(m.sign(), m.mul(3) | m.mul(2)) | m.lr(0.1), 1)
    assert near(values, [p - 0.6 * (1 if p > 0 else -1) for p in START])


def first_values_of_state(world):
    _, optimizer = steps(world, cls_first_values() | m.lr(0.0), 2)
    for slot, factor in (("param", 1), ("grad", 2), ("made", 10)):
        assert near(world.values(optimizer.attr(slot)), [factor * p for p in START]), slot
    assert world.values(optimizer.attr("number")) == [3, 3, 3]


def methods_of_the_reference(world):
    wanted = steps(world, "heavy_ball(0.7, ema_init=\"zeros\") | lr(0.1)")[0]
    assert near(steps(world, cls_tensorwise(0.7) | m.lr(0.1))[0], wanted)
    assert near(steps(world, cls_tensors(0.7) | m.lr(0.1))[0], wanted)


def resets(world):
    p = world.parameter(list(START))
    optimizer = world.optimizer([p], cls_resets() | m.heavy_ball(0.9) | m.lr(0.1))
    for name, had in (("heavy_ball", 0), ("cls_resets", 3), ("0:cls_resets", 0), ("lr", 0), (None, 3)):
        world.step(optimizer, [p])
        assert optimizer.attr("had") == had, name
        optimizer.reset(name)
        kept = {slot for of in optimizer.state.values() for slot in of if slot != "step"}
        assert kept == {None: set(), "heavy_ball": {"kept", "before"}, "lr": {"kept", "before", *kept}}.get(name, kept - {"kept", "before"})
    world.step(optimizer, [p])
    assert optimizer.attr("had") == 0 and optimizer.attr("resets") == 1
    try:
        optimizer.reset("adam")
    except KeyError as e:
        assert "0:cls_resets" in str(e)
    else:
        raise AssertionError("reset of a link that is not there")


def reset_for_online(world):
    _, optimizer = steps(world, m.online(cls_resets(), m.lr(0.1)), 3, closure=True)
    assert optimizer.attr("online") == 2 and optimizer.attr("had") in (2, 3)


def a_hessian_for_a_trust_region(world):
    for form in ("dense", "diagonal", "low_rank", "products"):
        values, _ = steps(world, m.trust_cg(cls_hessian(form=form)), 12, closure=True)
        assert max(map(abs, values)) < 1e-3, form
    try:
        steps(world, m.trust_cg(cls_hessian(form="none")), 1, closure=True)
    except gd.StateError as e:
        assert "has no Hessian" in str(e)
    else:
        raise AssertionError("a link without a Hessian")


def products_and_evaluations(world):
    _, optimizer = steps(world, cls_products() | m.lr(0.1), 1, closure=True)
    found = optimizer.attr("hessian").tolist()
    assert all(abs(found[i][j] - 2 * (i == j)) < 1e-6 for i in range(3) for j in range(3))


def the_rest_of_a_variable(world):
    p = world.parameter(list(START))
    optimizer = cls_variable.of = world.optimizer([p], cls_variable() | m.lr(0.1))
    world.step(optimizer, [p], closure=True)
    assert optimizer.attrs["same"] == 1 and optimizer.should_terminate and optimizer.attrs["mapped"] == 3
    assert set(optimizer.attrs) == {"same", "mapped"} == set(optimizer.attrs.keys()) and len(optimizer.attrs) == 2
    assert dict(optimizer.attrs.items())["same"] == 1 and "none" not in optimizer.attrs and optimizer.attrs.get("none", 4) == 4


def changed_objectives(world):
    for by in ("reformulate", "closure"):
        values, _ = steps(world, cls_log(by=by) | m.lr(0.1), 1, closure=True)
        assert near(values, [p - 0.1 * 2 * p / 6.25 for p in START]), by
    twice = steps(world, cls_log(by="closure") | cls_log(by="closure") | m.lr(0.1), 1, closure=True)[0]
    assert near(twice, steps(world, cls_log() | cls_log() | m.lr(0.1), 1, closure=True)[0])
    values, _ = steps(world, cls_own() | m.backtracking(), 1, closure=True)
    assert near(values, [1, 1, 1]) or max(abs(v - 1) for v in values) < 3


def functions_as_settings(world):
    p, q = world.parameter([1.0, 2.0]), world.parameter([[6.0, 3.0]])
    optimizer = world.optimizer([p, q], m.split(lambda t: t.ndim == 2, m.sign(), m.mul(0)) | m.lr(0.5))
    world.step(optimizer, [p, q])
    assert world.values(p) == [1, 2] and world.values(q) == [[5.5, 2.5]]
    r = world.parameter([[1.0]])
    optimizer.add_param_group({"params": [r]})
    world.step(optimizer, [p, q, r])
    assert world.values(p) == [1, 2] and world.values(r) == [[0.5]]
    assert '"@' not in optimizer.chain


CHECKS = [targets, all_parameters_as_one_vector, update_freq_loss_and_inner, sequences_of_children, first_values_of_state,
          methods_of_the_reference, resets, reset_for_online, a_hessian_for_a_trust_region, products_and_evaluations,
          the_rest_of_a_variable, changed_objectives, functions_as_settings]
