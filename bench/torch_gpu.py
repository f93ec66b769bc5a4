"""What bench/gpu.c is compared with, on the first GPU: prints one number a line, in seconds.

torch's fused AdamW over the tensors of GPT-2 small, and over 1000 tensors of 1000; a training step of the transformer in
bench/gpu_train.c, eager, in f32 and in bf16.
"""
import math
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

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


def gpt2_sizes():
    layer = [768, 768, 768 * 2304, 2304, 768 * 768, 768, 768, 768, 768 * 3072, 3072, 3072 * 768, 768]
    return [50257 * 768, 1024 * 768] + layer * 12 + [768, 768]


BATCH, TIME, SIZE, HEADS, BLOCKS, SYMBOLS = 16, 256, 384, 6, 6, 65


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(SIZE), nn.LayerNorm(SIZE)
        self.qkv, self.out = nn.Linear(SIZE, 3 * SIZE), nn.Linear(SIZE, SIZE)
        self.up, self.down = nn.Linear(SIZE, 4 * SIZE), nn.Linear(4 * SIZE, SIZE)

    def forward(self, x):
        n, t, _ = x.shape
        q, k, v = (y.view(n, t, HEADS, SIZE // HEADS).transpose(1, 2) for y in self.qkv(self.norm1(x)).split(SIZE, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(n, t, SIZE))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Chars(nn.Module):
    def __init__(self):
        super().__init__()
        self.symbols, self.places = nn.Embedding(SYMBOLS, SIZE), nn.Embedding(TIME, SIZE)
        self.layers = nn.Sequential(*(Block() for _ in range(BLOCKS)), nn.LayerNorm(SIZE), nn.Linear(SIZE, SYMBOLS))

    def forward(self, x):
        return self.layers(self.symbols(x) + self.places(torch.arange(x.shape[1], device=device)))


def train(dtype):
    torch.manual_seed(1)
    model = Chars().to(device, dtype)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01, fused=True)
    x = torch.randint(SYMBOLS, (BATCH, TIME), device=device)
    y = torch.randint(SYMBOLS, (BATCH * TIME,), device=device)

    def step():
        optimizer.zero_grad()
        F.cross_entropy(model(x).view(-1, SYMBOLS).float(), y).backward()
        optimizer.step()

    return best(step, 20)


for value in (
    lambda: fused_adamw(gpt2_sizes(), 50),
    lambda: fused_adamw([1000] * 1000, 20),
    lambda: train(torch.float32),
    lambda: train(torch.bfloat16),
):
    print(value(), flush=True)
    torch.cuda.empty_cache()
