"""Optax with JAX: every step is one compiled function; compiling is part of its set-up."""
import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ["JAX_ENABLE_X64"] = "1"
import jax
import jax.numpy as np
import optax

from peer import main
from tensors import sizes


def rule_of(rule, half):
    if rule == "adamw":
        return optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-3, weight_decay=0.01, mu_dtype=np.bfloat16 if half else None))
    if rule == "lion":
        return optax.lion(1e-3, weight_decay=0.01)
    if rule == "seven":
        return optax.chain(optax.clip(1.0), optax.add_decayed_weights(1e-3), optax.scale(2.0), optax.scale_by_adam(),
                           optax.add_decayed_weights(0.01), optax.clip(10.0), optax.scale(-1e-3))
    return optax.adam(1e-3)


def step(rule="adamw", dtype="f32", **shape):
    half = dtype == "bf16"
    kind = np.bfloat16 if half else np.float32
    params = [np.full(n, 0.5, dtype=kind) for n in sizes(**shape)]
    grads = [[np.full(n, 1e-3, dtype=kind) for n in sizes(**shape)] for _ in range(2)]
    optimizer = rule_of(rule, half)
    kept = {"params": params, "state": optimizer.init(params), "turn": 0}

    def update(params, state, grads):
        updates, state = optimizer.update(grads, state, params)
        return optax.apply_updates(params, updates), state

    compiled = jax.jit(update, donate_argnums=(0, 1))

    def run():
        kept["turn"] ^= 1
        kept["params"], kept["state"] = compiled(kept["params"], kept["state"], grads[kept["turn"]])
        jax.block_until_ready(kept["params"])

    for _ in range(3):
        run()
    check = abs(float(kept["params"][0][0]))

    def told():
        run()
        return {"check": check}

    return told


def rosenbrock():
    optimizer = optax.adam(0.01)
    p = np.array([-1.1, 2.5])
    kept = [p, optimizer.init(p)]

    @jax.jit
    def update(p, state):
        g = jax.grad(lambda p: (1 - p[0]) ** 2 + 100 * (p[1] - p[0] ** 2) ** 2)(p)
        updates, state = optimizer.update(g, state, p)
        return optax.apply_updates(p, updates), state

    def run():
        kept[:] = update(*kept)
        jax.block_until_ready(kept[0])

    return run


# ---- networks ----

def drawn(seed, *shape, scale=0.05):
    return scale * jax.random.normal(jax.random.key(seed), shape, dtype=np.float32)


def labels(count, below):
    return (np.arange(count) * 7919 + 13) % below


def loss_of(logits, y):
    return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()


def backward_of(model, params, x, y):
    gradient = jax.jit(jax.value_and_grad(lambda params: loss_of(model(params, x), y)))
    return lambda: jax.block_until_ready(gradient(params)) and None


def mlp():
    params = [drawn(1, 784, 256), np.zeros(256, np.float32), drawn(2, 256, 10), np.zeros(10, np.float32)]

    def model(p, x):
        return jax.nn.relu(x @ p[0] + p[1]) @ p[2] + p[3]

    return backward_of(model, params, jax.random.uniform(jax.random.key(3), (128, 784), dtype=np.float32), labels(128, 10))


def pooled(x):
    return jax.lax.reduce_window(jax.nn.relu(x), -np.inf, jax.lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")


def conv():
    params = [drawn(1, 16, 1, 3, 3), np.zeros(16, np.float32), drawn(2, 32, 16, 3, 3), np.zeros(32, np.float32),
              drawn(3, 32 * 7 * 7, 10), np.zeros(10, np.float32)]

    def model(p, x):
        for k in 0, 2:
            x = pooled(jax.lax.conv(x, p[k], (1, 1), "SAME") + p[k + 1][:, None, None])
        return x.reshape(x.shape[0], -1) @ p[4] + p[5]

    return backward_of(model, params, jax.random.uniform(jax.random.key(4), (128, 1, 28, 28), dtype=np.float32), labels(128, 10))


ROWS, TIME, SIZE, HEADS, BLOCKS, SYMBOLS = 8, 64, 128, 4, 2, 65


def block_params(seed):
    one, zero = np.ones(SIZE, np.float32), np.zeros(SIZE, np.float32)
    return {"n1": (one, zero), "n2": (one, zero), "qkv": (drawn(seed, SIZE, 3 * SIZE), np.zeros(3 * SIZE, np.float32)),
            "out": (drawn(seed + 1, SIZE, SIZE), zero), "up": (drawn(seed + 2, SIZE, 4 * SIZE), np.zeros(4 * SIZE, np.float32)),
            "down": (drawn(seed + 3, 4 * SIZE, SIZE), zero)}


def norm(x, p):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * p[0] + p[1]


def linear(x, p):
    return x @ p[0] + p[1]


def block(p, x):
    n, t, _ = x.shape
    q, k, v = (y.reshape(n, t, HEADS, SIZE // HEADS) for y in np.split(linear(norm(x, p["n1"]), p["qkv"]), 3, axis=-1))
    x = x + linear(jax.nn.dot_product_attention(q, k, v, is_causal=True).reshape(n, t, SIZE), p["out"])
    return x + linear(jax.nn.gelu(linear(norm(x, p["n2"]), p["up"]), approximate=False), p["down"])


def transformer():
    params = {"symbols": drawn(1, SYMBOLS, SIZE), "places": drawn(2, TIME, SIZE), "blocks": [block_params(10 * k) for k in range(1, 1 + BLOCKS)],
              "norm": (np.ones(SIZE, np.float32), np.zeros(SIZE, np.float32)), "last": (drawn(3, SIZE, SYMBOLS), np.zeros(SYMBOLS, np.float32))}
    optimizer = optax.adamw(1e-3, weight_decay=0.01)
    y = labels(ROWS * TIME, SYMBOLS)
    kept = jax.tree.map(lambda x: x.copy(), [params, optimizer.init(params)])  # each its own memory, for it is given away

    def loss(p):
        x = p["symbols"][y.reshape(ROWS, TIME)] + p["places"]
        for one in p["blocks"]:
            x = block(one, x)
        return loss_of(linear(norm(x, p["norm"]), p["last"]).reshape(-1, SYMBOLS), y)

    def update(p, state):
        updates, state = optimizer.update(jax.grad(loss)(p), state, p)
        return optax.apply_updates(p, updates), state

    compiled = jax.jit(update, donate_argnums=(0, 1))

    def run():
        kept[:] = compiled(*kept)
        jax.block_until_ready(kept[0])

    return run


# ---- derivatives ----

def chained(x):
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


def start(size):
    return np.where(np.arange(int(float(size))) % 2 == 0, -1.2, 1.0)


def gradient(size):
    x, compiled = start(size), jax.jit(jax.value_and_grad(chained))
    return lambda: {"check": float(jax.block_until_ready(compiled(x))[0])}


def product(size):
    x = start(size)
    v = np.ones_like(x)
    compiled = jax.jit(lambda x, v: jax.jvp(jax.grad(chained), (x,), (v,))[1])
    return lambda: {"check": abs(float(jax.block_until_ready(compiled(x, v))[0]))}


def hessian(size):
    x, compiled = start(size), jax.jit(jax.hessian(chained))
    return lambda: {"check": abs(float(jax.block_until_ready(compiled(x))[0, 0]))}


main(f"{optax.__version__}, JAX {jax.__version__}",
     {"step": step, "rosenbrock": rosenbrock, "mlp": mlp, "conv": conv, "transformer": transformer, "gradient": gradient,
      "product": product, "hessian": hessian})
