"""What bench/gpu/gpu.c is compared with, on the first GPU: prints one number per line, in seconds.

torch's fused AdamW over the tensors of GPT-2 small, and over 1000 tensors of 1000; a training step of the transformer of
bench/gpu/gpu_train.c, eager, in f32 and in bf16.
"""
import math
import time

import torch

from peers.tensors import sizes
from torch_transformer import training_step

device = torch.device("cuda")
torch.backends.cuda.matmul.allow_tf32 = False


def best(step, count, rounds=7):
    least = math.inf
    for r in range(rounds):
        torch.cuda.synchronize()
        begun = time.perf_counter()
        for _ in range(count):
            step()
        torch.cuda.synchronize()
        took = (time.perf_counter() - begun) / count
        if r:
            least = min(least, took)
    return least


def fused_adamw(sizes, count):
    params = [torch.full((n,), 0.5, device=device, requires_grad=True) for n in sizes]
    for p in params:
        p.grad = torch.full_like(p, 1e-3)
    return best(torch.optim.AdamW(params, lr=1e-3, weight_decay=0.01, fused=True).step, count)


def train(dtype):
    torch.manual_seed(1)
    return best(training_step(rows=16, time=256, size=384, heads=6, blocks=6, symbols=65, device=device, dtype=dtype), 20)


for value in (
    lambda: fused_adamw(sizes(shape="gpt2"), 50),
    lambda: fused_adamw([1000] * 1000, 20),
    lambda: train(torch.float32),
    lambda: train(torch.bfloat16),
):
    print(value(), flush=True)
    torch.cuda.empty_cache()
