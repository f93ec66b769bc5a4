"""What the documents of the reference systems say of optimizers made of links, as links in Python: run with gradus tensors by
test_reference_links.py and with parameters of PyTorch by test_torch_reference.py.

A `World` makes parameters and optimizers of one kind; every check gets one."""
import math

import gradus as gd
from gradus import m


class World:
    """What both kinds have alike."""

    def values(self, t):
        return t.tolist()

    def step(self, optimizer, params, closure=False, numbers=None):
        def evaluate(backward=True):
            loss = sum((p**2).sum() for p in params)
            if backward:
                optimizer.zero_grad()
                loss.backward()
            return loss
        if closure:
            return optimizer.step(evaluate, **(numbers or {}))
        evaluate()
        return optimizer.step(**(numbers or {}))


# ---- links as the documents describe them ----

@gd.link(state=["velocity"])
class ref_momentum:
    """update changes state, apply reads it."""

    beta = 0.5

    def update(self, t):
        for i, u in enumerate(t.tensors):
            v = t.state(i, "velocity")
            v.assign(t.setting("beta", i) * v + u)

    def apply(self, t):
        return [t.state(i, "velocity") for i in range(len(t))]


@gd.link(uses_grad=True)
class ref_tensorwise:
    """Sees the update, the parameter and the gradient of each tensor; runs links of its own on tensors."""

    inner = None

    def apply(self, t):
        inner = t.child("inner", [u * 1 for u in t.tensors])
        return [u + 0.5 * p + g for u, p, g in zip(inner, t.params, t.grads)]


@gd.link
class ref_var:
    """Looks at the variable of a step and leaves what it saw."""

    def step(self, var):
        var.set_attr("step", var.current_step)
        var.set_attr("last", float(var.is_last))
        var.set_attr("lr", var.last_lrs[0] if var.last_lrs else math.nan)
        var.set_attr("closure", float(var.has_closure))
        var.set_attr("known", len(var.known))
        var.set_attr("given", var.storage("temperature", -1.0))
        var.set_storage("from_before", 3.0)
        var.set_attr("first_update", var.update[0])
        var.update = [u * 2 for u in var.update]


@gd.link
class ref_reads_storage:
    def step(self, var):
        var.set_attr("read", var.storage("from_before"))


@gd.link
class ref_children:
    """The mean of what two chains make of the update."""

    a = None
    b = None

    def step(self, var):
        var.update = [(x + y) * 0.5 for x, y in zip(var.child("a"), var.child("b"))]


@gd.link
class ref_stops:
    at = 2.0

    def step(self, var):
        if var.current_step >= var.setting("at"):
            var.stop()
        if var.current_step >= var.setting("at") + 1:
            var.skip_update()
            var.terminate()


@gd.link
class ref_hook:
    """Runs when the parameters of the step are set."""

    fails = False

    def step(self, var):
        def after(var):
            var.set_attr("after", var.params[0])
            if self.fails:
                raise LookupError("in a hook")
        var.after_step(after)


@gd.link(needs_closure=True, state=["best"])
class ref_search:
    """The best of three lengths, by the loss."""

    def step(self, var):
        update = var.get_update()
        losses = {a: var.evaluate_at(-a, update) for a in (0.01, 0.1, 1.0)}
        length = min(losses, key=losses.get)
        var.state(0, "best").assign(length)
        var.update = [u * length for u in update]


@gd.link(needs_closure=True)
class ref_newton:
    """A diagonal Newton step, from products with the Hessian; the loss and gradient beside them."""

    def step(self, var):
        ones = [p * 0 + 1 for p in var.params]
        loss, grads = var.evaluate()
        var.set_attr("loss", loss.item())
        var.set_attr("same", float(var.get_loss().item() == loss.item()))
        var.update = [g / h for g, h in zip(grads, var.hvp(ones))]


@gd.link(needs_closure=True)
class ref_moves:
    """Moves the parameters by itself."""

    def step(self, var):
        var.move(-0.25, var.get_grad())
        var.skip_update()


# ---- checks ----

def steps(world, chain, count=5, **more):
    p = world.parameter([1.0, -2.0, 0.5])
    optimizer = world.optimizer([p], chain)
    for _ in range(count):
        world.step(optimizer, [p], **more)
    return world.values(p), optimizer


def near(a, b):
    return all(abs(x - y) <= 1e-6 * (1 + abs(y)) for x, y in zip(a, b))


