"""Every operator of the table against NumPy: values, dtypes, broadcasting, errors.  A new operator needs a row here, unless NumPy
has a function of its name that takes as many arrays."""
import inspect
import json
import math
from pathlib import Path

import numpy as np
import pytest

import gradus as gd

TABLE = {row["name"]: row for row in
         json.loads((Path(gd.__file__).parents[1] / "generated" / "operators.json").read_text(encoding="utf-8"))}
DTYPES = ("f64", "f32", "f16", "bf16", "i64", "i32", "u8", "bool")
TOLERANCE = {"f64": 1e-12, "f32": 2e-5}
RNG = np.random.default_rng(7)


ON_BITS = ("bit_not", "bit_and", "bit_or", "bit_xor", "shift_left", "shift_right")  # of integers alone


@pytest.fixture(autouse=True)
def numbers_that_no_other_test_changes(monkeypatch):
    monkeypatch.setitem(globals(), "RNG", np.random.default_rng(7))


def numbers(*shape, name=None):
    return RNG.integers(0, 9, shape) if name in ON_BITS else RNG.uniform(0.2, 0.9, shape)


def each(fn):
    return lambda *arrays: np.vectorize(fn, otypes=[float])(*arrays)


def polygamma(x, order):
    """Sums of 1 / (x + k)^(order + 1) with the tail of Euler and Maclaurin; order 0 by the slope of lgamma."""
    if order == 0:
        h = 1e-3
        f = each(math.lgamma)
        return (f(x - 2 * h) - 8 * f(x - h) + 8 * f(x + h) - f(x + 2 * h)) / (12 * h)
    k, n = np.arange(3000.0), order
    end = x + 3000.0
    series = (1 / (x[..., None] + k) ** (n + 1)).sum(-1)
    tail = 1 / (n * end**n) + 0.5 / end ** (n + 1) + (n + 1) / (12 * end ** (n + 2))
    return (-1) ** (n + 1) * math.factorial(n) * (series + tail)


def bessel(x, order):
    t = (np.arange(2000) + 0.5) * np.pi / 2000
    return np.cos(order * t - x[..., None] * np.sin(t)).mean(-1)


def conv2d(x, w, bias=None, stride=1, padding=0):
    x = np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], (2, 3))[:, :, ::stride, ::stride]
    y = np.einsum("nchwij,ocij->nohw", windows, w)
    return y if bias is None else y + bias[:, None, None]


def pooled(reduce):
    def pool(x, size, stride, padding=0):
        return reduce(np.lib.stride_tricks.sliding_window_view(x, (size, size), (2, 3))[:, :, ::stride, ::stride], (-2, -1))
    return pool


def softmax(x, axis=-1):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def layer_norm(x, axes, w, b, eps=1e-5):
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps) * w + b


def scattered(x, axis, index, values):
    y = x.copy()
    for place, row in zip(np.ndindex(index.shape), index.ravel()):
        at = list(place)
        at[axis] = row
        y[tuple(at)] += values[place]
    return y


def reduction(fn):
    return lambda x, axes=None, keep_dims=False: fn(x, axis=axes, keepdims=keep_dims)


def spd(n):
    a = numbers(n, n)
    return a @ a.T + n * np.eye(n)


M34, M45, V5 = numbers(3, 4), numbers(4, 5), numbers(5)
WHOLE = np.array([[0, 1, 2, 6], [7, -3, 4, 5], [-8, 3, 12, 9]])
MASK = RNG.uniform(size=(3, 4)) > 0.5
IMAGE, KERNEL = numbers(2, 3, 6, 6), numbers(4, 3, 3, 3)
INDEX = RNG.integers(0, 3, (2, 4))

