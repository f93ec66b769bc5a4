"""What bench/gpu/gpu_matrices.c is compared with, on the first GPU: prints one number per line, in seconds per step.

Muon (torch.optim.Muon where PyTorch has it), Shampoo without and with its matrix powers, SOAP without and with its bases, over the
weight matrices of GPT-2 small's blocks: one matrix after the other with eager operators, from the papers' formulas.
GD_BENCH_TINY=1: the same on the CPU with matrices of one block, a sixteenth as wide.
"""
import math
import os
import time

import torch

TINY = "GD_BENCH_TINY" in os.environ
device = torch.device("cpu" if TINY else "cuda")
torch.backends.cuda.matmul.allow_tf32 = False
SHARE = 16 if TINY else 1
SHAPES = [(768, 2304), (768, 768), (768, 3072), (3072, 768)] * (1 if TINY else 12)
MAX_DIM = 2000
if TINY:
    torch.set_num_threads(1)


def wait():
    if not TINY:
        torch.cuda.synchronize()


def best(step, count, rounds=5):
    least = math.inf
    for r in range(rounds):
        wait()
        begun = time.perf_counter()
        for _ in range(count):
            step()
        wait()
        took = (time.perf_counter() - begun) / count
        if r:
            least = min(least, took)
    return least


def matrices():
    torch.manual_seed(1)
    params = [torch.randn(a // SHARE, b // SHARE, device=device).requires_grad_() for a, b in SHAPES]
    for p in params:
        p.grad = torch.randn_like(p)
    return params


def orthogonal(g, steps=5):
    x = g.bfloat16()
    if g.size(0) > g.size(1):
        x = x.T
    x = x / (x.norm() + 1e-7)
    for _ in range(steps):
        a = x @ x.T
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
    return x.T if g.size(0) > g.size(1) else x


class Muon:
    """Jordan et al. 2024, Liu et al. 2025: for a PyTorch without it."""

    def __init__(self, params):
        self.params, self.velocity = params, [torch.zeros_like(p) for p in params]

    @torch.no_grad()
    def step(self):
        for p, v in zip(self.params, self.velocity):
            v.mul_(0.95).add_(p.grad)
            u = orthogonal(p.grad + 0.95 * v) * (0.2 * math.sqrt(max(p.shape)))
            p.mul_(1 - 1e-3 * 0.1).add_(u, alpha=-1e-3)


def has_factor(size):
    return 1 < size <= MAX_DIM


class Shampoo:
    """Gupta, Koren & Singer 2018 with averages: L = b L + (1 - b) G G^T, u = L^(-1/2) G R^(-1/2)."""

    def __init__(self, params, every):
        self.params, self.every, self.count = params, every, 0
        self.factor = [[torch.eye(n, device=device) if has_factor(n) else None for n in p.shape] for p in params]
        self.root = [[None, None] for _ in params]

    @torch.no_grad()
    def step(self):
        for p, factor, root in zip(self.params, self.factor, self.root):
            g = p.grad
            for d, f in enumerate(factor):
                if f is None:
                    continue
                f.lerp_(g @ g.T if d == 0 else g.T @ g, 0.05)
                if self.count % self.every == 0:
                    values, vectors = torch.linalg.eigh(f)
                    root[d] = (vectors * (values + 1e-12).clamp(min=1e-7 * values[-1]).rsqrt()) @ vectors.T
            u = g if root[0] is None else root[0] @ g
            u = u if root[1] is None else u @ root[1]
            p.sub_(u, alpha=1e-3)
        self.count += 1


class Soap:
    """Vyas et al. 2024, algorithm 3."""

    def __init__(self, params, every):
        self.params, self.every, self.count = params, every, 0
        self.factor = [[torch.zeros(n, n, device=device) if has_factor(n) else None for n in p.shape] for p in params]
        self.basis = [[None, None] for _ in params]
        self.m = [torch.zeros_like(p) for p in params]
        self.v = [torch.zeros_like(p) for p in params]

    @staticmethod
    def turned(x, basis, back):
        left, right = basis
        if left is not None:
            x = (left if back else left.T) @ x
        if right is not None:
            x = x @ (right.T if back else right)
        return x

    @torch.no_grad()
    def step(self):
        t = self.count
        for p, factor, basis, m, v in zip(self.params, self.factor, self.basis, self.m, self.v):
            g = p.grad
            if t:
                m.lerp_(g, 0.05)
                v.lerp_(self.turned(g, basis, False).square(), 0.05)
                u = self.turned(m, basis, False) / (v.sqrt() + 1e-8)
                scale = math.sqrt(1 - 0.95 ** t) / (1 - 0.95 ** t)
                p.sub_(self.turned(u, basis, True), alpha=1e-3 * scale)
            for d, f in enumerate(factor):
                if f is None:
                    continue
                f.lerp_(g @ g.T if d == 0 else g.T @ g, 0.05)
                if t == 0:
                    basis[d] = torch.linalg.eigh(f)[1].flip(1)
                elif t % self.every == 0:
                    product = f @ basis[d]
                    order = (basis[d] * product).sum(0).argsort(descending=True)
                    v.copy_(v.index_select(d, order))
                    basis[d] = torch.linalg.qr(product[:, order])[0]
        self.count += 1


def muon():
    params = matrices()
    if hasattr(torch.optim, "Muon"):
        return torch.optim.Muon(params, lr=1e-3, weight_decay=0.1, adjust_lr_fn="match_rms_adamw")
    return Muon(params)


for make, count in (
    (muon, 5),
    (lambda: Shampoo(matrices(), 10 ** 6), 5),
    (lambda: Shampoo(matrices(), 1), 1),
    (lambda: Soap(matrices(), 10 ** 6), 5),
    (lambda: Soap(matrices(), 1), 1),
):
    print(best(make().step, count), flush=True)
    if not TINY:
        torch.cuda.empty_cache()
