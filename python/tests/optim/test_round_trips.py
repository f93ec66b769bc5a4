"""Every chain of the link table, and random trees of links: text, chain, text, state, load, the same steps."""
import warnings

import pytest

import gradus as gd
from chain_trees import cases

CASES = cases(100)


def setup(chain):
    parameters = {"a": gd.tensor([1.0, -2.0, 0.5], requires_grad=True), "b.c": gd.tensor([[0.5, 1.0], [2.0, -1.0]], requires_grad=True)}
    return parameters, gd.Optimizer(parameters, chain)


def steps(parameters, optimizer, count):
    a, b = parameters["a"], parameters["b.c"]
    for _ in range(count):
        optimizer.step(lambda: ((a - 0.3) ** 2).sum() + (b**2 * 1.5 + b).sum())
    return [p.tolist() for p in parameters.values()]


@pytest.mark.parametrize("chain", CASES)
def test_chains_round_trip(chain, tmp_path):
    warnings.simplefilter("ignore", gd.GradusWarning)
    text = str(gd.Chain(chain))
    assert str(gd.Chain(text)) == text
    parameters, optimizer = setup(chain)
    assert str(gd.Chain(optimizer.chain)) == text
    path = tmp_path / "state"
    try:
        steps(parameters, optimizer, 2)
    except (gd.Error, ValueError, ArithmeticError):  # no chain for this problem: its state goes on all the same
        pass
    optimizer.save(path)
    again, loaded = setup(text)
    for p, q in zip(parameters.values(), again.values()):
        q.assign(p.detach())
    loaded.load(path)
    assert loaded.steps == optimizer.steps and loaded.chain == optimizer.chain
    loaded.save(tmp_path / "again")
    one, other = gd.load(path), gd.load(tmp_path / "again")
    assert {k: str(t.tolist()) for k, t in one.items()} == {k: str(t.tolist()) for k, t in other.items()}
