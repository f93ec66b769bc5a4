"""What docs/howto/from_pytorch.md says an optimizer of torch is, is it: its rows are read there and run."""
import re

import pytest

torch = pytest.importorskip("torch")
if not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"):
    pytest.skip("gradus.torch needs a later PyTorch", allow_module_level=True)

import gradus.torch as gt
from doc_pages import ROOT
from test_torch import distance, loss_of, net, train

TABLE = (ROOT / "docs/howto/from_pytorch.md").read_text().split("| torch.optim | chain |")[1].split("\n\n")[0]
ROWS = [(name, arguments, chain.replace("\\|", "|")) for name, arguments, chain in re.findall(r"^\| `(\w+)\((.*?)\)` \| `(.*)` \|$", TABLE, re.M)
        if hasattr(torch.optim, name)]
SEARCHES = {"LBFGS"}  # another line search: both reach the minimum
# kept in f32 by torch: a product of momenta, a step size; and without the last digits of the first: an average that is a sum of others
TOLERANCE = {"NAdam": 1e-7, "ASGD": 1e-7}


def optimizer_of_torch(params, name, arguments, lr):
    settings = eval(f"dict({re.sub(r'^lr(, |$)', '', arguments)})")
    return getattr(torch.optim, name)(params, **({} if lr is None else {"lr": lr}), **settings)


def rate_in(chain):
    found = re.search(r"lr\(([^)]*)\)|lr=([^,)]*)|asgd\((?=[\d])([^)]*)\)|rprop\(alpha=([^,)]*)", chain)
    return float(next(g for g in found.groups() if g))


def test_the_table_has_every_optimizer_for_dense_parameters():
    known = {name for name, cls in vars(torch.optim).items() if isinstance(cls, type) and issubclass(cls, torch.optim.Optimizer)}
    assert known - {name for name, _, _ in ROWS} <= {"Optimizer", "SparseAdam", "Adafactor", "Muon"}


@pytest.mark.parametrize("name, arguments, chain", [row for row in ROWS if row[0] not in SEARCHES])
def test_a_row_of_the_table_gives_torchs_numbers(name, arguments, chain):
    a, b = net(), net()
    train(a, optimizer_of_torch(a.parameters(), name, arguments, rate_in(chain)), 50)
    train(b, gt.Optimizer(b.parameters(), chain), 50)
    assert distance(a, b) <= TOLERANCE.get(name, 1e-12)
    assert distance(a, net()) > 1e-6


@pytest.mark.parametrize("name, arguments, chain", [row for row in ROWS if row[0] in SEARCHES])
def test_a_search_of_the_table_goes_as_low(name, arguments, chain):
    ends = []
    for theirs in (True, False):
        model = net()
        optimizer = optimizer_of_torch(model.parameters(), name, arguments, None) if theirs else gt.Optimizer(model.parameters(), chain)

        def closure():
            optimizer.zero_grad()
            loss = loss_of(model)
            loss.backward()
            return loss

        for _ in range(5 if theirs else 100):  # each of torch's is up to twenty
            optimizer.step(closure)
        ends.append(loss_of(model).item())
    assert ends[1] <= max(1.1 * ends[0], 1e-6), ends
