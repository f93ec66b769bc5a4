"""grad, vjp, jvp, jacobians, vmap, jit, scan, custom_vjp, checkpoint: alone, in pairs, on trees."""
import collections
import dataclasses
import json
import math
from pathlib import Path

import numpy as np
import pytest

import gradus as gd

RECORDED = json.loads((Path(__file__).parent / "pairs.json").read_text())["pairs"]  # from JAX, in f64
C, D, X = [0.3, -0.7, 1.1], [0.5, 0.25, -0.75], [0.4, -0.2, 0.7]


def base(x):
    return x.sin() * (0.5 * x).exp() + 0.3 * x[0] * x[1] * x[2] + 0.2 * x ** 2


def summed(f):
    c = gd.tensor(C)
    return lambda y: (f(y) * c).sum()


def with_value(f):
    def g(x):
        value, grad = gd.value_and_grad(summed(f))(x)
        return value * grad
    return g


def scanned(f):
    def g(x):
        carry, ys = gd.scan(lambda c, s: (0.5 * f(c) + s, c * s), x, gd.tensor([0.1, 0.2]))
        return carry + ys.sum(0)
    return g


def doubled(f):
    """f with twice its gradient."""
    g = gd.custom_vjp(lambda x: f(x))
    g.defvjp(lambda x: (f(x), x), lambda x, seed: (2 * gd.vjp(f, x)[1](seed)[0],))
    return g


TRANSFORMATIONS = {
    "grad": lambda f: gd.grad(summed(f)),
    "value_and_grad": with_value,
    "vjp": lambda f: lambda x: gd.vjp(f, x)[1](gd.tensor(C))[0],
    "jvp": lambda f: lambda x: gd.jvp(f, (x,), (gd.tensor(D),))[1],
    "jacfwd": lambda f: lambda x: gd.jacfwd(f)(x) @ gd.tensor(D),
    "jacrev": lambda f: lambda x: gd.tensor(D) @ gd.jacrev(f)(x),
    "hessian": lambda f: lambda x: gd.hessian(summed(f))(x) @ gd.tensor(D),
    "vmap": lambda f: lambda x: gd.vmap(f)(gd.stack([x, 0.5 * x])).sum(0),
    "jit": gd.jit,
    "scan": scanned,
    "custom_vjp": doubled,
    "checkpoint": gd.checkpoint,
}


@pytest.mark.parametrize("names", RECORDED)
def test_transformations_compose_as_those_of_jax(names):
    f = base
    for name in reversed(names.split()):
        f = TRANSFORMATIONS[name](f)
    for _ in range(4 if "jit" in names else 1):  # the first calls of a recorded function run it, later ones replay
        assert f(gd.tensor(X)).tolist() == pytest.approx(RECORDED[names], rel=1e-9, abs=1e-12)


def test_every_pair_is_recorded():
    assert set(RECORDED) >= {f"{a} {b}" for a in TRANSFORMATIONS for b in TRANSFORMATIONS}


# ---- trees ----

Point = collections.namedtuple("Point", "x y")


@dataclasses.dataclass(frozen=True)
class Weights:
    w: gd.Tensor
    b: gd.Tensor
    name: str = "layer"


class Net(gd.Module):
    def __init__(self):
        super().__init__()
        self.weight = gd.tensor([1.0, 2.0]).require_grad()


def test_gradients_have_the_form_of_the_argument():
    def loss(tree):
        return (tree["p"].x * tree["p"].y).sum() + (tree["l"][0] * tree["d"].w).sum() + tree["d"].b

    tree = {"p": Point(gd.tensor([1.0, 2.0]), gd.tensor([3.0, 4.0])), "l": [gd.tensor([5.0])], "d": Weights(gd.tensor([6.0]), gd.tensor(7.0))}
    found = gd.grad(loss)(tree)
    assert isinstance(found["p"], Point) and isinstance(found["d"], Weights) and found["d"].name == "layer"
    assert found["p"].x.tolist() == [3, 4] and found["p"].y.tolist() == [1, 2]
    assert found["l"][0].tolist() == [6] and found["d"].w.tolist() == [5] and found["d"].b.item() == 1


def test_a_module_is_an_argument_too():
    net = Net()
    value, found = gd.value_and_grad(lambda net, x: (net.weight * x).sum())(net, gd.tensor([3.0, 4.0]))
    assert value.item() == 11 and found["weight"].tolist() == [3, 4]
    net.freeze()
    with pytest.raises(gd.GraphError, match="frozen"):
        gd.grad(lambda net: net.weight.sum())(net)