# name: (reference, calls), a call being its arguments, arrays as tensors; dict at the end: keywords
ROWS = {
    "rsqrt": (lambda x: 1 / np.sqrt(x), [(M34,)]),
    "asinh": (np.arcsinh, [(M34,)]), "acosh": (np.arccosh, [(M34 + 1,)]), "atanh": (np.arctanh, [(M34,)]),
    "zeros_like": (np.zeros_like, [(M34,)]), "ones_like": (np.ones_like, [(M34,)]),
    "argsort": (lambda x, axis=-1, descending=False: np.argsort(-x if descending else x, axis, kind="stable"),
                [(M34,), (M34, {"axis": 0}), (M34, {"descending": True}), (np.round(M34 * 4), {"axis": 1, "descending": True})]),
    "sort": (lambda x, axis=-1, descending=False: -np.sort(-x, axis) if descending else np.sort(x, axis),
             [(M34,), (M34, {"axis": 0}), (M34, {"descending": True})]),
    "asin": (np.arcsin, [(M34,)]), "acos": (np.arccos, [(M34,)]), "atan": (np.arctan, [(M34,)]),
    "neg": (np.negative, [(M34,)]), "div": (np.divide, [(M34, M34[0])]), "sub": (np.subtract, [(M34, M34[:, :1])]),
    "mul": (np.multiply, [(M34, M34[0])]), "atan2": (np.arctan2, [(M34 - 0.5, M34.T[:3].T[:, :1] - 0.5)]),
    "sigmoid": (lambda x: 1 / (1 + np.exp(-x)), [(M34 * 8 - 4,)]),
    "softplus": (lambda x: np.log1p(np.exp(x)), [(M34 * 8 - 4,)]),
    "relu": (lambda x: np.maximum(x, 0), [(M34 - 0.5,)]),
    "gelu": (each(lambda x: x * (1 + math.erf(x / math.sqrt(2))) / 2), [(M34 * 4 - 2,)]),
    "erf": (each(math.erf), [(M34 * 4 - 2,)]), "erfc": (each(math.erfc), [(M34 * 4 - 2,)]),
    "lgamma": (each(math.lgamma), [(M34 * 5,)]),
    "polygamma": (polygamma, [(M34 * 4, 1), (M34 * 4, 3)]),
    "bessel_j": (bessel, [(M34 * 9, 0), (M34 * 9, 3), (M34 * 9, -1)]),
    "eq": (np.equal, [(M34, M34.copy()), (M34, M34[0])]), "ne": (np.not_equal, [(M34, M34[0])]), "lt": (np.less, [(M34, M34[0])]),
    "le": (np.less_equal, [(M34, M34[0])]), "gt": (np.greater, [(M34, M34[0])]), "ge": (np.greater_equal, [(M34, M34[0])]),
    "add_scalar": (np.add, [(M34, 2.5)]), "mul_scalar": (np.multiply, [(M34, 2.5)]), "pow_scalar": (np.power, [(M34, 2.5)]),
    "clamp": (lambda x, low=-np.inf, high=np.inf: np.clip(x, low, high), [(M34, 0.3, 0.7), (M34, {"high": 0.4})]),
    "where": (np.where, [(MASK, M34, M34 + 1), (MASK, M34, M34[0])]),
    "fma": (lambda a, b, c: a * b + c, [(M34, M34 + 1, M34 - 1)]),
    "lerp": (lambda a, b, w: a + w * (b - a), [(M34, M34 + 1, M34 - 1)]),
    "empty": (lambda shape, dtype="f64": np.empty(shape), [((2, 3),)]),
    "zeros": (lambda shape, dtype="f64": np.zeros(shape), [((2, 3),), (4,), ((),)]),
    "ones": (lambda shape, dtype="f64": np.ones(shape), [((2, 3),)]),
    "full": (lambda shape, value, dtype="f64": np.full(shape, value), [((2, 3), 1.5)]),
    "rand": (None, [((50, 40),)]), "randn": (None, [((50, 40),)]), "rademacher": (None, [((50, 40),)]), "permutation": (None, [(30,)]),
    "full_like": (np.full_like, [(M34, 3.0)]),
    "linspace": (lambda a, b, n, dtype="f64": np.linspace(a, b, n), [(0.0, 2.0, 5)]),
    "cast": (lambda x, dtype: x.astype({"f32": "float32", "i64": "int64"}[dtype]), [(M34, "f32"), (M34 * 10, "i64")]),
    "contiguous": (np.ascontiguousarray, [(M34.T,)]), "detach": (lambda x: x, [(M34,)]), "drop_names": (lambda x: x, [(M34,)]),
    "sum": (reduction(np.sum), [(M34,), (M34, 0), (M34, (0, 1)), (M34, -1, True)]),
    "mean": (reduction(np.mean), [(M34,), (M34, 1), (M34, 0, True)]), "prod": (reduction(np.prod), [(M34,), (M34, 1)]),
    "max": (reduction(np.max), [(M34,), (M34, 1), (M34, 0, True)]), "min": (reduction(np.min), [(M34,), (M34, 1)]),
    "argmax": (lambda x, axis=None, keep_dims=False: np.argmax(x, axis, keepdims=keep_dims), [(M34, 1), (M34,), (M34, 0, True)]),
    "argmin": (lambda x, axis=None, keep_dims=False: np.argmin(x, axis, keepdims=keep_dims), [(M34, 1), (M34,)]),
    "any": (reduction(np.any), [(MASK,), (MASK, 1)]), "all": (reduction(np.all), [(MASK,), (MASK, 0)]),
    "norm": (lambda x, p=2.0, axes=None, keep_dims=False: np.linalg.norm(x.ravel() if axes is None else x, p, axes, keep_dims),
             [(M34,), (M34, 1.0, 0), (M34, np.inf, 1), (M34, 3.0, 1, True)]),
    "variance": (lambda x, axes=None, correction=1, keep_dims=False: np.var(x, axis=axes, ddof=correction, keepdims=keep_dims),
                 [(M34,), (M34, 0), (M34, 1, 0)]),
    "logsumexp": (lambda x, axes=None, keep_dims=False: np.log(np.exp(x).sum(axis=axes, keepdims=keep_dims)), [(M34,), (M34, 1)]),
    "softmax": (softmax, [(M34,), (M34, 0)]), "log_softmax": (lambda x, axis=-1: np.log(softmax(x, axis)), [(M34,), (M34, 0)]),
    "cumsum": (lambda x, axis=None: np.cumsum(x, axis), [(M34,), (M34, 1)]),
    "reshape": (lambda x, *shape: x.reshape(*shape), [(M34, (4, 3)), (M34, -1), (M34, 2, 6)]),
    "permute": (lambda x, *order: x.transpose(*order), [(IMAGE, (3, 0, 2, 1)), (M34, 1, 0)]),
    "transpose": (np.swapaxes, [(IMAGE, 1, 3)]),
    "squeeze": (lambda x, axes=None: np.squeeze(x, axes), [(M34[:, None],), (M34[None, :, None], 0)]),
    "unsqueeze": (lambda x, position: np.expand_dims(x, position), [(M34, 1), (M34, 2)]),
    "expand": (lambda x, *shape: np.broadcast_to(x, shape[0] if len(shape) == 1 else shape), [(M34, (2, 3, 4)), (M34[:, :1], 3, 5)]),
    "index": (lambda x, axis, i: np.take(x, i, axis), [(M34, 1, 2), (M34, 0, 1)]),
    "index_select": (lambda x, axis, i: np.take(x, i, axis), [(M34, 1, np.array([2, 0, 2]))]),
    "index_label": (None, []), "rename": (lambda x, names: x, [(M34, "a, b")]), "rename_axis": (lambda x, axis, name: x, [(M34, 1, "b")]),
    "with_labels": (lambda x, axis, labels: x, [(M34, 0, ["a", "b", "c"])]), "align": (None, []),
    "gather": (lambda x, axis, i: np.take_along_axis(x, i, axis), [(M34, 0, INDEX)]),
    "scatter_add": (scattered, [(M34, 0, INDEX, numbers(2, 4))]),
    "cat": (lambda pieces, axis=0: np.concatenate(pieces, axis), [([M34, M34 + 1],), ([M34, M34[:, :2]], 1)]),
    "stack": (lambda pieces, position=0: np.stack(pieces, position), [([M34, M34 + 1],), ([M34, M34], 2)]),
    "flip": (lambda x, axes=None: np.flip(x, axes), [(M34,), (M34, 1)]),
    "pad": (lambda x, before, after, value=0.0: np.pad(x, tuple(zip(before, after)), constant_values=value), [(M34, (1, 0), (0, 2), 9.0)]),
    "matmul": (np.matmul, [(M34, M45), (M34, M45[:, 0]), (IMAGE, numbers(6, 2))]),
    "matmul_fast": (np.matmul, [(M34, M45)]),
    "addmm": (lambda c, a, b, beta=1.0, alpha=1.0: beta * c + alpha * a @ b, [(numbers(3, 5), M34, M45), (numbers(3, 5), M34, M45, 0.5, 2.0)]),
    "contract": (None, []),
    "einsum": (lambda spec, operands: np.einsum(spec, *operands), [("ij,jk->ik", [M34, M45]), ("ij->j", [M34]), ("ij,ij->", [M34, M34])]),
    "dot": (np.dot, [(V5, V5 + 1)]), "outer": (np.outer, [(V5, V5 + 1)]),
    "cholesky": (np.linalg.cholesky, [(spd(4),)]), "qr": (None, []), "eigh": (None, []), "svd": (None, []),
    "solve": (np.linalg.solve, [(spd(4), numbers(4, 2))]), "inverse": (np.linalg.inv, [(spd(4),)]),
    "logdet": (lambda a: np.linalg.slogdet(a)[1], [(spd(4),)]),
    "triangular_solve": (lambda a, b, lower=True, transpose=False, unit=False: np.linalg.solve(np.tril(a) if lower else np.triu(a), b),
                         [(spd(4), numbers(4, 2)), (spd(4), numbers(4, 2), False)]),
    "tril": (np.tril, [(M34,), (M34, 1)]), "triu": (np.triu, [(M34,), (M34, -1)]), "diagonal": (np.diagonal, [(spd(4),)]),
    "conv2d": (conv2d, [(IMAGE, KERNEL), (IMAGE, KERNEL, numbers(4), 2, 1)]),
    "max_pool2d": (pooled(np.max), [(IMAGE, 2, 2)]), "avg_pool2d": (pooled(np.mean), [(IMAGE, 3, 1)]),
    "layer_norm": (layer_norm, [(M34, 1, numbers(4), numbers(4))]),
    "embedding": (lambda table, i: table[i], [(M34, np.array([2, 0, 1, 1]))]),
    "floor_div": (np.floor_divide, [(M34, M34[0] + 0.1), (WHOLE, WHOLE[::-1])]),
    "bit_not": (np.bitwise_not, [(WHOLE,), (WHOLE > 3,)]),
    **{name: (fn, [(WHOLE, WHOLE[::-1]), (WHOLE > 3, WHOLE[0] > 1)])
       for name, fn in {"bit_and": np.bitwise_and, "bit_or": np.bitwise_or, "bit_xor": np.bitwise_xor}.items()},
    "shift_left": (np.left_shift, [(WHOLE, WHOLE[0] + 1)]), "shift_right": (np.right_shift, [(WHOLE * 1000, WHOLE[0] + 1)]),
    "dropout": (None, []), "mse": (lambda x, y: ((x - y) ** 2).mean(), [(M34, M34 * 2)]),
    "cross_entropy": (lambda x, c: -np.log(softmax(x))[np.arange(len(c)), c].mean(), [(M34, np.array([0, 3, 1]))]),
}


