"""Every chain of the link table, and random trees of links, over PyTorch's tensors: state, load, copies, groups."""
import copy
import warnings

import pytest

import gradus as gd
from chain_trees import cases

torch = pytest.importorskip("torch")
gt = pytest.importorskip("gradus.torch")
REFUSED = (gd.Error, ValueError, TypeError, NotImplementedError, RuntimeError)  # a chain that this problem does not suit


def parameters():
    return [torch.nn.Parameter(torch.tensor(v, dtype=torch.float64)) for v in ([1.0, -2.0, 0.5], [[0.5, 1.0], [2.0, -1.0]])]


def steps(given, optimizer, count):
    def closure(backward=True):
        loss = ((given[0] - 0.3) ** 2).sum() + (given[1] ** 2 * 1.5 + given[1]).sum()
        if backward:
            optimizer.zero_grad()
            loss.backward()
        return loss
    for _ in range(count):
        optimizer.step(closure)
    return [p.tolist() for p in given]


def numbers_of(optimizer):
    return [{k: v for k, v in g.items() if k != "params"} for g in optimizer.param_groups]


@pytest.mark.parametrize("chain", cases(60, seed=2))
def test_chains_round_trip(chain):
    given = parameters()
    warnings.simplefilter("ignore")
    try:
        optimizer = gt.Optimizer(given, chain)
        steps(given, optimizer, 2)
    except REFUSED:
        optimizer = None
    if optimizer is None:
        pytest.skip("no chain for this problem")
    state = optimizer.state_dict()
    again = parameters()
    with torch.no_grad():
        for p, q in zip(given, again):
            q.copy_(p)
    other = gt.Optimizer(again, chain)
    other.load_state_dict(state)
    assert str(numbers_of(other)) == str(numbers_of(optimizer))
    assert set(map(str, other.state_dict()["state"])) == set(map(str, state["state"]))
    both = copy.deepcopy((given, optimizer))
    assert str(numbers_of(both[1])) == str(numbers_of(optimizer))
    # groups say the numbers again
    told = {k: v for k, v in numbers_of(optimizer)[0].items() if k not in ("param_names", "chain")}
    optimizer.add_param_group({"params": parameters()[:1], **told})
    for key, value in told.items():
        optimizer.param_groups[0][key] = value
    steps(again, other, 1)