def test_argnums_aux_and_numbers():
    f = lambda x, y: (x * y * y, {"seen": x + y})  # noqa: E731
    (value, aux), (dx, dy) = gd.value_and_grad(f, argnums=(0, 1), has_aux=True)(2.0, 3.0)
    assert (value.item(), aux["seen"].item(), dx.item(), dy.item()) == (18, 5, 9, 12)
    assert not value.requires_grad and not aux["seen"].requires_grad and not dx.requires_grad
    assert gd.grad(lambda x, y: x * y, -1)(2.0, 3.0).item() == 2
    with pytest.raises(ValueError, match="argnums names argument 2"):
        gd.grad(lambda x: x, 2)(1.0)
    with pytest.raises(gd.ShapeError, match="one element"):
        gd.grad(lambda x: x)(gd.ones(2))
    with pytest.raises(TypeError, match="has_aux"):
        gd.grad(lambda x: (x, 1))(1.0)
    with pytest.raises(gd.DtypeError, match="i64"):
        gd.grad(lambda x: x.sum())(gd.tensor([1, 2]))


def test_grad_of_a_tensor_is_as_before():
    x = gd.tensor([1.0, 2.0]).require_grad()
    assert gd.grad((x * x).sum(), x).tolist() == [2, 4]
    assert gd.hessian(lambda x: (x ** 3).sum(), x.detach()).tolist() == [[6, 0], [0, 12]]


def test_inner_and_outer_arguments_are_told_apart():
    f = lambda x: x * gd.grad(lambda y: x * y)(x)  # noqa: E731
    assert gd.grad(f)(gd.tensor(3.0)).item() == 6


def test_derivatives_of_a_network_reach_its_parameters():
    net = Net()
    slope = gd.grad(lambda t: (net.weight * t ** 2).sum())(gd.tensor(2.0))
    assert slope.item() == 12 and slope.requires_grad
    slope.backward()
    assert net.weight.grad.tolist() == [4, 4]
    assert not gd.grad(lambda t: t ** 2)(gd.tensor(2.0)).requires_grad


def test_vmap_of_jit_replays_all_elements_at_once():
    x, y = gd.tensor([[0.1 * i + j for i in range(3)] for j in range(40)], dtype="f64"), gd.linspace(-1, 1, 3, dtype="f64")
    calls = []

    def f(x, y):
        calls.append(1)
        return {"sum": (gd.exp(x * y)).sum(), "all": gd.tanh(x - y).rename("k")}

    for in_axes, first in (((0, None), x), ((1, None), x.T)):
        plain = gd.vmap(f, in_axes)(first, y)
        calls.clear()
        jitted = gd.jit(f)
        for _ in range(2):
            for out_axes in (0, {"all": 1, "sum": 0}):
                fast = gd.vmap(jitted, in_axes, out_axes)(first, y)
                wide = fast["all"] if out_axes == 0 else fast["all"].drop_names().T
                assert fast["sum"].tolist() == plain["sum"].tolist()
                assert wide.tolist() == plain["all"].tolist()
                assert "k" in fast["all"].axes
        assert len(calls) <= 6
        assert "many at once: 16 problems" in jitted.explain()
    slopes = gd.vmap(gd.jit(gd.grad(lambda x: (x**3).sum())))(x)
    assert slopes.tolist() == gd.vmap(gd.grad(lambda x: (x**3).sum()))(x).tolist()
    with pytest.raises(ValueError, match="different sizes"):
        gd.vmap(gd.jit(lambda x, y: x))(gd.ones(2), gd.ones(3))


def test_jacfwd_goes_by_columns_and_jacrev_by_rows():
    passes = []
    f = gd.custom_vjp(lambda x: gd.outer(x, gd.arange(1, 21).to("f64")).flatten().sin())

    def backward(kept, g):
        passes.append(1)
        return ((g * kept.cos()).reshape((2, 20)) @ gd.arange(1, 21).to("f64"),)
    f.defvjp(lambda x: (f(x), gd.outer(x, gd.arange(1, 21).to("f64")).flatten()), backward)
    x = gd.tensor([0.1, 0.2])
    by_rows = gd.jacrev(f)(x)
    rows = len(passes)
    passes.clear()
    by_columns = gd.jacfwd(f)(x)
    assert len(passes) == 1 and rows >= 20
    exact = np.zeros((40, 2))
    for i in range(2):
        exact[20 * i:20 * i + 20, i] = np.arange(1, 21) * np.cos(np.arange(1, 21) * x.tolist()[i])
    assert np.allclose(by_rows.tolist(), exact) and np.allclose(by_columns.tolist(), exact)


