"""Operators beside PyTorch's, one row per operator, shape and dtype, forward and with the gradient: ./dev bench operators [NAME...]

A NAME chooses the rows whose text has it.  Rounds of both are interleaved and their fastest calls compared, on one thread, by the
processor's time, so that other programs hardly disturb it; GRADUS_THREADS sets a different number, and times are then those of a clock.
A row above its limit, which is 1.5 unless REASONS says why not, is measured again, and makes the exit status 1 if it stays there.
Without PyTorch the times stand alone.  --quick calls everything once and compares the results.  The whole takes three minutes."""
import os
import subprocess
import sys
import time

os.environ.setdefault("GRADUS_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", os.environ["GRADUS_THREADS"])
os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # else torch's waiting threads are measured
import numpy as np

import gradus as gd

try:
    import torch
    import torch.nn.functional as nn

    torch.set_num_threads(int(os.environ["GRADUS_THREADS"]))
except ImportError:
    torch = nn = None

LIMIT = 1.5
# of one thread the processor's time, which other programs disturb less
clock = time.process_time if os.environ["GRADUS_THREADS"] == "1" else time.perf_counter
MILLION = 1_000_000
random = np.random.default_rng(0)


def unit(*shape):
    return random.random(shape) * 0.9 + 0.05


def both(name, **options):
    """The operator of that name in both."""
    return getattr(gd, name), getattr(torch, options.get("torch", name), None)


def same(f):
    return f, f


# Limits above 1.5, by name, dtype (* for any) and whether there is a gradient (None: either), with the reason.
REASONS = [
    ("gelu", "*", None, 5, "its lower tail has all digits; PyTorch's 0.5 x (1 + erf(x / sqrt 2)) has none there"),
    ("sigmoid", "*", False, 2.3, "without fused multiply-adds, which not every instruction set has: the same bits on all"),
    ("log1p", "f64", None, 2.3, "without fused multiply-adds, as sigmoid; within 1 ULP"),
    ("x**-2", "f32", False, 2, "rounded once: 1 / x^2 is a division of f64"),
    ("index_select", "f32", False, 1.8, "indices are checked before an element is read"),
    ("gather 0", "*", True, 2.5, "sums into places keep the order of the indices, on one thread"),
    ("scatter_add", "*", None, 2.5, "sums into places keep the order of the indices, on one thread"),
    ("product", "bf16", False, 5, "PyTorch has the processor's instructions for bf16, whose sums are rounded in a way of their own"),
]


def limit_of(name, dtype, gradient):
    for of, kind, when, limit, _ in REASONS:
        if of == name and kind in ("*", dtype) and when in (None, gradient):
            return limit
    return LIMIT


# name, (ours, theirs), operands, indices, facts: whether there is a gradient, dtypes, whether signs may differ
def element_wise():
    x, y = unit(MILLION), unit(MILLION)
    for k in (2, 3, -1, -2, 0.5, 1.7):
        yield f"x**{k}", same(lambda x, k=k: x**k), [x], [], {}
    for name in ("sin cos tan asin acos atan sinh cosh tanh exp expm1 log log1p log2 log10 erf erfc sigmoid sqrt lgamma").split():
        yield name, both(name), [x], [], {}
    yield "softplus", (gd.softplus, nn and nn.softplus), [x], [], {}
    yield "gelu", (gd.gelu, nn and nn.gelu), [x], [], {}
    yield "digamma", (lambda x: gd.polygamma(x, 0), torch and torch.digamma), [x], [], {}
    yield "trigamma", (lambda x: gd.polygamma(x, 1), lambda x: torch.polygamma(1, x)), [x], [], {}
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


def mixture(f, log):
    """Logarithm of the density of 1e5 points under three normal distributions."""
    centre, scale = np.array([0.1, 0.4, 0.8]), np.array([0.1, 0.2, 0.1])

    def of(x):
        apart = (x.reshape((-1, 1)) - f(centre, x)) / f(scale, x)
        return log(apart * apart * -0.5 - f(np.log(scale * (2 * np.pi) ** 0.5 * 3), x))

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
                yield f"{name} {axis}", reduction(name)(axis), [x], [], {}
        for axis in (0, 1):
            ours = lambda x, axis=axis: gd.norm(x, 2.0, axis)
            yield f"norm {axis}", (ours, lambda x, axis=axis: torch.linalg.vector_norm(x, 2, axis)), [x], [], {}
    x = unit(1000, 1000)
    yield "sum of x.T", (lambda x: gd.sum(x.T), lambda x: torch.sum(x.T)), [x], [], {}
    yield "mean 0 of x.T", (lambda x: gd.mean(x.T, 0), lambda x: torch.mean(x.T, 0)), [x], [], {}
    rows = [unit(64, 1000), unit(1000), unit(1000)]
    ours = mixture(lambda a, x: gd.tensor(a, dtype=x.dtype), lambda t: gd.sum(gd.logsumexp(t, 1)))
    theirs = mixture(lambda a, x: torch.tensor(a, dtype=x.dtype), lambda t: torch.logsumexp(t, 1).sum())
    yield "mixture of 3", (ours, theirs), [unit(100_000)], [], {}
    yield "layer_norm", (lambda *a: gd.layer_norm(a[0], -1, a[1], a[2]), lambda *a: nn.layer_norm(a[0], (1000,), *a[1:])), rows, [], {}


