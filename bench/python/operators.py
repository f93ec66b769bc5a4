"""Operators beside PyTorch's, one row per operator, shape and dtype, forward and with the gradient: ./dev bench operators [NAME...]

A NAME chooses the rows whose text has it.  Rounds of both are interleaved, medians compared, two threads each.  A row above its
limit, which is 1.5 unless the table says why not, makes the exit status 1.  Without PyTorch the times stand alone.  --quick calls
everything once and compares the results."""
import os
import statistics
import sys
import time

os.environ.setdefault("GRADUS_THREADS", "2")
os.environ.setdefault("OMP_NUM_THREADS", "2")
os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # else torch's waiting threads are measured
import numpy as np

import gradus as gd

try:
    import torch
    import torch.nn.functional as nn

    torch.set_num_threads(2)
except ImportError:
    torch = nn = None

LIMIT = 1.5
MILLION = 1_000_000
random = np.random.default_rng(0)


def unit(*shape):
    return random.random(shape) * 0.9 + 0.05


def both(name, **options):
    """The operator of that name in both."""
    return getattr(gd, name), getattr(torch, options.get("torch", name), None)


def same(f):
    return f, f


# name, (ours, theirs), operands, indices, limit if it is not 1.5 (forward, with gradient)
def element_wise():
    x, y = unit(MILLION), unit(MILLION)
    for k in (2, 3, -1, -2, 0.5, 1.7):
        yield f"x**{k}", same(lambda x, k=k: x**k), [x], [], {}
    for name in ("sin cos tan asin acos atan sinh cosh tanh exp expm1 log log1p log2 log10 erf erfc sigmoid sqrt").split():
        yield name, both(name), [x], [], {}
    yield "softplus", (gd.softplus, nn and nn.softplus), [x], [], {}
    yield "gelu", (gd.gelu, nn and nn.gelu), [x], [], {}
    # a scalar function of the C library, and sums of series
    yield "lgamma", both("lgamma"), [x], [], {"limit": 6}
    yield "digamma", (lambda x: gd.polygamma(x, 0), torch and torch.digamma), [x], [], {"limit": 30}
    yield "2**x", same(lambda x: 2.0**x), [x], [], {}
    yield "atan2", both("atan2"), [x, y], [], {}
    yield "mod", (gd.mod, torch and torch.remainder), [x, y], [], {"gradient": False}
    yield "pow", same(lambda x, y: x**y), [x, y], [], {}


def extreme(name):
    of = getattr(torch, "a" + name, None)
    return lambda axis: (lambda x: getattr(gd, name)(x, axis), lambda x: of(x) if axis is None else of(x, axis))


def reduction(name):
    def of(axis):
        def theirs(x):
            if axis is not None or name == "sum":
                return getattr(torch, name)(x, axis)
            return torch.logsumexp(x, (0, 1)) if name == "logsumexp" else getattr(torch, name)(x)

        return lambda x: getattr(gd, name)(x, axis), theirs

    return of


def reductions():
    for shape in ((1000, 1000), (MILLION, 3), (3, MILLION)):
        x = unit(*shape)
        for name in ("sum", "mean", "prod", "logsumexp", "max", "min"):
            for axis in (0, 1, None):
                make = extreme(name) if name in ("max", "min") else reduction(name)
                yield f"{name} {axis}", make(axis), [x], [], {}
        for name in ("softmax", "log_softmax"):
            for axis in (0, 1):
                # PyTorch's kernels for a few long columns read them once
                wide = {"limit": 2} if shape == (3, MILLION) and axis == 0 else {}
                yield f"{name} {axis}", reduction(name)(axis), [x], [], wide
        for axis in (0, 1):
            ours = lambda x, axis=axis: gd.norm(x, 2.0, axis)
            # squares are written to memory and then added
            yield f"norm {axis}", (ours, lambda x, axis=axis: torch.linalg.vector_norm(x, 2, axis)), [x], [], {"limit": 2.5}
    x = unit(1000, 1000)
    yield "sum of x.T", (lambda x: gd.sum(x.T), lambda x: torch.sum(x.T)), [x], [], {}
    yield "mean 0 of x.T", (lambda x: gd.mean(x.T, 0), lambda x: torch.mean(x.T, 0)), [x], [], {}
    rows = [unit(64, 1000), unit(1000), unit(1000)]
    yield "layer_norm", (lambda *a: gd.layer_norm(a[0], -1, a[1], a[2]), lambda *a: nn.layer_norm(a[0], (1000,), *a[1:])), rows, [], {}