def test_jacfwd_takes_trees_names_and_constants():
    x = gd.tensor([1.0, 2.0], axes="p")
    found = gd.jacfwd(lambda t: {"a": t["x"] * t["y"], "b": gd.ones(3)})({"x": x, "y": gd.tensor(3.0)})
    assert found["a"]["x"].tolist() == [[3, 0], [0, 3]] and found["a"]["x"].axes == ("p", "p2")
    assert found["a"]["y"].tolist() == [1, 2] and found["a"]["y"].axes == ("p",)
    assert found["b"]["x"].tolist() == [[0, 0]] * 3 and found["b"]["y"].tolist() == [0, 0, 0]
    value, aux = gd.jacfwd(lambda x: (x ** 2, "seen"), has_aux=True)(gd.tensor([3.0]))
    assert value.tolist() == [[6]] and aux == "seen" and not value.requires_grad
    assert gd.jacfwd(lambda x, y: x * y, argnums=(0, 1))(2.0, 3.0)[1].item() == 2


def test_vmap_calls_a_function_for_the_first_elements_only():
    calls = []

    def f(x, y):
        calls.append(1)
        return {"s": (x.sin() * y).sum(), "m": x @ gd.ones((3, 2))}, 2.0
    x, y = gd.tensor(np.sin(np.arange(120.0)).reshape(40, 3)), gd.tensor([1.0, 2.0, 3.0])
    mapped = gd.vmap(f, in_axes=(0, None), out_axes=({"s": 0, "m": 1}, 0))
    (found, two) = mapped(x, y)
    first = len(calls)
    assert first <= 6
    assert np.allclose(found["s"].tolist(), (np.sin(x.numpy()) * y.numpy()).sum(1), rtol=1e-14)
    assert np.allclose(found["m"].tolist(), (x.numpy() @ np.ones((3, 2))).T, rtol=1e-14) and two.tolist() == [2.0] * 40
    mapped(x + 1, y)
    assert len(calls) <= first + 1


def test_gradients_flow_through_recorded_vmaps():
    calls = []

    def f(p, x):
        calls.append(1)
        return ((p["w"] * x).tanh() * p["b"]).sum(), x.exp()

    def loss(p, xs):
        value, e = gd.vmap(f, in_axes=(None, 1))(p, xs)
        return (value ** 2).sum() + (e * xs.T).sum()
    rows = np.cos(np.arange(60.0)).reshape(3, 20)
    p, xs = {"w": gd.tensor([0.1, 0.2, 0.3]), "b": gd.tensor(2.0)}, gd.tensor(rows)

    def plain(p, xs):
        return ((p["w"][:, None] * xs).tanh() * p["b"]).sum(0).square().sum() + (xs.exp() * xs).sum()
    for argnums in (0, 1, (0, 1)):
        calls.clear()
        found, exact = gd.grad(loss, argnums)(p, xs), gd.grad(plain, argnums)(p, xs)
        assert len(calls) < 20
        for a, b in zip(gd.tree_leaves(found), gd.tree_leaves(exact), strict=True):
            assert np.allclose(a.tolist(), b.tolist(), rtol=1e-12)
    second = gd.hessian(lambda w: loss({"w": w, "b": p["b"]}, xs))(p["w"])
    assert np.allclose(second.tolist(), gd.hessian(lambda w: plain({"w": w, "b": p["b"]}, xs))(p["w"]).tolist(), rtol=1e-10)
    x = gd.tensor(rows).require_grad()
    gd.vmap(lambda r: gd.vmap(lambda v: v ** 3)(r).sum())(x).sum().backward()
    assert np.allclose(x.grad.tolist(), 3 * rows ** 2)


