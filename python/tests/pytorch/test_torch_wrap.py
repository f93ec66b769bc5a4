"""Optimizers of PyTorch as links: the same steps as on their own, with state that belongs to the optimizer around them."""
import copy
import io
import pickle

import pytest

torch = pytest.importorskip("torch")
if not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"):
    pytest.skip("gradus.torch needs a later PyTorch", allow_module_level=True)

import gradus as gd
import gradus.torch as gt
from gradus import m

OPTIMIZERS = [(torch.optim.SGD, {"lr": 0.1, "momentum": 0.9}), (torch.optim.Adam, {"lr": 0.05, "betas": (0.8, 0.99)}),
              (torch.optim.AdamW, {"lr": 0.05, "amsgrad": True}), (torch.optim.Rprop, {"lr": 0.01}), (torch.optim.NAdam, {"lr": 0.02}),
              (torch.optim.Adagrad, {"lr": 0.1}), (torch.optim.ASGD, {"lr": 0.1}), (torch.optim.Adadelta, {})]


def model():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1)).double()


def train(net, optimizer, count, scheduler=None):
    torch.manual_seed(1)
    x = torch.randn(20, 3, dtype=torch.double)
    for _ in range(count):
        optimizer.zero_grad()
        (net(x) - x.sum(1, keepdim=True)).pow(2).mean().backward()
        optimizer.step()
        if scheduler:
            scheduler.step()
    return [p.detach().clone() for p in net.parameters()]


def same(a, b, tolerance=1e-12):
    return all(torch.allclose(x, y, rtol=tolerance, atol=tolerance) for x, y in zip(a, b))


@pytest.mark.parametrize("cls, settings", OPTIMIZERS, ids=lambda o: getattr(o, "__name__", ""))
def test_steps_are_those_of_the_optimizer(cls, settings):
    theirs, ours = model(), model()
    wanted = train(theirs, cls(theirs.parameters(), **settings), 6)
    assert same(train(ours, gt.Optimizer(ours, gt.Wrap(cls, **settings)), 6), wanted)


def test_links_before_and_after_it_count():
    theirs, ours = model(), model()
    wanted = train(theirs, torch.optim.Adam(theirs.parameters(), lr=0.01), 5)
    assert same(train(ours, gt.Optimizer(ours, m.mul(2), gt.Wrap(torch.optim.Adam, lr=0.005, eps=2e-8), m.mul(2)), 5), wanted, 1e-9)


def test_state_is_saved_copied_and_forgotten():
    net = model()
    optimizer = gt.Optimizer(net, gt.Wrap(torch.optim.Adam, lr=0.05))
    train(net, optimizer, 3)
    saved = copy.deepcopy((net.state_dict(), optimizer.state_dict()))
    wanted = train(net, optimizer, 3)
    again = model()
    again.load_state_dict(saved[0])
    resumed = gt.Optimizer(again, gt.Wrap(torch.optim.Adam, lr=0.05))
    file = io.BytesIO()
    torch.save(saved[1], file)
    file.seek(0)
    resumed.load_state_dict(torch.load(file, weights_only=True))
    assert same(train(again, resumed, 3), wanted)
    assert pickle.loads(pickle.dumps(resumed)).chain == resumed.chain
    fresh, started = model(), model()
    resumed.reset(f"0:{resumed.chain.split('(')[0]}")
    assert not resumed.state
    again.load_state_dict(fresh.state_dict())
    assert same(train(again, resumed, 3), train(started, torch.optim.Adam(started.parameters(), lr=0.05), 3))


def test_groups_and_schedulers_change_its_settings():
    theirs, ours = model(), model()

    def groups(net):
        return [{"params": list(net[0].parameters())}, {"params": list(net[2].parameters()), "lr": 0.2}]
    one = torch.optim.SGD(groups(theirs), lr=0.1)
    two = gt.Optimizer(groups(ours), gt.Wrap(torch.optim.SGD, lr=0.1))
    wanted = train(theirs, one, 5, torch.optim.lr_scheduler.ExponentialLR(one, 0.7))
    assert same(train(ours, two, 5, torch.optim.lr_scheduler.ExponentialLR(two, 0.7)), wanted)


def test_it_works_over_tensors_of_gradus():
    x = gd.tensor([1.0, -2.0], requires_grad=True)
    y = torch.tensor([1.0, -2.0], dtype=torch.double, requires_grad=True)
    ours, theirs = gd.Optimizer([x], gt.Wrap(torch.optim.RMSprop, lr=0.1)), torch.optim.RMSprop([y], lr=0.1)
    for _ in range(4):
        ours.step(lambda: (x**4).sum())
        theirs.zero_grad()
        (y**4).sum().backward()
        theirs.step()
    assert x.tolist() == pytest.approx(y.tolist(), rel=1e-12)
    assert gt.Wrap(torch.optim.RMSprop, lr=0.2) == gt.Wrap(torch.optim.RMSprop, lr=0.2) != gt.Wrap(torch.optim.RMSprop, lr=0.1)


def test_what_it_cannot_do_is_said():
    with pytest.raises(TypeError, match="LBFGS makes no step without a closure"):
        gt.Wrap(torch.optim.LBFGS, lr=1.0)
    with pytest.raises(TypeError, match="no_such"):
        gt.Wrap(torch.optim.Adam, no_such=3)
    if hasattr(torch.optim, "Muon"):  # matrices only
        w = torch.nn.Parameter(torch.ones(2, 3))
        optimizer = gt.Optimizer([w], gt.Wrap(torch.optim.Muon, lr=0.1))
        w.grad = torch.ones(2, 3)
        optimizer.step()
        assert bool((w < 1).all())
