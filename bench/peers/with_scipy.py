"""SciPy, lmfit and scikit-learn: with_scipy.py scipy|lmfit|sklearn.  The problems are those of the library that GRADUS_PROBLEMS names."""
import ctypes
import os
import sys
import time
import warnings

import numpy as np

from peer import Missing, main
from tensors import DECAY_START, decay, decay_jacobian, rows_of

warnings.filterwarnings("ignore")
WHO = sys.argv[1]
if WHO == "sklearn":
    import sklearn
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    version = sklearn.__version__
elif WHO == "lmfit":
    import lmfit

    version = lmfit.__version__
else:
    import scipy
    from scipy.optimize import curve_fit, least_squares, minimize

    version = scipy.__version__


# ---- problems ----

class Over(Exception):
    """More time or evaluations than a problem may take."""


class Library:
    def __init__(self):
        c = self.c = ctypes.CDLL(os.environ["GRADUS_PROBLEMS"])
        numbers = ctypes.POINTER(ctypes.c_double)
        c.problem_open.restype = ctypes.c_void_p
        c.problem_open.argtypes = [ctypes.c_char_p, ctypes.c_long]
        for name in "problem_start", "problem_low", "problem_high":
            getattr(c, name).restype = numbers
            getattr(c, name).argtypes = [ctypes.c_void_p]
        for name in "problem_size", "problem_rows", "problem_evals", "problem_over", "problem_close":
            getattr(c, name).argtypes = [ctypes.c_void_p]
        c.problem_evaluate.restype = c.problem_digits.restype = ctypes.c_double
        c.problem_evaluate.argtypes = [ctypes.c_void_p] * 3
        c.problem_residuals.argtypes = [ctypes.c_void_p] * 4
        c.problem_digits.argtypes = [ctypes.c_void_p] * 2
        c.problem_solved.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_double, numbers]


class Problem:
    def __init__(self, c, kind, number):
        self.c, self.p = c, c.problem_open(kind.encode(), number)
        self.n, self.rows = c.problem_size(self.p), c.problem_rows(self.p)
        self.start = np.ctypeslib.as_array(c.problem_start(self.p), (self.n,)).copy()
        low = c.problem_low(self.p)
        self.bounds = None
        if low:
            ends = [np.ctypeslib.as_array(get(self.p), (self.n,)) for get in (c.problem_low, c.problem_high)]
            self.bounds = np.stack(ends, axis=1)

    def __call__(self, x):
        if self.c.problem_over(self.p):
            raise Over
        x, g = np.ascontiguousarray(x, dtype=float), np.empty(self.n)
        return self.c.problem_evaluate(self.p, x.ctypes.data, g.ctypes.data), g

    def residuals(self, x):
        x, r = np.ascontiguousarray(x, dtype=float), np.empty(self.rows)
        self.c.problem_residuals(self.p, x.ctypes.data, r.ctypes.data, None)
        return r

    def jacobian(self, x):
        x, r, j = np.ascontiguousarray(x, dtype=float), np.empty(self.rows), np.empty((self.rows, self.n))
        self.c.problem_residuals(self.p, x.ctypes.data, r.ctypes.data, j.ctypes.data)
        return j

    def solved(self, x, loss):
        x, seconds = np.ascontiguousarray(x, dtype=float), ctypes.c_double()
        evals = self.c.problem_solved(self.p, x.ctypes.data, loss, ctypes.byref(seconds))
        return evals, seconds.value if evals else 0.0, self.c.problem_digits(self.p, x.ctypes.data)

    def close(self):
        self.c.problem_close(self.p)


