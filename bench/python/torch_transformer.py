"""The character transformer of transformer.h in PyTorch: what it is compared with, on the CPU and on a GPU."""
import torch
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    def __init__(self, size, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(size), nn.LayerNorm(size)
        self.qkv, self.out = nn.Linear(size, 3 * size), nn.Linear(size, size)
        self.up, self.down = nn.Linear(size, 4 * size), nn.Linear(4 * size, size)

    def forward(self, x):
        n, t, size = x.shape
        q, k, v = (y.view(n, t, self.heads, size // self.heads).transpose(1, 2) for y in self.qkv(self.norm1(x)).split(size, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(n, t, size))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Transformer(nn.Module):
    def __init__(self, time, size, heads, blocks, symbols):
        super().__init__()
        self.symbols, self.places = nn.Embedding(symbols, size), nn.Embedding(time, size)
        self.layers = nn.Sequential(*(Block(size, heads) for _ in range(blocks)), nn.LayerNorm(size), nn.Linear(size, symbols))

    def forward(self, x):
        return self.layers(self.symbols(x) + self.places(torch.arange(x.shape[1], device=x.device)))


def labels(count, below, device=None):
    """The same in every benchmark."""
    return (torch.arange(count, device=device) * 7919 + 13) % below


def training_step(rows, time, size, heads, blocks, symbols, device=None, dtype=torch.float32):
    """A function that takes a step of AdamW."""
    model = Transformer(time, size, heads, blocks, symbols).to(device, dtype)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01, fused=True)
    x, y = labels(rows * time, symbols, device).view(rows, time), labels(rows * time, symbols, device)

    def step():
        optimizer.zero_grad()
        F.cross_entropy(model(x).view(-1, symbols).float(), y).backward()
        optimizer.step()

    return step
