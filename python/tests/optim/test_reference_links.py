"""Links of the reference's kind over gradus tensors: see reference_links.py."""
import gc

import pytest

import gradus as gd
import reference_classes
import reference_links


class World(reference_links.World):
    def parameter(self, values):
        return gd.tensor(values, requires_grad=True)

    def optimizer(self, params, chain):
        return gd.Optimizer(params, chain)


@pytest.mark.parametrize("check", [*reference_links.CHECKS, *reference_classes.CHECKS], ids=lambda f: f.__name__)
def test_what_the_reference_says(check):
    check(World())


def test_a_variable_does_not_outlive_its_step():
    kept = []

    @gd.link
    class keeps_var:
        def step(self, var):
            kept.append(var)

    x = gd.tensor([1.0], requires_grad=True)
    gd.Optimizer([x], keeps_var() | gd.m.lr(0.1)).step(lambda: (x**2).sum())
    with pytest.raises(gd.StateError, match="after its step"):
        kept[0].params


def test_what_a_step_raises_comes_out_with_the_parameters_as_before():
    @gd.link
    class breaks:
        def step(self, var):
            var.params[0].assign(7)
            raise LookupError("inside")

    @gd.link
    class wrong_update:
        def step(self, var):
            var.update = [1.0]

    @gd.link
    class asks_nonsense:
        def step(self, var):
            var.setting("nonsense")

    for ours, kind in ((breaks(), LookupError), (wrong_update(), TypeError), (asks_nonsense(), gd.Error)):
        x = gd.tensor([1.0, 2.0], requires_grad=True)
        with pytest.raises(kind):
            gd.Optimizer([x], ours | gd.m.lr(0.1)).step(lambda: (x**2).sum())
        assert x.tolist() == [1, 2]
    with pytest.raises(TypeError, match="apply.*or one step"):
        gd.link(type("both", (), {"apply": lambda self, t: None, "step": lambda self, var: None}))


def test_steps_of_python_keep_no_memory():
    x = gd.tensor([1.0, 2.0], requires_grad=True)
    optimizer = gd.Optimizer([x], reference_links.ref_hook() | reference_links.ref_children(a="sign", b="sign") | gd.m.lr(0.01))

    def closure(backward=True):
        loss = (x**2).sum()
        if backward:
            optimizer.zero_grad()
            loss.backward()
        return loss
    optimizer.step(closure)
    gc.collect()
    before = gd.current_context().live
    for _ in range(30):
        optimizer.step(closure)
    gc.collect()
    assert gd.current_context().live == before


@pytest.mark.parametrize("chain", ["adam | lr(0.1)", "lbfgs | strong_wolfe", "heavy_ball | backtracking", "newton", "newton_cg", "sam | lr(0.1)", "polyak_step_size"])
def test_both_conventions_of_closures_go_the_same_way(chain):
    ends = []
    for convention in ("plain", "backward"):
        x = gd.tensor([1.0, -2.0], requires_grad=True)
        still = gd.tensor([1.0])  # wants no gradients
        optimizer = gd.Optimizer([still, x], chain)
        calls = []

        def loss():
            return (x**4).sum() + (x[0] * x[1] * still).sum() ** 2

        def with_backward(backward=True):
            calls.append(backward)
            value = loss()
            if backward:
                optimizer.zero_grad()
                value.backward()
            return value
        losses = [optimizer.step(loss if convention == "plain" else with_backward) for _ in range(5)]
        ends.append((losses, x.tolist()))
    assert ends[0][0] == pytest.approx(ends[1][0], rel=1e-9) and ends[0][1] == pytest.approx(ends[1][1], rel=1e-9)
    assert True in calls and (False in calls) == ("newton" in chain or "backtracking" in chain)


def test_a_known_loss_and_numbers_reach_links():
    x = gd.tensor([3.0], requires_grad=True)
    optimizer = gd.Optimizer([x], "save_best | lr(0.1)")
    (x**2).sum().backward()
    assert optimizer.step(loss=9.0) is None or optimizer.attr("best_loss") == 9
    assert optimizer.attr("best_loss") == 9
    for wrong, kind in (({"loss": "x"}, TypeError), ({"temperature": "hot"}, TypeError), ({"closure": 3}, TypeError)):
        with pytest.raises(kind):
            optimizer.step(**wrong)
    with pytest.raises(ValueError, match="returns one number"):
        gd.Optimizer([x], "lbfgs | strong_wolfe").step(lambda backward=True: x * gd.tensor([1.0, 2.0]))