def by_minimize(p, method):
    tolerance = 1e-6 if p.n > 1000 else 1e-8
    options = {"BFGS": {"gtol": tolerance, "maxiter": 10000}, "CG": {"gtol": tolerance, "maxiter": 10000},
               "L-BFGS-B": {"gtol": tolerance, "ftol": 0, "maxiter": 20000, "maxfun": 19000, "maxcor": 10},
               "TNC": {"gtol": tolerance, "ftol": 0, "xtol": 0, "maxfun": 19000}}[method]
    best = {"loss": np.inf, "x": p.start}

    def watched(x):
        loss, g = p(x)
        if loss < best["loss"]:
            best.update(loss=loss, x=x.copy())
        return loss, g

    try:
        found = minimize(watched, p.start, jac=True, method=method, bounds=p.bounds, options=options)
        return found.x, found.fun
    except Over:
        return best["x"], best["loss"]


def by_least_squares(p, method):
    if WHO == "lmfit":
        start = lmfit.Parameters()
        for k, x in enumerate(p.start):
            start.add(f"p{k}", float(x))
        fit = lmfit.Minimizer(lambda v: p.residuals(list(v.valuesdict().values())), start, nan_policy="propagate")
        found = fit.leastsq(Dfun=lambda v: p.jacobian(list(v.valuesdict().values())), col_deriv=0, ftol=1e-14, xtol=1e-14, gtol=0)
        return np.array(list(found.params.valuesdict().values())), found.chisqr
    ends = {"ftol": 1e-15, "xtol": 1e-15, "gtol": 1e-15} if method == "trf" else {"ftol": 1e-14, "xtol": 1e-14, "gtol": 1e-14}
    try:
        found = least_squares(p.residuals, p.start, jac=p.jacobian, method=method, x_scale="jac", max_nfev=2000, **ends)
    except ValueError:  # residuals that are not finite
        return p.start, np.inf
    return found.x, 2 * found.cost


def solve(set, method="L-BFGS-B", size="0", most="0"):
    c = Library().c
    count = c.problem_count(set.encode())
    if not count:
        raise Missing("the problems are not there (NIST: GRADUS_NIST names the folder of the files)")
    if int(most):
        count = min(count, int(most))

    def run():
        found = {"seconds": 0.0, "evals": 0, "solved": 0, "each": [], "times": []}
        digits = 0.0
        for number in range(count):
            p = Problem(c, set, int(size) or number)
            begun = time.perf_counter()
            x, loss = (by_least_squares if p.rows else by_minimize)(p, method)
            found["seconds"] += time.perf_counter() - begun
            evals, seconds, right = p.solved(x, loss)
            found["each"].append(evals)
            found["times"].append(seconds)
            found["evals"] += c.problem_evals(p.p)
            found["solved"] += evals > 0
            digits += right
            p.close()
        return found | ({"digits": digits / count} if set == "nist" else {})

    return run


# ---- curves ----

def fit(rows):
    t, y = rows_of(int(float(rows)))
    if WHO == "scipy":
        return lambda: {"check": curve_fit(decay, t, y, DECAY_START, jac=decay_jacobian, ftol=1e-12, xtol=1e-12)[0][1]}
    start = lmfit.Parameters()
    for k, x in enumerate(DECAY_START):
        start.add(f"p{k}", x)
    minimizer = lmfit.Minimizer(lambda p: decay(t, *p.valuesdict().values()) - y, start)

    def run():
        found = minimizer.leastsq(Dfun=lambda p: decay_jacobian(t, *p.valuesdict().values()), col_deriv=0, ftol=1e-12, xtol=1e-12)
        return {"check": found.params["p1"].value}

    return run


# ---- a classifier from a table ----

def table(path, target):
    import csv
    with open(path, newline="") as f:
        rows = list(csv.reader(f))
    at = rows[0].index(target)
    x = np.array([[float(v) for k, v in enumerate(row) if k != at] for row in rows[1:]])
    return x, np.array([row[at] for row in rows[1:]])


def train(train, test, target="y"):
    unseen = table(test, target)

    def run():
        x, y = table(train, target)
        model = make_pipeline(StandardScaler(), MLPClassifier(random_state=0)).fit(x, y)
        return {"score": float(model.score(*unseen))}

    return run


main(version, {"sklearn": {"train": train}, "lmfit": {"fit": fit, "solve": solve}, "scipy": {"fit": fit, "solve": solve}}[WHO])
