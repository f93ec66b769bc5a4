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
    optimizer.consolidate_state_dict()
    box = [optimizer.state_dict() if rank == 0 else None]
    torch.distributed.broadcast_object_list(box)
    saved = box[0]
    assert len(saved["state"]) == 4
    other = torch.nn.parallel.DistributedDataParallel(net())
    other.load_state_dict(model.state_dict())
    fresh = ZeroRedundancyOptimizer(other.parameters(), gt.Optimizer, chain=CHAIN)
    fresh.load_state_dict(saved)
    for mine, its in ((model, optimizer), (other, fresh)):
        its.param_groups[0]["lr"] = 1e-2
        train(mine, its, range(3, 6), rank)
        near(mine, alone())


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


def fsdp(rank, folder):
    """fully_shard: links that work on pieces do; versions are raised on the piece and on what holds it; others are refused by name."""
    import gradus.torch as gt
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cpu", (2,))

    def sharded():
        model = net()
        for layer in (model[0], model[2]):
            fully_shard(layer, mesh=mesh)
        return fully_shard(model, mesh=mesh)

    model = sharded()
    optimizer = gt.Optimizer(model.named_parameters(), CHAIN)
    p = model[0].weight
    version, outer = p._local_tensor._version, p._version
    train(model, optimizer, range(3), rank)
    assert p._local_tensor._version > version and p._version > outer and p._local_tensor.grad is None
    assert p._local_tensor.shape == (4, 6) and optimizer.state[p]["exp_avg"].shape == (8, 6)
    weights, state = get_state_dict(model, optimizer)
    dcp.save({"model": weights, "optimizer": state}, checkpoint_id=folder)
    other = sharded()
    fresh = gt.Optimizer(other.named_parameters(), CHAIN)
    weights, state = get_state_dict(other, fresh)
    saved = {"model": weights, "optimizer": state}
    dcp.load(saved, checkpoint_id=folder)
    set_state_dict(other, fresh, model_state_dict=saved["model"], optim_state_dict=saved["optimizer"])
    train(other, fresh, range(3, 6), rank)
    for mine, want in zip(other.parameters(), alone()):
        assert (mine.full_tensor() - want).abs().max() <= 1e-12
    for chain, who in (("clip_norm(1) | adam | lr(1e-2)", "clip_norm"), ("adam | lbfgs | lr(1)", "lbfgs"), ("nag | orthogonalize | lr(1)", "orthogonalize"),
                       ("adafactor | lr(1)", "adafactor"), ("adam | dropout | lr(1)", "dropout")):
        try:
            gt.Optimizer(other.named_parameters(), chain)
        except ValueError as e:
            assert f"parameter '0.weight' is spread over processes, and '{who}' needs more" in str(e)
        else:
            raise AssertionError(f"{chain} was taken")
    whole = [torch.distributed.tensor.distribute_tensor(torch.ones(4), mesh, [torch.distributed.tensor.Replicate()]).requires_grad_()]
    plain = gt.Optimizer(whole, "clip_norm(1) | lr(1)")  # all of it is here
    whole[0].grad = torch.distributed.tensor.distribute_tensor(torch.full((4,), 5.0), mesh, [torch.distributed.tensor.Replicate()])
    plain.step()
    assert torch.allclose(whole[0].to_local(), torch.full((4,), 0.5))


def process(rank, port, name, folder):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK=str(rank), WORLD_SIZE="2")
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", rank=rank, world_size=2)
    try:
        {"ddp": ddp, "zero": zero, "checkpoint": checkpoint, "fsdp": fsdp}[name](rank, folder)
    finally:
        torch.distributed.destroy_process_group()


@pytest.mark.parametrize("name", ["ddp", "zero", "checkpoint", "fsdp"])
def test_two_processes_train_as_one(name):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(process, (port, name, folder), nprocs=2)
