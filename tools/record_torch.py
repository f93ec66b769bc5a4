#!/usr/bin/env python3
"""record_torch.py [OUT]: runs of PyTorch's optimizers in f64, written as tests/golden/torch.jsonl has them.

Each line is a chain of ours and what the optimizer of PyTorch that it stands for did: loss before and parameters after each of
50 steps.  Needs PyTorch 2.9 or newer; the recorded file is committed, so tests do not.

Muon rounds to bf16 inside, where sums in another order end in other bits: it is recorded with f64 in place of bf16, its code
untouched.  It divides by max(norm, 1e-7) where Jordan et al. and our orthogonalize divide by norm + 1e-7: a gradient times 1e9, which
changes nothing else, makes them one."""
import json
import sys
from pathlib import Path

import numpy
import torch
import torch.optim._muon as torch_muon

torch.set_default_dtype(torch.float64)  # or step counts and NAdam's product of momenta are f32

STEPS = 50
EXPR = ("0.5*sum((p-1)^2) - 0.1*sum(cos(3*p)) + 0.05*(sum(p)+sum(q))^2 + 0.3*sum((q-p[1])^2) "
        "+ 0.7*(p[0]-2*q[2])^2")
START = {"p": [1.3, -0.7, 0.4, 2.1], "q": [-1.6, 0.9, -0.3]}

MATRIX_EXPR = "0.5*sum((p-0.3)^2) + 0.2*sum((p@q-1)^2) - 0.1*sum(cos(3*q))"
MATRIX_START = {"p": [[1.3, -0.7, 0.4], [2.1, 0.2, -1.1]], "q": [[-1.6, 0.9], [-0.3, 0.5], [0.8, -1.2]]}


def loss_of(p, q):
    return (0.5 * ((p - 1) ** 2).sum() - 0.1 * torch.cos(3 * p).sum() + 0.05 * (p.sum() + q.sum()) ** 2
            + 0.3 * ((q - p[1]) ** 2).sum() + 0.7 * (p[0] - 2 * q[2]) ** 2)


def matrix_loss_of(p, q):
    return (0.5 * ((p - 0.3) ** 2).sum() + 0.2 * ((p @ q - 1) ** 2).sum() - 0.1 * torch.cos(3 * q).sum())


o = torch.optim
MUON = 'mul(1e9) | nag(%g) | orthogonalize(%d, adjust_lr=%s, precision="full")'
RUNS = [
    ("lr(0.05)", lambda x: o.SGD(x, lr=0.05)),
    ("weight_decay(0.1) | lr(0.05)", lambda x: o.SGD(x, lr=0.05, weight_decay=0.1)),
    ('heavy_ball(0.8, ema_init="zeros") | lr(0.03)', lambda x: o.SGD(x, lr=0.03, momentum=0.8)),
    ('weight_decay(0.1) | heavy_ball(0.8, dampening=0.3, ema_init="first") | lr(0.03)',
     lambda x: o.SGD(x, lr=0.03, momentum=0.8, dampening=0.3, weight_decay=0.1)),
    ("sgd(0.03, 0.8, 0.3, 0.1)", lambda x: o.SGD(x, lr=0.03, momentum=0.8, dampening=0.3, weight_decay=0.1)),
    ("sgd(0.03, 0.8, 0, 0.1, true)",
     lambda x: o.SGD(x, lr=0.03, momentum=0.8, nesterov=True, weight_decay=0.1)),
    ("sgd(-0.005, 0.5, 0.2, -0.02)",
     lambda x: o.SGD(x, lr=0.005, momentum=0.5, dampening=0.2, weight_decay=0.02, maximize=True)),
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

# steps of lr below 1/sqrt(50), where PyTorch's bound of them does not act
MATRIX_RUNS = [
    ("adafactor | lr(0.05)", lambda x: o.Adafactor(x, lr=0.05)),
    ("adafactor(0.5, eps2=0.2, clip=1.2) | weight_decay(0.1) | lr(0.03)",
     lambda x: o.Adafactor(x, lr=0.03, beta2_decay=-0.5, eps=(None, 0.2), d=1.2, weight_decay=0.1)),
    (MUON % (0.95, 5, "true") + " | weight_decay(0.1) | lr(0.02)",
     lambda x: o.Muon(x, lr=0.02, adjust_lr_fn="match_rms_adamw")),
    (MUON % (0.95, 5, "false") + ' | split("q", mul(%r)) | weight_decay(0.1) | lr(0.02)' % 1.5 ** 0.5,
     lambda x: o.Muon(x, lr=0.02)),
    ('mul(1e9) | heavy_ball(0.8, ema_init="zeros") | orthogonalize(3, precision="full") | split("q", mul(%r)) | lr(0.03)'
     % 1.5 ** 0.5,
     lambda x: o.Muon(x, lr=0.03, momentum=0.8, nesterov=False, ns_steps=3, weight_decay=0)),
    # gradients change sign between steps 22 and 28, which makes 1e5 ulps of one: reliable() ends it before
    ("adafactor(0.5, eps2=0.2, clip=1.2) | weight_decay(0.1) | lr(0.1)",
     lambda x: o.Adafactor(x, lr=0.1, beta2_decay=-0.5, eps=(None, 0.2), d=1.2, weight_decay=0.1)),
]


def flat(values):
    return [x for v in values for x in flat(v)] if isinstance(values, list) else [values]


def run(make, start, loss_of, nudge=0.0):
    params = {n: torch.tensor(v, dtype=torch.float64) for n, v in start.items()}
    params["p"].view(-1)[0] += nudge
    for t in params.values():
        t.requires_grad_()
    optimizer = make(list(params.values()))
    losses, trace = [], []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = loss_of(params["p"], params["q"])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        trace.append([x for t in params.values() for x in flat(t.tolist())])
    return losses, trace


def reliable(make, start, loss_of, trace):
    """How long a run from an ulp away stays within 1e-13 of the largest number: what follows says nothing about rounding."""
    _, other = run(make, start, loss_of, nudge=2.3e-16)
    for step, (a, b) in enumerate(zip(trace, other)):
        if max(abs(x - y) for x, y in zip(a, b)) > 1e-13 * max(map(abs, a)):
            return step
    return STEPS


def record(number, chain, make, problem, expr, start, loss_of):
    losses, trace = run(make, start, loss_of)
    return {"id": f"torch{number:02d}", "chain": chain, "problem": problem, "expr": expr,
            "params": {n: f"@torch_{n}" if isinstance(v[0], list) else v for n, v in start.items()}, "data": {},
            "steps": STEPS, "reliable": reliable(make, start, loss_of, trace), "rtol": 1e-12, "losses": losses, "evals": list(range(1, STEPS + 1)),
            "trace": trace}


def main():
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent.parent / "tests/golden/torch.jsonl"
    runs = [(*row, "coupled", EXPR, START, loss_of) for row in RUNS]
    runs += [(*row, "matrices", MATRIX_EXPR, MATRIX_START, matrix_loss_of) for row in MATRIX_RUNS]
    torch_muon.torch.bfloat16 = torch.float64
    for name, values in MATRIX_START.items():  # matrices are arrays of their own, "@torch_p"
        numpy.save(out.parent / "data" / f"torch_{name}.npy", numpy.array(values))
    with open(out, "w", encoding="utf-8") as f:
        for number, row in enumerate(runs, 1):
            f.write(json.dumps(record(number, *row)) + "\n")
    print(f"{len(runs)} runs of PyTorch {torch.__version__} in {out}")


main()
