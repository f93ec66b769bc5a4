"""scipy_lbfgsb.py [THREADS]: SciPy's L-BFGS-B on the quadratic of bounded.c, f64: seconds of the fastest of three runs, evaluations
and the loss where it ended."""
import os
import sys

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = sys.argv[1] if len(sys.argv) > 1 else "2"

import time

import numpy
import scipy
from scipy.optimize import Bounds, minimize

N = 1000000
i = numpy.arange(N)
weight = 1 + 9 * (i % 1000) / 999
centre = 2 * numpy.sin(0.37 * i)


def value_and_gradient(x):
    away, step = x - centre, numpy.diff(x)
    pull = weight * away
    gradient = pull.copy()
    gradient[1:] += step
    gradient[:-1] -= step
    return 0.5 * (pull @ away + step @ step), gradient


def run():
    begin = time.perf_counter()
    found = minimize(
        value_and_gradient,
        numpy.zeros(N),
        jac=True,
        method="L-BFGS-B",
        bounds=Bounds(-1, 1),
        options={"maxcor": 10, "gtol": 1e-5, "ftol": 0, "maxiter": 10000, "maxfun": 10000},
    )
    return time.perf_counter() - begin, found.nfev, found.fun


runs = [run()]
best = min(runs)
print(f"{best[0]:.4f} {best[1]} {best[2]:.10g}  SciPy {scipy.__version__}")