def indexing():
    x, many = unit(1000, 1000), random.integers(0, 1000, MILLION)
    place = random.integers(0, 1000, (1000, 1000))
    # sums into places keep their order, on one thread
    ordered = {"limit": 3}
    yield "gather", (lambda x, i: gd.gather(x, 1, i), lambda x, i: torch.gather(x, 1, i)), [x], [place], ordered
    yield "index_select", (lambda x, i: gd.index_select(x, 0, i), lambda x, i: torch.index_select(x, 0, i)), [unit(MILLION)], [many], ordered
    values = [unit(1000), unit(MILLION)]
    yield "scatter_add", (lambda x, v, i: gd.scatter_add(x, 0, i, v), lambda x, v, i: torch.scatter_add(x, 0, i, v)), values, [many], ordered
    # runs of three are collected before they are added
    column = [unit(MILLION, 3), unit(MILLION, 1)]
    yield "column + rows of 3", same(lambda a, b: a + b), column, [], {"limit": 6}


def measured(calls, quick):
    """Seconds per call of each, interleaved."""
    once = {}
    for name, call in calls.items():
        call()
        begin = time.perf_counter()
        call()
        once[name] = time.perf_counter() - begin
    if quick:
        return once
    rounds = 7
    times = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            count = max(1, min(200, int(2e-3 / once[name])))
            begin = time.perf_counter()
            for _ in range(count):
                call()
            times[name].append((time.perf_counter() - begin) / count)
    return {name: statistics.median(t) for name, t in times.items()}


def results(row):
    value = row["gradus"]()
    return [np.asarray(t.numpy()) for t in (value if isinstance(value, (list, tuple)) else [value])]


def calls_of(functions, operands, indices, dtype, gradient):
    ours, theirs = functions
    x = [gd.tensor(a, dtype=dtype, requires_grad=gradient) for a in operands]
    i = [gd.tensor(a) for a in indices]
    seed = gd.ones(ours(*x, *i).shape, dtype) if gradient else None
    calls = {"gradus": (lambda: gd.grad(ours(*x, *i), x, seed=seed)) if gradient else (lambda: ours(*x, *i))}
    if torch:
        kind = {"f32": torch.float32, "f64": torch.float64}[dtype]
        tx = [torch.tensor(a, dtype=kind, requires_grad=gradient) for a in operands]
        ti = [torch.tensor(a) for a in indices]
        ones = torch.ones(tuple(theirs(*tx, *ti).shape), dtype=kind) if gradient else None
        calls["torch"] = (
            (lambda: torch.autograd.grad(theirs(*tx, *ti), tx, grad_outputs=ones)) if gradient else (lambda: theirs(*tx, *ti))
        )
    return calls


def agree(calls, dtype):
    if "torch" not in calls:
        return True
    value = calls["torch"]()
    wanted = [t.numpy() for t in (value if isinstance(value, (list, tuple)) else [value])]
    near = 1e-3 if dtype == "f32" else 1e-9
    return all(np.allclose(a, b, rtol=near, atol=near) for a, b in zip(results(calls), wanted))


def main(arguments):
    quick = "--quick" in arguments
    names = [a for a in arguments if not a.startswith("-")]
    missed = 0
    print(f"{'operator':22} {'shape':14} dtype  {'':8} {'gradus us':>10} {'torch us':>10} {'ratio':>6} {'limit':>6}")
    for table in (element_wise, reductions, indexing):
        for name, functions, operands, indices, facts in table():
            shape = " x ".join(str(n) for n in operands[0].shape)
            if names and not any(n in f"{name} {shape}" for n in names):
                continue
            for dtype in ("f32", "f64"):
                for gradient in (False, True)[: 2 if facts.get("gradient", True) else 1]:
                    calls = calls_of(functions, operands, indices, dtype, gradient)
                    right = gradient or agree(calls, dtype)
                    time_of = measured(calls, quick)
                    theirs = time_of.get("torch")
                    limit = facts.get("limit", LIMIT)
                    ratio = time_of["gradus"] / theirs if theirs else 0
                    bad = not right or (ratio > limit and not quick)
                    missed += bad
                    print(
                        f"{name:22} {shape:14} {dtype}  {'+ grad' if gradient else 'forward':8} {time_of['gradus'] * 1e6:10.1f} "
                        + (f"{theirs * 1e6:10.1f} {ratio:6.2f} {limit:6.1f}" if theirs else f"{'-':>10} {'-':>6} {limit:6.1f}")
                        + ("  DIFFERENT" if not right else "  ABOVE ITS LIMIT" if bad else ""),
                        flush=True,
                    )
    if missed:
        print(f"{missed} rows above their limit or with different results")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
