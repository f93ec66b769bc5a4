"""What the Python package costs over the same calls in C, in one run: ./dev bench python.  Exits with 1 above a limit."""
import compileall
import os
import subprocess
import sys
import timeit

import gradus as gd
from gradus import _core

ROUNDS, CALLS = 60, 20_000  # short rounds: on a busy machine some of them are undisturbed


def best(fn):
    return min(fn() for _ in range(ROUNDS))


def python_time(statement, names):
    """Nanoseconds per call, less those of an empty loop."""
    timer, empty = timeit.Timer(statement, globals=names), timeit.Timer("pass")
    return (best(lambda: timer.timeit(CALLS)) - best(lambda: empty.timeit(CALLS))) / CALLS * 1e9


def rows():
    x = gd.tensor([1.0, 2.0])
    for statement, name in (("x + x", "add"), ("gd.add(x, x)", "add"), ("x * 2.0", "mul_scalar"), ("x.exp()", "exp"), ("x.sum()", "sum")):
        c = best(lambda: _core._time_c(name, x, CALLS))
        yield statement, c, python_time(statement, {"x": x, "gd": gd}), 75
    p = gd.tensor([1.0, 2.0], requires_grad=True)
    p.grad = gd.ones(2)
    optimizer = gd.Optimizer([p], "clip_norm(1) | adam | lr(1e-3)")
    optimizer.step()
    c = best(lambda: _core._time_c("step", optimizer, CALLS))
    yield "optimizer.step()", c, python_time("step()", {"step": optimizer.step}), 1000


def import_time():
    """Milliseconds of `import gradus`, compiled as an installation is and once its files are in the system's cache."""
    compileall.compile_dir(os.path.dirname(gd.__file__), quiet=1)
    code = "import time; t = time.perf_counter(); import gradus; print((time.perf_counter() - t) * 1e3)"
    return min(float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout) for _ in range(7))


def main():
    slow = []
    print(f"{'call':<20}{'C':>10}{'Python':>10}{'over C':>10}{'limit':>10}   ns")
    for name, c, python, limit in rows():
        print(f"{name:<20}{c:>10.1f}{python:>10.1f}{python - c:>10.1f}{limit:>10}")
        if python - c > limit:
            slow.append(name)
    spent = import_time()
    print(f"{'import gradus':<20}{'':>10}{spent:>10.1f}{'':>10}{30:>10}   ms")
    if spent > 30:
        slow.append("import")
    if slow:
        print("above its limit:", ", ".join(slow))
    sys.exit(1 if slow else 0)


if __name__ == "__main__":
    main()
