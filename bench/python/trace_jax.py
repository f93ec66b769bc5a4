"""trace_jax.py [THREADS [NAME...]]: jax.jit on the functions of trace.c and trace_models.c: a name and the milliseconds of the fastest of some runs
per line."""
import os
import sys

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ["XLA_FLAGS"] = f"--xla_cpu_multi_thread_eigen=true intra_op_parallelism_threads={sys.argv[1] if len(sys.argv) > 1 else 2}"

import time

import jax
import jax.numpy as jnp
import numpy as np

jax.config.update("jax_enable_x64", True)
wanted = sys.argv[2:]


def best(run, seconds):
    for _ in range(3):
        jax.block_until_ready(run())
    fastest, end = 1e9, time.perf_counter() + seconds
    while time.perf_counter() < end:
        begin = time.perf_counter()
        jax.block_until_ready(run())
        fastest = min(fastest, time.perf_counter() - begin)
    return 1e3 * fastest


def report(name, run, seconds=0.7):
    if not wanted or name in wanted:
        print(name, best(run, seconds), flush=True)


# ---- one vector ----


def chained(x):
    a, b = x[:-1], x[1:]
    return jnp.sum((1 - a) ** 2 + 100 * (b - a**2) ** 2)


gradient = jax.jit(jax.value_and_grad(chained))
product = jax.jit(lambda x, v: jax.jvp(jax.grad(chained), (x,), (v,))[1])
for n in 1000, 100000, 1000000, 10000000:
    x = jnp.full(n, 0.7)
    report(f"chained-{n}", lambda: gradient(x))
    if n == 1000000:
        report(f"product-{n}", lambda: product(x, x))
del x

# ---- models ----

drawing = np.random.default_rng(1)


def drawn(*size, dtype=np.float64, scale=1.0):
    return jnp.asarray(drawing.standard_normal(size) * scale, dtype)


def single(*size, scale=1.0):
    return drawn(*size, dtype=np.float32, scale=scale)


def model(name, function, *params):
    compiled = jax.jit(jax.value_and_grad(function))
    report(name, lambda: compiled(params))


def mixture(p, data=drawn(10000, 4)):
    weight, mean, spread = p
    z = (data[:, None] - mean) * jnp.exp(-spread)
    near = -0.5 * jnp.sum(z**2, axis=2)
    level = jax.nn.log_softmax(weight) - jnp.sum(spread, axis=1)
    return -jnp.mean(jax.scipy.special.logsumexp(near + level, axis=1))


def squares_between(x):
    return jnp.sum((x[:, None] - x[None]) ** 2, axis=2)


def stress(p, data=drawn(500, 500)):
    return jnp.mean((jnp.sqrt(squares_between(p[0]) + 1e-3) - data) ** 2)


def lennard_jones(p):
    same = jnp.eye(p[0].shape[0])
    sixth = (squares_between(p[0]) + same) ** -3
    return 2 * jnp.sum((sixth**2 - sixth) * (1 - same))


def perceptron(p, x=single(1024, 32), y=single(1024, 1)):
    for k in 0, 2:
        x = jnp.tanh(x @ p[k] + p[k + 1])
    return jnp.mean((x @ p[4] + p[5] - y) ** 2)


def recurrent(p, data=single(200, 16, 8)):
    def step(h, x):
        return jnp.tanh(x @ p[0] + (h @ p[1] + p[2])), None

    return jnp.mean(jax.lax.scan(step, jnp.zeros((16, 32), np.float32), data)[0] ** 2)


model("mixture", mixture, drawn(8, scale=0.5), drawn(8, 4, scale=0.5), drawn(8, 4, scale=0.5))
model("stress", stress, drawn(500, 3))
model("atoms", lennard_jones, drawn(100, 3, scale=3))
model("perceptron", perceptron, single(32, 64, scale=0.2), single(64), single(64, 64, scale=0.2), single(64), single(64, 1, scale=0.2), single(1))
model("recurrent", recurrent, single(8, 32, scale=0.2), single(32, 32, scale=0.2), single(32))

# ---- logistic regression: an evaluation, and L-BFGS where Optax is there ----

if not wanted or "logistic" in wanted or "logistic-chain" in wanted:
    table = drawn(100000, 100)
    label = (table @ drawn(100, scale=0.3) + drawn(100000) > 0) * 1.0

    def logistic(w, table, label):
        z = table @ w
        return jnp.mean(jax.nn.softplus(z) - label * z) + 0.5e-3 * jnp.sum(w**2)

    of_point = jax.jit(jax.value_and_grad(logistic))
    begin = jnp.zeros(100)
    report("logistic", lambda: of_point(begin, table, label))
    try:
        import optax
    except ImportError:
        optax = None
    if optax:
        chain = optax.lbfgs(memory_size=10)

        @jax.jit
        def minimum(table, label):
            loss = lambda w: logistic(w, table, label)
            both = optax.value_and_grad_from_state(loss)

            def step(carry):
                w, state, _ = carry
                value, slope = both(w, state=state)
                moves, state = chain.update(slope, state, w, value=value, grad=slope, value_fn=loss)
                return optax.apply_updates(w, moves), state, jnp.max(jnp.abs(optax.tree.get(state, "grad")))

            return jax.lax.while_loop(lambda c: c[2] > 1e-4, step, (begin, chain.init(begin), jnp.inf))[0]

        report("logistic-chain", lambda: minimum(table, label))