def row_of(name):
    if name in ROWS:
        return ROWS[name]
    row, fn = TABLE[name], getattr(np, name, None)
    arrays = [p for p in row["parameters"] if p["kind"] == "TENSOR"]
    assert fn is not None and len(arrays) == len(row["parameters"]), f"operator {name} needs a row in {__file__}"
    return fn, [(M34,) if len(arrays) == 1 else (M34, M34[0] + 0.1)]


def narrow(value, dtype):
    """Floating arrays as that dtype."""
    if isinstance(value, np.ndarray) and value.dtype.kind == "f":
        return value.astype("float32" if dtype == "f32" else "float64")
    return [narrow(v, dtype) for v in value] if isinstance(value, list) else value


def as_tensors(value):
    if isinstance(value, np.ndarray):
        return gd.tensor(value)
    return [as_tensors(v) for v in value] if isinstance(value, list) else value


def split_keywords(call):
    return (call[:-1], call[-1]) if isinstance(call[-1], dict) else (call, {})


@pytest.mark.parametrize("dtype", ["f64", "f32"])
@pytest.mark.parametrize("name", TABLE)
def test_an_operator_gives_what_numpy_gives(name, dtype):
    reference, calls = row_of(name)
    for call in calls if reference else []:
        args, keywords = split_keywords(call)
        args = [narrow(a, dtype) for a in args]
        with np.errstate(divide="ignore"):  # rows divide by 0 on purpose
            expected = np.asarray(reference(*args, **keywords))
        got = getattr(gd, name)(*map(as_tensors, args), **keywords)
        assert got.shape == expected.shape
        if name == "empty":
            continue
        assert np.allclose(np.asarray(got.detach().to("f64")), expected.astype(float), rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])
        if expected.dtype.kind in "bi":
            assert got.dtype == {"b": "bool", "i": "i64"}[expected.dtype.kind]
        elif name not in ("cast", "zeros", "ones", "full", "linspace"):
            assert got.dtype == dtype
        if TABLE[name]["method"] and isinstance(args[0], np.ndarray):
            same = getattr(gd.tensor(args[0]), name)(*map(as_tensors, args[1:]), **keywords)
            assert same.tolist() == got.tolist()