def indexing():
    x, many = unit(1000, 1000), random.integers(0, 1000, MILLION)
    place = random.integers(0, 1000, (1000, 1000))
    for axis in (0, 1):
        ours = lambda x, i, axis=axis: gd.gather(x, axis, i)
        yield f"gather {axis}", (ours, lambda x, i, axis=axis: torch.gather(x, axis, i)), [x], [place], {}
    pick = lambda x, i: gd.index_select(x, 0, i), lambda x, i: torch.index_select(x, 0, i)
    yield "index_select", pick, [unit(MILLION)], [many], {}
    yield "index_select rows", pick, [unit(MILLION, 3)], [many], {}
    values = [unit(1000), unit(MILLION)]
    yield "scatter_add", (lambda x, v, i: gd.scatter_add(x, 0, i, v), lambda x, v, i: torch.scatter_add(x, 0, i, v)), values, [many], {}
    column, row = unit(1000, 1), unit(1000)
    yield "column + rows of 3", same(lambda a, b: a + b), [unit(MILLION, 3), unit(MILLION, 1)], [], {}
    yield "outer sum", same(lambda a, b: a + b), [column, row], [], {}
    yield "outer product", same(lambda a, b: a * b), [column, row], [], {}
    yield "columns of rows of 3", same(lambda x: x[:, 0] * x[:, 1]), [unit(MILLION, 3)], [], {}
    yield "copy of x.T", (lambda x: gd.copy(x.T), lambda x: x.T.contiguous()), [x], [], {}


def matrices():
    tall, square = unit(10000, 20), unit(500, 500) + 20 * np.eye(500)
    yield "qr", (lambda x: gd.qr(x)[0], lambda x: torch.linalg.qr(x)[0]), [tall], [], {"signs": True}
    yield "svd", (lambda x: gd.svd(x)[1], lambda x: torch.linalg.svd(x, full_matrices=False)[1]), [tall], [], {}
    yield "solve", (gd.solve, torch and torch.linalg.solve), [square, unit(500)], [], {}
    yield "product", same(lambda a, b: a @ b), [unit(256, 256), unit(256, 256)], [], {"dtypes": ("bf16",), "gradient": False}


