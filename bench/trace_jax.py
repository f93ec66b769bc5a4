"""trace_jax.py [THREADS]: jax.jit on the functions of trace.c: a name and the milliseconds of the fastest of some runs per line."""
import os
import sys

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ["XLA_FLAGS"] = f"--xla_cpu_multi_thread_eigen=true intra_op_parallelism_threads={sys.argv[1] if len(sys.argv) > 1 else 2}"

import time

import jax
import jax.numpy as jnp

jax.config.update("jax_enable_x64", True)


def chained(x):
    a, b = x[:-1], x[1:]
    return jnp.sum((1 - a) ** 2 + 100 * (b - a**2) ** 2)


def best(run, times):
    jax.block_until_ready(run())
    took = []
    for _ in range(times):
        begin = time.perf_counter()
        jax.block_until_ready(run())
        took.append(time.perf_counter() - begin)
    return 1e3 * min(took)


gradient = jax.jit(jax.value_and_grad(chained))
product = jax.jit(lambda x, v: jax.jvp(jax.grad(chained), (x,), (v,))[1])
for n, times in ((1000, 2000), (100000, 300), (1000000, 50), (10000000, 8)):
    x = jnp.full(n, 0.7)
    print(f"chained-{n}", best(lambda: gradient(x), times))
    if n == 1000000:
        print(f"product-{n}", best(lambda: product(x, x), times))
