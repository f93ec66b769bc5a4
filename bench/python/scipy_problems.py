"""scipy_problems.py [record]: SciPy's L-BFGS-B on the problems of tests/problems, which the program named by GRADUS_PROBLEMS evaluates
(build/release/tests/test_problems_evaluations), beside the default of gradus minimize: problems solved by either, and the geometric
mean over those that both solve of our evaluations by SciPy's until the target of the minimum was reached first.

record: SciPy's evaluations as the table of tests/problems/test_evaluations.c has them, 0 where it ended at no minimum."""
import math
import os
import subprocess
import sys

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"  # the vectors are short

import numpy
import scipy
from scipy.optimize import minimize


class Problem:
    def __init__(self, server, number):
        self.process = subprocess.Popen([server, "serve", str(number)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        out = self.process.stdout
        self.name = out.readline().decode().strip()
        self.n = int(out.readline())
        self.minima = [float(word) for word in out.readline().split()]
        self.start = self.read(self.n)
        self.losses = []

    def read(self, count):
        return numpy.frombuffer(self.process.stdout.read(8 * count), dtype=float).copy()

    def __call__(self, x):
        self.process.stdin.write(numpy.ascontiguousarray(x, dtype=float).tobytes())
        self.process.stdin.flush()
        found = self.read(self.n + 1)
        self.losses.append(found[0])
        return found[0], found[1:]

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def evaluations_to_target(problem, end):
    for least in problem.minima:
        margin = 1e-8 if least == 0 else 1e-4 * abs(least)
        if abs(end - least) <= margin:
            return next(i + 1 for i, loss in enumerate(problem.losses) if loss <= least + margin)
    return 0


def run(server, number):
    problem = Problem(server, number)
    options = {"gtol": 1e-8, "ftol": 0, "maxiter": 5000, "maxfun": 20000}
    found = minimize(problem, problem.start, jac=True, method="L-BFGS-B", options=options)
    problem.close()
    return evaluations_to_target(problem, found.fun)


server = os.environ["GRADUS_PROBLEMS"]
ours = [int(line) for line in subprocess.check_output([server, "evaluations"]).split()]
theirs = [run(server, number) for number in range(len(ours))]
if sys.argv[1:] == ["record"]:
    print(", ".join(map(str, theirs)))
else:
    both = [a / b for a, b in zip(ours, theirs) if a and b]
    mean = math.exp(sum(map(math.log, both)) / len(both))
    print(len(ours), sum(map(bool, ours)), sum(map(bool, theirs)), f"{mean:.4f}", "SciPy", scipy.__version__)