def windows():
    for batch, before, size, after, k, stride in ((32, 1, 28, 16, 3, 1), (32, 16, 32, 32, 3, 2), (32, 3, 32, 32, 5, 1)):
        operands = [unit(batch, before, size, size), unit(after, before, k, k), unit(after)]
        ours = lambda x, w, b, k=k, s=stride: gd.conv2d(x, w, b, s, k // 2)
        yield f"conv2d {k} x {k} by {stride}", (ours, lambda x, w, b, k=k, s=stride: nn.conv2d(x, w, b, s, k // 2)), operands, [], {}
    yield "avg_pool2d", (lambda x: gd.avg_pool2d(x, 2, 2), lambda x: nn.avg_pool2d(x, 2, 2)), [unit(32, 16, 28, 28)], [], {}


def sources():
    made = {"gradient": False}
    arange = lambda x: gd.arange(0, MILLION, 1, x.dtype), lambda x: torch.arange(0, MILLION, 1, dtype=x.dtype)
    yield "arange", arange, [unit(1)], [], made
    order = lambda x: gd.permutation(MILLION), lambda x: torch.randperm(MILLION)
    yield "permutation", order, [unit(1)], [], made | {"random": True}
    for n in (10, 1000, MILLION):
        normal = lambda x, n=n: gd.randn(n, x.dtype), lambda x, n=n: torch.randn(n, dtype=x.dtype)
        yield f"randn {n}", normal, [unit(1)], [], made | {"random": True}


ROUNDS = 9
ENOUGH = 0.3  # seconds for a row, after three rounds


def measured(calls, quick):
    """Seconds per call of each: the fastest of rounds in turn."""
    once = {}
    for name, call in calls.items():
        call()
        begin = clock()
        call()
        once[name] = clock() - begin
    if quick:
        return once
    times = {name: [] for name in calls}
    start = time.perf_counter()
    for k in range(ROUNDS):
        for name, call in calls.items():
            count = max(1, min(200, int(2e-3 / max(once[name], 1e-6))))
            begin = clock()
            for _ in range(count):
                call()
            times[name].append((clock() - begin) / count)
        if k >= 2 and time.perf_counter() - start > ENOUGH:
            break
    return {name: min(t) for name, t in times.items()}


def results(row):
    value = row["gradus"]()
    return [np.asarray(gd.cast(t, "f64").numpy()) for t in (value if isinstance(value, (list, tuple)) else [value])]


def calls_of(functions, operands, indices, dtype, gradient):
    ours, theirs = functions
    x = [gd.tensor(a, dtype=dtype, requires_grad=gradient) for a in operands]
    i = [gd.tensor(a) for a in indices]
    seed = gd.ones(ours(*x, *i).shape, dtype) if gradient else None
    calls = {"gradus": (lambda: gd.grad(ours(*x, *i), x, seed=seed)) if gradient else (lambda: ours(*x, *i))}
    if torch:
        kind = {"f32": torch.float32, "f64": torch.float64, "bf16": torch.bfloat16}[dtype]
        tx = [torch.tensor(a, dtype=kind, requires_grad=gradient) for a in operands]
        ti = [torch.tensor(a) for a in indices]
        ones = torch.ones(tuple(theirs(*tx, *ti).shape), dtype=kind) if gradient else None
        calls["torch"] = (
            (lambda: torch.autograd.grad(theirs(*tx, *ti), tx, grad_outputs=ones)) if gradient else (lambda: theirs(*tx, *ti))
        )
    return calls


def agree(calls, dtype, facts):
    if "torch" not in calls or facts.get("random"):
        return True
    value = calls["torch"]()
    wanted = [t.double().numpy() for t in (value if isinstance(value, (list, tuple)) else [value])]
    near = {"f64": 1e-9, "f32": 1e-3, "bf16": 2e-2}[dtype]
    of = np.abs if facts.get("signs") else np.asarray
    return all(np.allclose(of(a), of(b), rtol=near, atol=near) for a, b in zip(results(calls), wanted))


def memory(library, n):
    """Peak in MB of a process that takes ten element-wise operators of n numbers of f32 and their gradient."""
    make = {"gd": f"import gradus as gd; x = gd.ones({n}, 'f32').require_grad()", "torch": f"import torch; x = torch.ones({n}); x.requires_grad = True"}
    end = {"gd": "gd.grad(y, [x])", "torch": "torch.autograd.grad(y, x)"}
    text = f"""{make[library]}
y = x
for k in range(5):
    y = {library}.sin(y) * 1.01
y = y.sum()
{end[library]}
print(*[line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")])"""
    return int(subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True).stdout) / 1024


def peak_memory(quick):
    """Whether the row of the peak memory misses its limit; beyond what the libraries take themselves."""
    n = 10_000 if quick else 10_000_000
    if not os.path.exists("/proc/self/status"):
        return False
    ours = memory("gd", n) - memory("gd", 1)
    theirs = memory("torch", n) - memory("torch", 1) if torch else 0
    limit, ratio = 1.1, ours / theirs if theirs else 0  # pages of the system
    bad = bool(theirs) and ratio > limit and not quick
    print(f"{'peak memory of ten':22} {n:<14} f32    {'+ grad':8} {ours:8.1f}MB " +
          (f"{theirs:8.1f}MB {ratio:6.2f} {limit:6.1f}" if theirs else f"{'-':>10} {'-':>6} {limit:6.1f}") + ("  ABOVE ITS LIMIT" if bad else ""))
    return bad


def main(arguments):
    quick = "--quick" in arguments
    names = [a for a in arguments if not a.startswith("-")]
    missed = 0
    print(f"{'operator':22} {'shape':14} dtype  {'':8} {'gradus us':>10} {'torch us':>10} {'ratio':>6} {'limit':>6}")
    for table in (element_wise, reductions, indexing, matrices, windows, sources):
        for name, functions, operands, indices, facts in table():
            shape = " x ".join(str(n) for n in operands[0].shape)
            if names and not any(n in f"{name} {shape}" for n in names):
                continue
            for dtype in facts.get("dtypes", ("f32", "f64")):
                for gradient in (False, True)[: 2 if facts.get("gradient", True) else 1]:
                    calls = calls_of(functions, operands, indices, dtype, gradient)
                    right = gradient or agree(calls, dtype, facts)
                    limit = limit_of(name, dtype, gradient)
                    for _ in range(1 if quick else 3):
                        time_of = measured(calls, quick)
                        theirs = time_of.get("torch")
                        ratio = time_of["gradus"] / theirs if theirs else 0
                        if ratio <= limit:
                            break
                    bad = not right or (ratio > limit and not quick)
                    missed += bad
                    print(
                        f"{name:22} {shape:14} {dtype}  {'+ grad' if gradient else 'forward':8} {time_of['gradus'] * 1e6:10.1f} "
                        + (f"{theirs * 1e6:10.1f} {ratio:6.2f} {limit:6.1f}" if theirs else f"{'-':>10} {'-':>6} {limit:6.1f}")
                        + ("  DIFFERENT" if not right else "  ABOVE ITS LIMIT" if bad else ""),
                        flush=True,
                    )
    if not names or any(n in "peak memory of ten" for n in names):
        missed += peak_memory(quick)
    if missed:
        print(f"{missed} rows above their limit or with different results")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
