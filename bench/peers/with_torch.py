"""PyTorch, and what is built on it: with_torch.py torch|torchzero|pytorch_optimizer|gradus."""
import sys
import warnings
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

from peer import THREADS, Missing, main
from tensors import sizes

sys.path.append(str(Path(__file__).resolve().parent.parent))
from torch_transformer import labels, training_step

warnings.filterwarnings("ignore")
torch.set_num_threads(THREADS)
WHO = sys.argv[1]
version = torch.__version__
if WHO == "torchzero":
    from importlib.metadata import version as version_of

    import torchzero as tz

    version = version_of("torchzero")
elif WHO == "pytorch_optimizer":
    from importlib.metadata import version as version_of

    import pytorch_optimizer

    version = version_of("pytorch_optimizer")
elif WHO == "gradus":
    import gradus.torch

    version = gradus.__version__


# ---- optimizer steps ----

CHAINS = {
    "adamw": 'clip_norm(1, dim="global") | adam | weight_decay(0.01) | lr(1e-3)',
    "adam": "adam | lr(1e-3)",
    "lion": "lion | weight_decay(0.01) | lr(1e-3)",
    "seven": "clip_value(1) | weight_decay(1e-3) | lr(2) | adam | weight_decay(0.01) | clip_value(10) | lr(1e-3)",
}


def torch_step(params, rule, how="fused"):
    """The optimizer's step, with the clipping that the rule has."""
    if rule not in ("adamw", "adam"):
        raise Missing("PyTorch has no such rule")
    one = {"fused": {"fused": True}, "foreach": {"foreach": True}}[how]
    if rule == "adam":
        return torch.optim.Adam(params, lr=1e-3, **one).step
    optimizer = torch.optim.AdamW(params, lr=1e-3, weight_decay=0.01, **one)

    def step():
        nn.utils.clip_grad_norm_(params, 1.0)
        optimizer.step()

    return step


def torchzero_step(params, rule, how=""):
    m = tz.m
    modules = {
        "adamw": lambda: [m.ClipNorm(1, dim="global"), m.Adam(), m.WeightDecay(0.01), m.LR(1e-3)],
        "adam": lambda: [m.Adam(), m.LR(1e-3)],
        "lion": lambda: [m.Lion(), m.WeightDecay(0.01), m.LR(1e-3)],
        "seven": lambda: [m.ClipValue(1), m.WeightDecay(1e-3), m.Mul(2), m.Adam(), m.WeightDecay(0.01), m.ClipValue(10), m.LR(1e-3)],
    }[rule]()
    return tz.Optimizer(params, *modules).step


def pytorch_optimizer_step(params, rule, how=""):
    if rule != "lion":
        raise Missing("its AdamW is PyTorch's own")
    return pytorch_optimizer.Lion(params, lr=1e-3, betas=(0.9, 0.99), weight_decay=0.01, weight_decouple=True).step


def gradus_step(params, rule, how=""):
    chain = CHAINS[rule]
    if params[0].dtype is torch.bfloat16:
        chain = chain.replace("adam", 'adam(state="bf16")')
    return gradus.torch.Optimizer(params, chain).step


def step(rule="adamw", dtype="f32", how="fused", **shape):
    kind = torch.bfloat16 if dtype == "bf16" else torch.float32
    params = [torch.full((n,), 0.5, dtype=kind, requires_grad=True) for n in sizes(**shape)]
    grads = [[torch.full_like(p, 1e-3, requires_grad=False) for p in params] for _ in range(2)]
    make = {"torch": torch_step, "torchzero": torchzero_step, "pytorch_optimizer": pytorch_optimizer_step, "gradus": gradus_step}[WHO]
    update, turn = make(params, rule, how), [0]

    def run():
        turn[0] ^= 1
        for p, g in zip(params, grads[turn[0]]):
            p.grad = g
        update()

    for _ in range(3):
        run()
    check = abs(float(params[0][0]))

    def told():
        run()
        return {"check": check}

    return told


def valley(p):
    return (1 - p[0]) ** 2 + 100 * (p[1] - p[0] ** 2) ** 2


def rosenbrock():
    p = torch.tensor([-1.1, 2.5], dtype=torch.float64, requires_grad=True)
    if WHO == "torch":
        optimizer = torch.optim.Adam([p], lr=0.01)

        def run():
            optimizer.zero_grad()
            valley(p).backward()
            optimizer.step()

        return run
    chain = tz.Optimizer([p], tz.m.Adam(), tz.m.LR(0.01)) if WHO == "torchzero" else gradus.torch.Optimizer([p], "adam | lr(0.01)")

    def closure(backward=True):
        loss = valley(p)
        if backward:
            chain.zero_grad()
            loss.backward()
        return loss

    return lambda: chain.step(closure) and None


# ---- networks ----

def backward_of(model, x, y):
    def run():
        for p in model.parameters():
            p.grad = None
        F.cross_entropy(model(x), y).backward()

    return run


def mlp():
    return backward_of(nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10)), torch.rand(128, 784), labels(128, 10))


def conv():
    model = nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(),
                          nn.MaxPool2d(2), nn.Flatten(), nn.Linear(32 * 7 * 7, 10))
    return backward_of(model, torch.rand(128, 1, 28, 28), labels(128, 10))


def transformer():
    return training_step(rows=8, time=64, size=128, heads=4, blocks=2, symbols=65)


# ---- derivatives ----

def chained(x):
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


def start(size):
    x = torch.ones(int(float(size)), dtype=torch.float64)
    x[::2] = -1.2
    return x


def gradient(size):
    x = start(size).requires_grad_()

    def run():
        f = chained(x)
        torch.autograd.grad(f, x)
        return {"check": f.item()}

    return run


def product(size):
    x = start(size)
    v = torch.ones_like(x)
    return lambda: {"check": abs(torch.autograd.functional.hvp(chained, x, v)[1][0].item())}


def hessian(size):
    x = start(size)
    return lambda: {"check": abs(torch.func.hessian(chained)(x)[0, 0].item())}


kinds = {"step": step, "rosenbrock": rosenbrock}
if WHO == "torch":
    kinds |= {"mlp": mlp, "conv": conv, "transformer": transformer, "gradient": gradient, "product": product, "hessian": hessian}
main(version, kinds)