@pytest.mark.parametrize("name", [n for n, r in TABLE.items() if r["method"] and [p["kind"] for p in r["parameters"]] == ["TENSOR"] * 2
                                  and n not in ("align", "matmul", "matmul_fast", "dot", "outer", "solve", "mse")])
def test_shapes_meet_as_in_numpy(name):
    reference, _ = row_of(name)
    for _ in range(20):
        full = RNG.integers(1, 4, RNG.integers(0, 5))
        shapes = []
        for _ in range(2):
            shape = [int(n) if RNG.uniform() < 0.7 else 1 for n in full]
            shapes.append(tuple(shape[RNG.integers(0, len(shape) + 1):]))
        a, b = numbers(*shapes[0], name=name), numbers(*shapes[1], name=name)
        assert np.allclose(np.asarray(getattr(gd, name)(gd.tensor(a), gd.tensor(b)).to("f64")), reference(a, b).astype(float))
    with pytest.raises(gd.ShapeError, match=name):
        dtype = "i64" if name in ON_BITS else "f64"
        getattr(gd, name)(gd.ones((2, 3), dtype), gd.ones((2, 4), dtype))
    if name in ON_BITS:
        with pytest.raises(gd.DtypeError):
            getattr(gd, name)(gd.ones(3), gd.ones(3, "i64"))
    else:
        assert getattr(gd, name)(gd.ones(3), gd.ones(3, "f32")).dtype in ("f64", "bool")