def test_vmap_calls_what_cannot_be_recorded_for_each_element():
    def f(x):
        return x * 2 if x.item() > 0 else x - 1
    assert gd.vmap(f)(gd.arange(-5.0, 5.0)).tolist() == [float(v * 2 if v > 0 else v - 1) for v in range(-5, 5)]
    count = iter(range(100))
    assert gd.vmap(lambda x: x * next(count))(gd.ones(1)).tolist() == [0.0]
    gd.current_context()
    drawn = gd.vmap(lambda x: gd.dropout(x, 0.5))(gd.ones((64, 8)))
    assert len({tuple(row) for row in drawn.tolist()}) > 20  # each element has its own
    x = gd.ones((64, 8)).require_grad()
    drawn = gd.vmap(lambda x: gd.dropout(x, 0.5))(x)
    drawn.sum().backward()
    assert x.grad.tolist() == drawn.tolist()
    w = gd.tensor(2.0).require_grad()
    out = gd.vmap(lambda x: w * x)(gd.arange(10.0))
    assert gd.grad(out.sum(), w).item() == 45


def test_vmap_goes_along_the_axes_it_is_given():
    a, b = gd.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), gd.tensor([1.0, 10.0, 100.0])
    assert gd.vmap(lambda x, y: (x * y).sum(), in_axes=(0, None))(a, b).tolist() == [321, 654]
    assert gd.vmap(lambda x, y: x.sum() * y, in_axes=(1, 0))(a, b).tolist() == [5, 70, 900]
    assert gd.vmap(lambda x: x, in_axes="col", out_axes=1)(gd.tensor([[1.0, 2.0]], axes="row, col")).tolist() == [[1, 2]]
    found = gd.vmap(lambda t: {"double": 2 * t["x"]}, in_axes=({"x": 0},))({"x": b})
    assert found["double"].tolist() == [2, 20, 200]
    with pytest.raises(ValueError, match="different sizes: 2, 3"):
        gd.vmap(lambda x, y: x)(gd.ones(2), gd.ones(3))


def test_jit_replays_and_says_so():
    calls = []

    def f(x, scale=1.0):
        calls.append(1)
        return {"y": (x * scale).sin(), "z": [x.sum()]}

    g = gd.jit(f)
    for i in range(6):
        x = gd.tensor([0.1 * i, 1.0])
        found = g(x, scale=2.0)
        assert found["y"].tolist() == (x * 2.0).sin().tolist() and found["z"][0].item() == x.sum().item()
    assert len(calls) == 4 and "replayed" in g.explain()
    assert g(gd.ones(3), scale=2.0)["y"].shape == (3,) and len(calls) == 5  # another shape is another recording
    assert g(gd.ones(3), scale=3.0)["y"].tolist() == [math.sin(3)] * 3


def test_jit_goes_on_where_it_cannot_record_and_says_why():
    g = gd.jit(lambda x: x * 2 if x.sum().item() > 0 else x)
    for sign in (1, -1, 1, -1, 1, -1):
        assert g(gd.tensor([3.0 * sign])).item() == (6 if sign > 0 else -3)
    assert "host" in g.explain()
    w = gd.tensor(2.0).require_grad()
    g = gd.jit(lambda x: w * x)
    for _ in range(4):
        assert gd.grad(g(gd.tensor(3.0)), w).item() == 3  # never a cut gradient
    x = gd.tensor(3.0).require_grad()
    assert gd.grad(g(x), x).item() == 2 and "jit(grad(f))" in g.explain()


def test_jit_sees_captured_tensors_change_in_place():
    w = gd.tensor([2.0])
    g = gd.jit(lambda x: w * x)
    for value in (2.0, 3.0, 4.0, 5.0, 6.0):
        w[0] = value
        assert g(gd.tensor([10.0])).item() == 10 * value


def test_checkpoint_keeps_gradients_of_what_it_uses_from_outside():
    w = gd.tensor(2.0).require_grad()
    x = gd.tensor([1.0, 2.0]).require_grad()
    calls = []

    def f(x):
        calls.append(1)
        return x.sin() * w, x.exp()

    a, b = gd.checkpoint(f)(x)
    assert len(calls) == 1
    (a.sum() + b.sum()).backward()
    assert len(calls) == 2
    assert x.grad.tolist() == pytest.approx([2 * math.cos(v) + math.exp(v) for v in (1, 2)])
    assert w.grad.item() == pytest.approx(math.sin(1) + math.sin(2))


