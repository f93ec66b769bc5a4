"""What users of torch's optimizers do with one: param_groups, schedulers, state, copies."""
import copy
import pickle

import pytest

import gradus as gd
from gradus import m, nn


def bowl(*params):
    return lambda: sum(((p - 1.0) ** 2).sum() for p in params)


def leaf(*values):
    return gd.tensor(list(values)).require_grad()


def test_groups_are_live_views():
    a, b = leaf(5.0), leaf(5.0)
    optimizer = gd.Optimizer([{"params": [a], "lr": 0.5}, {"params": [b]}], "lr(0.25)")
    first, second = optimizer.param_groups
    assert first["lr"] == 0.5 and second["lr"] == 0.25 and first["params"][0].tolist() == [5] and optimizer.param_groups[0] is first
    first["lr"] = 0.125
    second.update(lr=0.0)
    optimizer.step(bowl(a, b))
    assert a.item() == 5 - 0.125 * 8 and b.item() == 5
    first.setdefault("initial_lr", first["lr"])
    assert first["initial_lr"] == 0.125 and first.get("momentum", 7) == 7


def test_a_scheduler_of_torchs_form_drives_it():
    class Halves:  # what torch's schedulers do to param_groups
        def __init__(self, optimizer):
            self.optimizer, self.epoch = optimizer, 0
            for group in optimizer.param_groups:
                group.setdefault("initial_lr", group["lr"])

        def step(self):
            self.epoch += 1
            for group in self.optimizer.param_groups:
                group["lr"] = group["initial_lr"] * 0.5 ** self.epoch

    w = leaf(5.0)
    optimizer = gd.Optimizer([w], "lr(0.25)")
    scheduler = Halves(optimizer)
    rates = []
    for _ in range(3):
        before = w.item()
        optimizer.step(bowl(w))
        rates.append((before - w.item()) / (2 * (before - 1)))
        scheduler.step()
    assert rates == pytest.approx([0.25, 0.125, 0.0625]) and optimizer.setting("lr") == 0.03125


def test_groups_are_added():
    a, b = leaf(5.0), leaf(5.0)
    optimizer = gd.Optimizer([a], "adam | lr(0.1)")
    optimizer.add_param_group({"params": [b], "lr": 0.0})
    assert len(optimizer.param_groups) == 2 and optimizer.param_groups[1]["lr"] == 0.0 and optimizer.param_groups[0]["lr"] == 0.1
    optimizer.step(bowl(a, b))
    assert a.item() < 5 and b.item() == 5
    with pytest.raises(ValueError, match="in the optimizer already"):
        optimizer.add_param_group({"params": [b]})
    with pytest.raises(KeyError, match="params"):
        optimizer.add_param_group({"lr": 0.1})


def test_links_one_by_one_or_in_a_list():
    text = str(m.clip_norm(1) | m.adam() | m.lr(0.1))
    for chain in ((m.clip_norm(1), m.adam(), m.lr(0.1)), ([m.clip_norm(1), "adam", m.lr(0.1)],), (text,)):
        assert gd.Optimizer([leaf(1.0)], *chain).chain == text
    with pytest.raises(TypeError, match="a chain is needed"):
        gd.Optimizer([leaf(1.0)])
    with pytest.raises(TypeError, match="links are text or a Chain, not int"):
        gd.Optimizer([leaf(1.0)], m.adam(), 3)


def test_state_is_there_to_look_at():
    w = leaf(5.0, 4.0)
    optimizer = gd.Optimizer({"w": w}, "adam | lr(0.1)")
    optimizer.step(bowl(w))
    (state,) = optimizer.state.values()
    assert state["exp_avg"].tolist() == pytest.approx([0.8, 0.6]) and state["exp_avg_sq"].shape == (2,)
    net = nn.Linear(2, 2)
    assert gd.Optimizer(net, "adam").model is net and optimizer.model is None


@pytest.mark.parametrize("how", [copy.deepcopy, lambda o: pickle.loads(pickle.dumps(o))], ids=["deepcopy", "pickle"])
def test_a_copy_goes_on_with_the_same_bits(how):
    net = nn.Sequential(nn.Linear(3, 4, dtype="f64"), nn.Tanh(), nn.Linear(4, 1, dtype="f64"))
    x = gd.tensor([[0.1, 0.2, 0.3], [1.0, -1.0, 0.5]])
    optimizer = gd.Optimizer(net, m.adam() | m.lr(0.05))
    for _ in range(3):
        optimizer.step(lambda: (net(x) ** 2).sum())
    other = how(optimizer)
    assert other.steps == 3 and other.model is not net
    for _ in range(3):
        one, two = optimizer.step(lambda: (net(x) ** 2).sum()), other.step(lambda: (other.model(x) ** 2).sum())
        assert one == two
    assert [p.tolist() for p in net.parameters()] == [p.tolist() for p in other.model.parameters()]
    groups = gd.Optimizer([{"params": {"a": leaf(1.0)}, "lr": 0.5}, {"params": {"b": leaf(2.0)}}], "adam | lr(0.1)")
    again = how(groups)
    assert [g["lr"] for g in again.param_groups] == [0.5, 0.1] and list(again.parameters) == ["a", "b"]


def test_state_dicts_in_memory():
    w, v = leaf(5.0, 4.0), leaf(5.0, 4.0)
    one, two = gd.Optimizer({"w": w}, "adam | lr(0.1)"), gd.Optimizer({"w": v}, "adam | lr(0.1)")
    one.step(bowl(w))
    v.assign(w.detach())
    two.load_state_dict(one.state_dict())
    one.step(bowl(w)), two.step(bowl(v))
    assert w.tolist() == v.tolist() and two.steps == 2
    with pytest.raises(gd.Error):
        gd.Optimizer({"w": leaf(1.0, 2.0)}, "lion | lr(0.1)").load_state_dict(one.state_dict())


def test_a_recorded_closure_takes_the_same_steps():
    w, v = leaf(5.0, 4.0), leaf(5.0, 4.0)
    calls = []

    def loss():
        calls.append(1)
        return ((v - 1.0) ** 2).sum()
    one, two = gd.Optimizer([w], "lbfgs | strong_wolfe"), gd.Optimizer([v], "lbfgs | strong_wolfe")
    for _ in range(6):
        assert one.step(bowl(w)) == two.step(loss, jit=True)
    assert w.tolist() == v.tolist()


def test_state_is_found_by_any_object_of_a_parameter():
    w, b = gd.tensor([1.0, 2.0], requires_grad=True), gd.tensor([3.0], requires_grad=True)
    optimizer = gd.Optimizer([w, b], "adam | lr(0.1)")
    optimizer.step(lambda: (w * w).sum() + b.sum())
    state = optimizer.state
    assert state[w]["exp_avg"].tolist() == pytest.approx([0.2, 0.4]) and b in state and state.get(gd.ones(1)) is None and len(state) == 2
    optimizer.zero_grad(set_to_none=True)
    assert w.grad is None