@pytest.mark.parametrize("name", [n for n, r in TABLE.items() if r["method"] and [p["kind"] for p in r["parameters"]] == ["TENSOR"]
                                  and n not in ("acosh", "detach", "copy", "contiguous", "drop_names", "cholesky", "inverse", "logdet", "diagonal",
                                                "qr", "eigh", "svd")])
def test_any_shape_is_taken_element_by_element(name):
    reference, _ = row_of(name)
    for shape in [(), (0,), (3, 0, 2), (1,) * 8] + [tuple(int(n) for n in RNG.integers(1, 6, k)) for k in range(1, 8)]:
        a = numbers(*shape, name=name)
        got = np.asarray(getattr(gd, name)(gd.tensor(a)).to("f64"))
        assert got.shape == shape and np.allclose(got, np.asarray(reference(a), dtype=float) if a.size else a, rtol=1e-12, atol=1e-12)
        if a.ndim > 1:  # and in an order of axes that is not that of memory
            assert np.array_equal(np.asarray(getattr(gd, name)(gd.tensor(a).T).to("f64")), got.T)


@pytest.mark.parametrize("name", TABLE)
def test_wrong_calls_are_refused(name):
    with pytest.raises(TypeError):
        getattr(gd, name)()
    with pytest.raises(TypeError):
        getattr(gd, name)(*[gd.ones(2)] * 9)
    row = TABLE[name]["parameters"]
    if row[0]["kind"] == "TENSOR":
        with pytest.raises((TypeError, NotImplementedError)):
            getattr(gd, name)(*["x" if p["kind"] == "TENSOR" else 1 for p in row])
    if len(row) > 1:
        with pytest.raises(TypeError, match="nonsense"):
            getattr(gd, name)(*[gd.ones((2, 2))] * len(row), nonsense=1)


