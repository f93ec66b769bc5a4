"""scipy_logistic.py [THREADS]: scikit-learn's LogisticRegression with lbfgs on 1e5 x 100: the milliseconds of the fastest of three fits, and its iterations."""
import os
import sys

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = sys.argv[1] if len(sys.argv) > 1 else "2"

import time

import numpy as np
from sklearn.linear_model import LogisticRegression

drawing = np.random.default_rng(1)
table = drawing.standard_normal((100000, 100))
label = (table @ (0.3 * drawing.standard_normal(100)) + drawing.standard_normal(100000) > 0) * 1
fastest = 1e9
for _ in range(3):
    model = LogisticRegression(C=1 / (1e-3 * len(table)), fit_intercept=False, tol=1e-4, max_iter=1000)
    begin = time.perf_counter()
    model.fit(table, label)
    fastest = min(fastest, time.perf_counter() - begin)
print("sklearn", 1e3 * fastest)
print("sklearn-iterations", int(model.n_iter_[0]))
