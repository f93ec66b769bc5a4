"""trace_torch.py [THREADS [NAME...]]: the networks of trace_models.c and transformer.c in PyTorch: a name and the milliseconds of the fastest of some runs
per line; compiled by torch.compile where that works, and NAME-eager without it."""
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

from torch_transformer import Transformer, labels

torch.set_num_threads(int(sys.argv[1]) if len(sys.argv) > 1 else 2)
torch.manual_seed(1)
wanted = sys.argv[2:]


def best(run, seconds=0.7):
    for _ in range(5):
        run()
    fastest, end = 1e9, time.perf_counter() + seconds
    while time.perf_counter() < end:
        begin = time.perf_counter()
        run()
        fastest = min(fastest, time.perf_counter() - begin)
    return 1e3 * fastest


def report(name, make, *model):
    if wanted and name not in wanted:
        return
    print(f"{name}-eager", best(make(*model)), flush=True)
    try:
        print(name, best(make(*(torch.compile(m) for m in model))), flush=True)
    except Exception as e:  # no compiler, no headers
        print(f"{name}: torch.compile: {str(e).splitlines()[0]}", file=sys.stderr)


def backward_of(x, y):
    def make(model):
        params = list(model.parameters())

        def run():
            for p in params:
                p.grad = None
            F.cross_entropy(model(x), y).backward()

        return run

    return make


def training(model):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01, fused=True)
    x, y = labels(8 * 64, 65).view(8, 64), labels(8 * 64, 65)

    def run():
        optimizer.zero_grad()
        F.cross_entropy(model(x).view(-1, 65), y).backward()
        optimizer.step()

    return run


report("classifier", backward_of(torch.rand(128, 784), labels(128, 10)), nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10)))
report("convolutions", backward_of(torch.rand(128, 1, 28, 28), labels(128, 10)),
       nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(),
                     nn.MaxPool2d(2), nn.Flatten(), nn.Linear(32 * 7 * 7, 10)))
report("transformer", training, Transformer(time=64, size=128, heads=4, blocks=2, symbols=65))
