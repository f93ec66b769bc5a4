"""torch_ddp.py [PROCESSES]: median seconds of a training step of a 784-256-10 network, batch 1024 over all processes, Adam:
DistributedDataParallel with ZeroRedundancyOptimizer over gloo, one thread a process."""
import statistics
import sys
import time
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

BATCH = 1024


def work(rank, size, meeting):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=size)
    torch.manual_seed(0)
    rows = BATCH // size
    x = torch.rand(rows, 784)
    labels = torch.arange(rows) * 7 % 10
    net = DistributedDataParallel(
        torch.nn.Sequential(torch.nn.Linear(784, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10)))
    opt = ZeroRedundancyOptimizer(net.parameters(), optimizer_class=torch.optim.Adam, lr=1e-3)

    def step():
        opt.zero_grad()
        torch.nn.functional.cross_entropy(net(x), labels).backward()
        opt.step()

    for _ in range(10):
        step()
    took = []
    for _ in range(60):
        dist.barrier()
        begun = time.perf_counter()
        step()
        took.append(time.perf_counter() - begun)
    if rank == 0:
        print(statistics.median(took), flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(work, (count, f"{folder}/meeting"), nprocs=count)
