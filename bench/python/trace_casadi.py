"""trace_casadi.py [THREADS]: value and gradient of the Rosenbrock function and of the Runge-Kutta rollout of trace_cases.c as CasADi writes
them in C, compiled: prints the path of the library, in a folder of its own that the caller removes."""
import os
import subprocess
import tempfile

import casadi

STEPS, H = 200, 0.05


def valley(x):
    return (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2


def rollout(p):
    state, rate = p[:2], p[2:]

    def slope(s):
        meet = s[0] * s[1]
        return casadi.vertcat(rate[0] * s[0] - rate[1] * meet, rate[3] * meet - rate[2] * s[1])

    for _ in range(STEPS):
        k1 = slope(state)
        k2 = slope(state + H / 2 * k1)
        k3 = slope(state + H / 2 * k2)
        k4 = slope(state + H * k3)
        state = state + H / 6 * (k1 + k4 + 2 * (k2 + k3))
    return state[0] ** 2 + state[1] ** 2


folder = tempfile.mkdtemp(prefix="gradus_casadi_")
os.chdir(folder)
code = casadi.CodeGenerator("functions.c")
for function, n in (valley, 2), (rollout, 6):
    x = casadi.SX.sym("x", n)
    value = function(x)
    code.add(casadi.Function(function.__name__, [x], [value, casadi.gradient(value, x)]))
code.generate()
subprocess.run([os.environ.get("CC", "cc"), "-O2", "-fPIC", "-shared", "-o", "functions.so", "functions.c", "-lm"], check=True)
os.unlink("functions.c")
print(os.path.join(folder, "functions.so"))