@pytest.mark.parametrize("name", TABLE)
def test_every_operator_explains_itself(name):
    fn = getattr(gd, name)
    shown = getattr(fn, "__text_signature__", None) or str(inspect.signature(fn))
    assert shown.startswith("(")
    for parameter in TABLE[name]["parameters"] if not inspect.isfunction(fn) else []:
        assert parameter["name"] in shown or "*more" in shown
    assert len(fn.__doc__) > 2 and fn.__doc__[-1] in ".?" and fn.__doc__.rstrip(".") not in DTYPES
    assert "NULL" not in fn.__doc__ and "gd_" not in fn.__doc__, "C's words"
    if TABLE[name]["method"]:
        assert getattr(gd.Tensor, name).__doc__


def test_factorisations_give_the_matrix_back():
    a = gd.tensor(numbers(4, 3))
    q, r = gd.qr(a)
    assert np.allclose(np.asarray(q @ r), np.asarray(a)) and np.allclose(np.asarray(q.T @ q), np.eye(3))
    s = gd.tensor(spd(4))
    values, vectors = gd.eigh(s)
    assert np.allclose(np.asarray(values), np.linalg.eigvalsh(np.asarray(s)))
    assert np.allclose(np.asarray(vectors @ (values[:, None] * vectors.T)), np.asarray(s))
    u, sizes, vt = gd.svd(a)
    assert np.allclose(np.asarray(sizes), np.linalg.svd(np.asarray(a))[1])
    assert np.allclose(np.asarray(u * sizes @ vt), np.asarray(a))
    with pytest.raises(gd.SingularError):
        gd.cholesky(-s)


def test_random_numbers_follow_the_seed_and_their_law():
    gd.seed(3)
    first = gd.randn((2000,))
    gd.seed(3)
    assert gd.randn((2000,)).tolist() == first.tolist()
    assert abs(first.mean().item()) < 0.1 and abs(first.variance().item() - 1) < 0.15
    uniform = gd.rand((2000,))
    assert 0 <= uniform.min().item() and uniform.max().item() < 1 and abs(uniform.mean().item() - 0.5) < 0.05
    assert set(gd.rademacher((200,)).tolist()) == {-1, 1}
    assert sorted(gd.permutation(30).tolist()) == list(range(30))
    kept = gd.dropout(gd.ones(4000), 0.25)
    assert set(kept.tolist()) == {0, 4 / 3} and abs(kept.mean().item() - 1) < 0.1


def test_names_decide_what_is_contracted():
    a, b = gd.tensor(M34, axes="i, k"), gd.tensor(M45, axes="k, j")
    assert np.allclose(np.asarray(gd.contract(a, b, "k")), M34 @ M45)
    assert gd.align(gd.tensor(M45, axes="k, j"), gd.ones((5, 4)).rename("j, k")).axes == ("j", "k")
    labelled = gd.tensor(M34, axes="i, k", labels={"i": ["x", "y", "z"]})
    assert labelled.index_label("i", "y").tolist() == M34[1].tolist()
    assert gd.einsum("i k, k j -> j i", [a, b]).axes == ("j", "i")
