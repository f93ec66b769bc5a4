"""scipy_fit.py [THREADS]: seconds of scipy.optimize.curve_fit, and of lmfit, with exact Jacobians: a decay and a peak, six
parameters, over a million rows; fifty Gaussian peaks over 1000 rows.  The data are those of bench/shell.c."""
import sys
import time

import numpy as np
import scipy
from scipy.optimize import curve_fit

try:
    import lmfit
except ImportError:
    lmfit = None

NOISE = 0.1


def noise(n):
    i = np.arange(n, dtype=np.uint64)
    return NOISE * (((i * np.uint64(7919)) % np.uint64(10007)).astype(float) / 10007 - 0.5)


def decay(t, a, b, c, d, s, g):
    return a * np.exp(-b * t) + c * np.exp(-(((t - d) / s) ** 2)) + g


def decay_jacobian(t, a, b, c, d, s, g):
    e, z = np.exp(-b * t), (t - d) / s
    peak = np.exp(-(z**2))
    return np.stack([e, -a * t * e, peak, 2 * c * peak * z / s, 2 * c * peak * z * z / s, np.ones_like(t)], axis=1)


def peaks(t, *p):
    h, m, w = np.array(p).reshape(3, -1)
    return (h * np.exp(-(((t[:, None] - m) / w) ** 2))).sum(axis=1)


def peaks_jacobian(t, *p):
    h, m, w = np.array(p).reshape(3, -1)
    z = (t[:, None] - m) / w
    e = np.exp(-(z**2))
    return np.concatenate([e, 2 * h * e * z / w, 2 * h * e * z * z / w], axis=1)


def best(fit, repeats=3):
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        fit()
        times.append(time.perf_counter() - begin)
    return min(times)


def by_lmfit(f, jacobian, t, y, start):
    """Seconds of lmfit.minimize with the same Jacobian, 0 where it is not there."""
    if not lmfit:
        return 0
    p = lmfit.Parameters()
    for k, x in enumerate(start):
        p.add(f"p{k}", float(x))
    fit = lmfit.Minimizer(lambda p: f(t, *p.valuesdict().values()) - y, p)
    return best(lambda: fit.leastsq(Dfun=lambda p: jacobian(t, *p.valuesdict().values()), col_deriv=0))


def both(f, jacobian, t, y, start):
    return best(lambda: curve_fit(f, t, y, start, jac=jacobian)), by_lmfit(f, jacobian, t, y, start)


n = 1_000_000
t = 10 * np.arange(n) / n
rows = both(decay, decay_jacobian, t, decay(t, 2.5, 0.7, 1.2, 5, 0.8, 0.3) + noise(n), [1, 1, 1, 4, 1, 0])
k = np.arange(50)
true = np.concatenate([1 + 0.5 * np.sin(k), k + 0.5, 0.4 + 0.1 * np.cos(k)])
start = np.concatenate([np.ones(50), k + 0.45, np.full(50, 0.45)])
t = 50 * np.arange(1000) / 1000
few = both(peaks, peaks_jacobian, t, peaks(t, *true) + noise(1000), start)
print(f"{rows[0]:.6f} {few[0]:.6f} {rows[1]:.6f} {few[1]:.6f}  SciPy {scipy.__version__}")
