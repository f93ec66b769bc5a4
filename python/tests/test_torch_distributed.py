"""gradus.torch with torch's own tools for several processes: two of them, over gloo."""
import os
import socket
import tempfile

import pytest

torch = pytest.importorskip("torch")
if not hasattr(torch.Tensor, "__dlpack_c_exchange_api__") or not torch.distributed.is_available():
    pytest.skip("gradus.torch needs a later PyTorch, with its distributed part", allow_module_level=True)

CHAIN = 'adam(eps_at="corrected") | weight_decay(0.1) | lr(1e-2)'


def net():
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)).double()


def batch(step, rank=None):
    g = torch.Generator().manual_seed(step)
    x, y = torch.randn(8, 6, dtype=torch.double, generator=g), torch.randn(8, 1, dtype=torch.double, generator=g)
    return (x, y) if rank is None else (x[4 * rank:4 * rank + 4], y[4 * rank:4 * rank + 4])


def train(model, optimizer, steps, rank=None):
    for step in steps:
        x, y = batch(step, rank)
        optimizer.zero_grad()
        ((model(x) - y) ** 2).mean().backward()
        optimizer.step()


def alone(steps=6):
    model = net()
    train(model, torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.1), range(steps))
    return [p.detach() for p in model.parameters()]


def near(model, want):
    assert all((p.detach() - q).abs().max() <= 1e-12 for p, q in zip(model.parameters(), want))


def ddp(rank, folder):
    import gradus.torch as gt

    # gradients are views into buckets, which begin at any address
    model = torch.nn.parallel.DistributedDataParallel(net(), gradient_as_bucket_view=True)
    train(model, gt.Optimizer(model.parameters(), CHAIN), range(6), rank)
    near(model, alone())


def zero(rank, folder):
    import gradus.torch as gt
    from torch.distributed.optim import ZeroRedundancyOptimizer

    model = torch.nn.parallel.DistributedDataParallel(net())
    optimizer = ZeroRedundancyOptimizer(model.parameters(), gt.Optimizer, chain=CHAIN)
    train(model, optimizer, range(3), rank)
    optimizer.param_groups[0]["lr"] = 1e-2
    train(model, optimizer, range(3, 6), rank)
    near(model, alone())
    optimizer.consolidate_state_dict()
    if rank == 0:
        assert len(optimizer.state_dict()["state"]) == 4


def checkpoint(rank, folder):
    import gradus.torch as gt
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

    model = torch.nn.parallel.DistributedDataParallel(net())
    optimizer = gt.Optimizer(model.parameters(), CHAIN)
    train(model, optimizer, range(3), rank)
    weights, state = get_state_dict(model, optimizer)
    dcp.save({"model": weights, "optimizer": state}, checkpoint_id=folder)
    other = torch.nn.parallel.DistributedDataParallel(net())
    fresh = gt.Optimizer(other.parameters(), CHAIN)
    weights, state = get_state_dict(other, fresh)
    saved = {"model": weights, "optimizer": state}
    dcp.load(saved, checkpoint_id=folder)
    set_state_dict(other, fresh, model_state_dict=saved["model"], optim_state_dict=saved["optimizer"])
    train(other, fresh, range(3, 6), rank)
    near(other, alone())


def process(rank, port, name, folder):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank), WORLD_SIZE="2")
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", rank=rank, world_size=2)
    try:
        {"ddp": ddp, "zero": zero, "checkpoint": checkpoint}[name](rank, folder)
    finally:
        torch.distributed.destroy_process_group()


@pytest.mark.parametrize("name", ["ddp", "zero", "checkpoint"])
def test_two_processes_train_as_one(name):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(process, (port, name, folder), nprocs=2)