def links_with_update_and_apply(world):
    assert near(steps(world, ref_momentum(0.7) | m.lr(0.1))[0], steps(world, "heavy_ball(0.7, ema_init=\"zeros\") | lr(0.1)")[0])


def transforms_see_parameters_and_gradients(world):
    values, _ = steps(world, ref_tensorwise() | m.lr(0.1), 1)  # loss sum p^2: gradient 2 p, so 2 p + 0.5 p + 2 p
    assert near(values, [p - 0.1 * 4.5 * p for p in (1.0, -2.0, 0.5)])
    values, _ = steps(world, ref_tensorwise(inner=m.sign()) | m.lr(0.1), 1)
    assert near(values, [p - 0.1 * (math.copysign(1, p) + 2.5 * p) for p in (1.0, -2.0, 0.5)])


def attributes_of_the_variable(world):
    values, optimizer = steps(world, ref_var() | ref_reads_storage() | m.lr(0.1), 1, numbers={"temperature": 7.0})
    assert optimizer.attr("step") == 0 and optimizer.attr("read") == 3 and optimizer.attr("last") == 0
    assert optimizer.attr("closure") == 0 and optimizer.attr("given") == 7
    assert near(world.values(optimizer.attr("first_update")), [2, -4, 1]) and near(values, [p - 0.4 * p for p in (1.0, -2.0, 0.5)])
    _, optimizer = steps(world, ref_var() | m.lr(0.1) | ref_moves(), 1, closure=True)
    assert optimizer.attr("closure") == 1 and optimizer.attr("given") == -1
    _, optimizer = steps(world, ref_var() | m.lr(0.1), 3)
    assert optimizer.attr("step") == 2 and optimizer.attr("last") == 1 and abs(optimizer.attr("lr") - 0.1) < 1e-7


def children_are_steps_of_their_own(world):
    values, optimizer = steps(world, ref_children(a=m.sign(), b="heavy_ball(0.5) | clip_value(1)") | m.lr(0.1))
    assert near(values, steps(world, "mean(sign, [heavy_ball(0.5) | clip_value(1)]) | lr(0.1)")[0])
    assert "sign" in optimizer.chain


def stop_skip_and_terminate(world):
    chain = ref_stops(at=2.0) | m.lr(0.1)
    two, optimizer = steps(world, chain, 2)
    assert not optimizer.should_terminate
    three, _ = steps(world, chain, 3)  # the link behind does not run: a whole gradient
    assert near(three, [-x for x in two])
    four, optimizer = steps(world, chain, 4)
    assert near(four, three) and optimizer.should_terminate


def hooks_run_after_the_step(world):
    values, optimizer = steps(world, ref_hook() | m.lr(0.1), 2)
    assert near(world.values(optimizer.attr("after")), values)
    p = world.parameter([1.0, 2.0])
    optimizer = world.optimizer([p], ref_hook() | m.lr(0.1))
    link = gd._links.definitions["ref_hook"].target.link
    link.fails = True
    try:
        world.step(optimizer, [p])
    except LookupError:
        pass
    else:
        raise AssertionError("a hook failed and nobody heard")
    finally:
        link.fails = False
    assert world.values(p) == [1, 2]
    world.step(optimizer, [p])
    assert world.values(p) != [1, 2]


def evaluations(world):
    values, optimizer = steps(world, ref_search(), 1, closure=True)  # 2 p times 1 is too far, times 0.1 is the best
    assert near(values, [0.8 * p for p in (1.0, -2.0, 0.5)])
    values, optimizer = steps(world, ref_newton(), 1, closure=True)
    assert near(values, [0, 0, 0]) and optimizer.attr("loss") == 5.25 and optimizer.attr("same") == 1
    values, _ = steps(world, ref_moves(), 1, closure=True)
    assert near(values, [0.5 * p for p in (1.0, -2.0, 0.5)])


def settings_of_groups(world):
    p, q = world.parameter([1.0]), world.parameter([1.0])
    optimizer = world.optimizer([{"params": [p]}, {"params": [q], "beta": 0.0}], ref_momentum(0.9) | m.lr(0.1))
    for _ in range(3):
        world.step(optimizer, [p, q])
    assert near(world.values(q), [0.8 ** 3]) and not near(world.values(p), world.values(q))


CHECKS = [links_with_update_and_apply, transforms_see_parameters_and_gradients, attributes_of_the_variable, children_are_steps_of_their_own,
          stop_skip_and_terminate, hooks_run_after_the_step, evaluations, settings_of_groups]
