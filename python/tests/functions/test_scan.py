"""scan: the library's loop against a loop in Python; what makes it run step by step."""
import gradus as gd
import pytest


def loop(fun, carry, xs, reverse=False):
    ys = {}
    for i in reversed(range(xs.shape[0])) if reverse else range(xs.shape[0]):
        carry, ys[i] = fun(carry, xs[i])
    return carry, gd.stack([ys[i] for i in range(xs.shape[0])])


def inputs(n=20):
    gd.seed(3)
    return gd.randn(4, dtype="f64"), gd.randn((n, 4), dtype="f64"), gd.randn((4, 4), dtype="f64") * 0.3


@pytest.mark.parametrize("reverse", [False, True])
def test_bits_of_a_loop(reverse):
    h, xs, w = inputs()
    calls = []

    def loss(run):
        def of(h, xs, w):
            def step(c, x):
                calls.append(1)
                a, b = c["a"], c["b"]
                a = gd.tanh(w @ a + x)
                return {"a": a, "b": b + gd.sum(a)}, a * 2
            carry, ys = run(step, {"a": h, "b": gd.tensor(0.0, dtype="f64")}, xs, reverse=reverse)
            return gd.sum(ys * ys) + carry["b"] + gd.sum(carry["a"])
        return of
    want = gd.value_and_grad(loss(loop), argnums=(0, 1, 2))(h, xs, w)
    calls.clear()
    got = gd.value_and_grad(loss(gd.scan), argnums=(0, 1, 2))(h, xs, w)
    assert len(calls) < 20
    assert got[0].item() == want[0].item()
    for a, b in zip(got[1], want[1]):
        assert a.tolist() == b.tolist()
    recorded = gd.jit(gd.value_and_grad(loss(gd.scan), argnums=(0, 1, 2)))
    for _ in range(5):
        again = recorded(h, xs, w)
        assert again[0].item() == want[0].item() and again[1][2].tolist() == want[1][2].tolist()
    assert "steps of a loop" in recorded.explain()


def test_second_derivatives():
    _, xs, _ = inputs(9)

    def f(x):
        c, ys = gd.scan(lambda c, s: (gd.sin(c) * x + s[0], c * c), x * 2, xs)
        return c + gd.sum(ys)

    def g(x):
        c, ys = loop(lambda c, s: (gd.sin(c) * x + s[0], c * c), x * 2, xs)
        return c + gd.sum(ys)
    x = gd.tensor(0.4, dtype="f64")
    for k in range(1, 4):
        a, b = f, g
        for _ in range(k):
            a, b = gd.grad(a), gd.grad(b)
        assert a(x).item() == pytest.approx(b(x).item(), rel=1e-10)


def test_steps_that_are_not_alike():
    _, xs, _ = inputs(10)
    seen = []

    def reads(c, x):
        seen.append(float(gd.sum(x)))
        return c + x, None
    carry, ys = gd.scan(reads, gd.zeros(4, dtype="f64"), xs)
    assert len(seen) == 10 and ys is None
    carry, ys = gd.scan(lambda c, x: ((c[0] + c[1] * x[0], c[1] + 1), c[0]), (gd.tensor(0.0, dtype="f64"), 1), xs)
    assert carry[1] == 11
    assert carry[0].item() == pytest.approx(sum((i + 1) * xs[i, 0].item() for i in range(10)))
    counter = [0]

    def counts(c, x):
        counter[0] += 1
        return c + counter[0], c
    assert gd.scan(counts, gd.tensor(0.0), length=10)[0].item() == 55

    def fails(c, x):
        raise KeyError("mine")
    with pytest.raises(KeyError, match="mine"):
        gd.scan(fails, gd.tensor(0.0), length=10)
