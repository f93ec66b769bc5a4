#!/usr/bin/env python3
"""record_torch.py [OUT]: runs of PyTorch's optimizers in f64, written as tests/golden/torch.jsonl has them.

Each line is a chain of ours and what the optimizer of PyTorch that it stands for did: loss before and parameters after each of
50 steps.  Needs PyTorch; the recorded file is committed, so tests do not."""
import json
import sys
from pathlib import Path

import torch

torch.set_default_dtype(torch.float64)  # or step counts and NAdam's product of momenta are f32

STEPS = 50
EXPR = ("0.5*sum((p-1)^2) - 0.1*sum(cos(3*p)) + 0.05*(sum(p)+sum(q))^2 + 0.3*sum((q-p[1])^2) "
        "+ 0.7*(p[0]-2*q[2])^2")
START = {"p": [1.3, -0.7, 0.4, 2.1], "q": [-1.6, 0.9, -0.3]}


def loss_of(p, q):
    return (0.5 * ((p - 1) ** 2).sum() - 0.1 * torch.cos(3 * p).sum() + 0.05 * (p.sum() + q.sum()) ** 2
            + 0.3 * ((q - p[1]) ** 2).sum() + 0.7 * (p[0] - 2 * q[2]) ** 2)


o = torch.optim
RUNS = [
    ("lr(0.05)", lambda x: o.SGD(x, lr=0.05)),
    ("weight_decay(0.1) | lr(0.05)", lambda x: o.SGD(x, lr=0.05, weight_decay=0.1)),
    ('heavy_ball(0.8, ema_init="zeros") | lr(0.03)', lambda x: o.SGD(x, lr=0.03, momentum=0.8)),
    ('weight_decay(0.1) | heavy_ball(0.8, dampening=0.3, ema_init="first") | lr(0.03)',
     lambda x: o.SGD(x, lr=0.03, momentum=0.8, dampening=0.3, weight_decay=0.1)),
    ("sgd(0.03, 0.8, 0.3, 0.1)", lambda x: o.SGD(x, lr=0.03, momentum=0.8, dampening=0.3, weight_decay=0.1)),
    ("weight_decay(0.1) | nag(0.8) | lr(0.03)",
     lambda x: o.SGD(x, lr=0.03, momentum=0.8, nesterov=True, weight_decay=0.1)),
    ('weight_decay(-0.02) | heavy_ball(0.5, ema_init="zeros") | lr(-0.005)',
     lambda x: o.SGD(x, lr=0.005, momentum=0.5, weight_decay=0.02, maximize=True)),
    ('adam(eps_at="corrected") | lr(0.05)', lambda x: o.Adam(x, lr=0.05)),
    ('weight_decay(0.1) | adam(0.8, 0.95, 0.01, amsgrad=true, eps_at="corrected") | lr(0.05)',
     lambda x: o.Adam(x, lr=0.05, betas=(0.8, 0.95), eps=0.01, amsgrad=True, weight_decay=0.1)),
    ('adam(eps_at="corrected") | weight_decay(0.01) | lr(0.05)', lambda x: o.AdamW(x, lr=0.05)),
    ('adam(0.8, 0.95, 0.01, amsgrad=true, eps_at="corrected") | weight_decay(0.1) | lr(0.05)',
     lambda x: o.AdamW(x, lr=0.05, betas=(0.8, 0.95), eps=0.01, amsgrad=True, weight_decay=0.1)),
    ("nadam(momentum_decay=0.004) | lr(0.05)", lambda x: o.NAdam(x, lr=0.05)),
    ("weight_decay(0.1) | nadam(0.8, 0.95, 0.01, momentum_decay=0.1) | lr(0.02)",
     lambda x: o.NAdam(x, lr=0.02, betas=(0.8, 0.95), eps=0.01, momentum_decay=0.1, weight_decay=0.1)),
    ('radam(eps_at="raw") | lr(0.05)', lambda x: o.RAdam(x, lr=0.05)),
    ('weight_decay(0.1) | radam(0.8, 0.9, 0.01, eps_at="raw") | lr(0.05)',
     lambda x: o.RAdam(x, lr=0.05, betas=(0.8, 0.9), eps=0.01, weight_decay=0.1)),
    ("adamax | lr(0.05)", lambda x: o.Adamax(x, lr=0.05)),
    ("weight_decay(0.1) | adamax(0.8, 0.95, 0.01) | lr(0.05)",
     lambda x: o.Adamax(x, lr=0.05, betas=(0.8, 0.95), eps=0.01, weight_decay=0.1)),
    ("adadelta | lr(1)", lambda x: o.Adadelta(x, lr=1.0)),
    ("weight_decay(0.1) | adadelta(0.8, 0.001) | lr(0.5)",
     lambda x: o.Adadelta(x, lr=0.5, rho=0.8, eps=0.001, weight_decay=0.1)),
    ("adagrad | lr(0.3)", lambda x: o.Adagrad(x, lr=0.3)),
    ("weight_decay(0.1) | adagrad(lr_decay=%r, initial_accumulator_value=0.2, eps=0.01, alpha=%r) | lr(0.3)"
     % (0.1 / 0.9, 1 / 0.9),
     lambda x: o.Adagrad(x, lr=0.3, lr_decay=0.1, initial_accumulator_value=0.2, eps=0.01, weight_decay=0.1)),
    ("rmsprop | lr(0.02)", lambda x: o.RMSprop(x, lr=0.02)),
    ('weight_decay(0.1) | rmsprop(0.9, 0.01, centered=true) | heavy_ball(0.6, ema_init="zeros") | lr(0.02)',
     lambda x: o.RMSprop(x, lr=0.02, alpha=0.9, eps=0.01, centered=True, momentum=0.6, weight_decay=0.1)),
    ("rprop(backtrack=false, alpha=0.01)", lambda x: o.Rprop(x, lr=0.01)),
    ("rprop(1.3, 0.4, 0.001, 0.2, backtrack=false, alpha=0.05)",
     lambda x: o.Rprop(x, lr=0.05, etas=(0.4, 1.3), step_sizes=(0.001, 0.2))),
    ("asgd", lambda x: o.ASGD(x)),
    ("weight_decay(0.1) | asgd(0.05, 0.1, 0.6, 10)",
     lambda x: o.ASGD(x, lr=0.05, lambd=0.1, alpha=0.6, t0=10, weight_decay=0.1)),
]


def record(number, chain, make):
    params = {n: torch.tensor(v, dtype=torch.float64, requires_grad=True) for n, v in START.items()}
    optimizer = make(list(params.values()))
    losses, trace = [], []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = loss_of(params["p"], params["q"])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        trace.append([x for t in params.values() for x in t.tolist()])
    return {"id": f"torch{number:02d}", "chain": chain, "problem": "coupled", "expr": EXPR, "params": START, "data": {},
            "steps": STEPS, "reliable": STEPS, "rtol": 1e-12, "losses": losses, "evals": list(range(1, STEPS + 1)),
            "trace": trace}


def main():
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent.parent / "tests/golden/torch.jsonl"
    with open(out, "w", encoding="utf-8") as f:
        for number, (chain, make) in enumerate(RUNS, 1):
            f.write(json.dumps(record(number, chain, make)) + "\n")
    print(f"{len(RUNS)} runs of PyTorch {torch.__version__} in {out}")


main()