def test_custom_vjp_takes_what_backward_says():
    clip = gd.custom_vjp(lambda x: x)
    clip.defvjp(lambda x: (x, None), lambda kept, g: (g.clamp(-1, 1),))
    assert gd.grad(lambda x: (clip(x) ** 2).sum())(gd.tensor([0.25, 3.0, -3.0])).tolist() == [0.5, 1, -1]
    scaled = gd.custom_vjp(lambda n, x: n * x, nondiff_argnums=(0,))
    scaled.defvjp(lambda n, x: (n * x, None), lambda n, kept, g: (10 * n * g,))
    assert gd.grad(lambda x: scaled(3.0, x))(gd.tensor(1.0)).item() == 30
    bad = gd.custom_vjp(lambda x: x)
    with pytest.raises(TypeError, match="defvjp"):
        bad(gd.tensor(1.0))
    bad.defvjp(lambda x: (x, None), lambda kept, g: (g, g))
    with pytest.raises(TypeError, match="one gradient for each of 1 arguments"):
        gd.grad(bad)(gd.tensor(1.0))
    wrong = gd.custom_vjp(lambda x: x)
    wrong.defvjp(lambda x: (x, None), lambda kept, g: (gd.ones(5),))
    with pytest.raises(gd.ShapeError):
        gd.grad(wrong)(gd.tensor(1.0))


def test_scan_counts_and_turns_round():
    carry, ys = gd.scan(lambda c, x: (c + x, c), gd.tensor(0.0), gd.tensor([1.0, 2.0, 3.0]), reverse=True)
    assert carry.item() == 6 and ys.tolist() == [5, 3, 0]
    carry, ys = gd.scan(lambda c, x: (c * 2, None), gd.tensor(1.0), length=5)
    assert carry.item() == 32 and ys is None
    with pytest.raises(ValueError, match="length"):
        gd.scan(lambda c, x: (c, x), gd.tensor(0.0), gd.ones(3), length=2)


def test_trees_of_users():
    tree = {"a": gd.tensor(1.0), "b": [gd.tensor(2.0), None, "text"]}
    assert [t.item() for t in gd.tree_leaves(tree)] == [1, 2]
    doubled_tree = gd.tree_map(lambda a, b: a + b, tree, tree)
    assert doubled_tree["b"][0].item() == 4 and doubled_tree["b"][2] == "text"
    with pytest.raises(ValueError, match="tree_map"):
        gd.tree_map(lambda a, b: a, tree, [gd.tensor(1.0)])


def test_a_forward_may_call_its_own_function():
    @gd.custom_vjp
    def f(x, y):
        return gd.sin(x) * y

    f.defvjp(lambda x, y: (f(x, y), (gd.cos(x), gd.sin(x), y)), lambda kept, g: (kept[0] * g * kept[2], kept[1] * g * 2))
    assert gd.grad(f)(0.5, 2.0).item() == pytest.approx(2 * math.cos(0.5))
    assert gd.grad(f, argnums=(0, 1))(0.5, 2.0)[1].item() == pytest.approx(2 * math.sin(0.5))  # the factor 2 is backward's
    assert f(0.5, 2.0).item() == pytest.approx(2 * math.sin(0.5))


def test_numbers_and_arrays_are_carried():
    x = gd.tensor([1.0, 2.0, 3.0])
    assert gd.scan(lambda c, _: (c * 2, c), 1.0, None, length=4)[1].tolist() == [1, 2, 4, 8]
    assert gd.scan(lambda c, v: (c + v["a"], c), 0.0, {"a": np.array([1.0, 2.0, 3.0])})[0].item() == 6
    assert gd.scan(lambda c, v: (c + v, 1), 0, gd.arange(7))[1].tolist() == [1] * 7
    assert gd.grad(lambda s: gd.scan(lambda c, v: (c * v, c), s, x)[0])(1.0).item() == 6


def test_the_size_of_vmap_may_be_given():
    assert gd.vmap(lambda a: a + 1, in_axes=None, axis_size=3, out_axes=0)(gd.tensor(1.0)).tolist() == [2, 2, 2]
    with pytest.raises(ValueError, match="different sizes: 2, 3"):
        gd.vmap(lambda a: a, axis_size=3)(gd.ones(2))


def test_no_gradient_flows_through_stop_gradient():
    assert gd.grad(lambda x: (gd.stop_gradient(x) * x).sum())(gd.tensor([2.0, 3.0])).tolist() == [2, 3]
    assert not gd.stop_gradient({"a": gd.ones(1).require_grad()})["a"].requires_grad
