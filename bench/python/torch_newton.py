"""torch_newton.py [THREADS]: median times in microseconds of a Newton step on a chained Rosenbrock function of 200 numbers,
f64: value and gradient, the Hessian by torch.autograd.functional.hessian, a solve.  Two numbers: the Hessian row by row,
which is the default there, and with vectorize=True."""
import statistics
import sys
import time

import torch

torch.set_num_threads(int(sys.argv[1]) if len(sys.argv) > 1 else 2)
start = torch.tensor([1.0 if i % 2 else -1.2 for i in range(200)], dtype=torch.float64)


def loss(p):
    return (100 * (p[1:] - p[:-1] ** 2) ** 2 + (1 - p[:-1]) ** 2).sum()


def step(vectorize):
    p = start.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(loss(p), p)
    hessian = torch.autograd.functional.hessian(loss, p.detach(), vectorize=vectorize)
    return p.detach() - torch.linalg.solve(hessian, gradient)


def median(vectorize):
    step(vectorize)
    times = []
    for _ in range(15):
        begin = time.perf_counter()
        step(vectorize)
        times.append(time.perf_counter() - begin)
    return statistics.median(times) * 1e6


print(f"{median(False):.1f} {median(True):.1f}  PyTorch {torch.__version__}, {torch.get_num_threads()} threads")
