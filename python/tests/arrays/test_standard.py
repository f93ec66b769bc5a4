"""The array API standard and NumPy's habits beyond it: values, dtypes and gradients against NumPy."""
import copy
import math
import pickle

import numpy as np
import pytest

import gradus as gd

RNG = np.random.default_rng(11)
M, N3, V = RNG.normal(size=(3, 4)), RNG.normal(size=(2, 3, 4)), RNG.normal(size=7)
W = RNG.integers(-4, 5, (3, 4))
ROW = np.array([0.0, 1.0, 1.0, 2.0, 5.0])
SQUARE = RNG.normal(size=(4, 4)) + 4 * np.eye(4)
SYMMETRIC = SQUARE + SQUARE.T

# what gradus is asked, and what NumPy says; x is a tensor in one and an array in the other
SAME = [
    (lambda xp, x: xp.clip(x, -0.5, 0.5), M), (lambda xp, x: xp.clip(x, max=0.1), M), (lambda xp, x: xp.clip(x, -1, 2), W),
    (lambda xp, x: xp.var(x, axis=0), M), (lambda xp, x: xp.std(x, axis=(0, 2), keepdims=True), N3), (lambda xp, x: xp.std(x), W),
    (lambda xp, x: xp.mean(x, axis=1), W), (lambda xp, x: xp.sum(x, axis=-1, keepdims=True), N3), (lambda xp, x: xp.sum(x, axis=()), M),
    (lambda xp, x: xp.prod(x, axis=1), W), (lambda xp, x: xp.max(x, axis=(0, 1)), N3), (lambda xp, x: xp.count_nonzero(x, axis=0), W),
    (lambda xp, x: xp.cumulative_sum(x, axis=1, include_initial=True), M), (lambda xp, x: xp.cumulative_prod(x, axis=0), M),
    (lambda xp, x: xp.cumprod(x, axis=1), W), (lambda xp, x: xp.cumprod(x), V),
    (lambda xp, x: xp.median(x), M), (lambda xp, x: xp.median(x, axis=1), N3), (lambda xp, x: xp.median(x, axis=0), W),
    (lambda xp, x: xp.quantile(x, 0.3), V), (lambda xp, x: xp.quantile(x, [0.0, 0.25, 1.0], axis=1), N3),
    (lambda xp, x: xp.quantile(x, 0.9, axis=0, keepdims=True), M),
    (lambda xp, x: xp.sort(x, axis=0), M), (lambda xp, x: xp.argsort(x, axis=1), M), (lambda xp, x: xp.sort(x, axis=-1), W),
    (lambda xp, x: xp.nonzero(x)[1], W), (lambda xp, x: xp.searchsorted(x, xp.asarray([1.0, 3.0, -1.0, 9.0])), ROW),
    (lambda xp, x: xp.searchsorted(x, xp.asarray([1.0, 5.0]), side="right"), ROW),
    (lambda xp, x: xp.sort(xp.unique_values(x)), W), (lambda xp, x: xp.unique_counts(x).counts, W), (lambda xp, x: xp.unique_inverse(x).inverse_indices, W),
    (lambda xp, x: xp.unique_all(x).indices, W), (lambda xp, x: xp.isin(x, xp.asarray([1, -2])), W),
    (lambda xp, x: xp.take(x, xp.asarray([2, 0]), axis=1), M), (lambda xp, x: xp.take(x, xp.asarray([-1, 5]), axis=None), M),
    (lambda xp, x: xp.take_along_axis(x, xp.asarray([[0, 1, -1]]), axis=1), M[:1]),
    (lambda xp, x: xp.broadcast_to(x, (5, 3, 4)), M), (lambda xp, x: xp.concat([x, x], axis=1), M), (lambda xp, x: xp.concat([x, x], axis=None), M),
    (lambda xp, x: xp.stack([x, x], axis=-1), M), (lambda xp, x: xp.unstack(x, axis=1)[2], M), (lambda xp, x: xp.expand_dims(x, axis=-2), M),
    (lambda xp, x: xp.squeeze(x, axis=0), M[None]), (lambda xp, x: xp.permute_dims(x, (2, 0, 1)), N3), (lambda xp, x: xp.matrix_transpose(x), N3),
    (lambda xp, x: xp.moveaxis(x, 0, -1), N3), (lambda xp, x: xp.moveaxis(x, (0, 1), (2, 0)), N3), (lambda xp, x: xp.flip(x, axis=(0, 1)), M),
    (lambda xp, x: xp.roll(x, 2), M), (lambda xp, x: xp.roll(x, (1, -1), axis=(0, 1)), M), (lambda xp, x: xp.tile(x, (2, 1, 3)), M),
    (lambda xp, x: xp.repeat(x, 3), M), (lambda xp, x: xp.repeat(x, 2, axis=1), M), (lambda xp, x: xp.repeat(x, xp.asarray([1, 0, 2]), axis=0), M),
    (lambda xp, x: xp.reshape(x, (2, -1), copy=True), M), (lambda xp, x: xp.diff(x, axis=0), M), (lambda xp, x: xp.diff(x, n=2), V),
    (lambda xp, x: xp.diag(x), V), (lambda xp, x: xp.diag(x, 2), V), (lambda xp, x: xp.diag(x, -1), M), (lambda xp, x: xp.diag(x, 1), M),
    (lambda xp, x: xp.trace(x), M), (lambda xp, x: xp.tensordot(x, x, axes=([0], [0])), M), (lambda xp, x: xp.tensordot(x, x, axes=2), W),
    (lambda xp, x: xp.vecdot(x, x), N3), (lambda xp, x: xp.tril(x, k=1), M), (lambda xp, x: xp.eye(3, 5, k=2) + xp.sum(x), M),
    (lambda xp, x: xp.linspace(0, 1, 4, endpoint=False) + xp.sum(x), M), (lambda xp, x: xp.meshgrid(x, xp.asarray([1.0, 2.0]))[0], V),
    (lambda xp, x: xp.meshgrid(x, xp.asarray([1.0, 2.0]), indexing="ij")[1], V),
    (lambda xp, x: xp.where(x > 0, x, 0.0), M), (lambda xp, x: xp.hypot(x, 2.0 * x), M), (lambda xp, x: xp.logaddexp(x, x * 0.5), M),
    (lambda xp, x: xp.copysign(x, -x), M), (lambda xp, x: xp.signbit(x), M), (lambda xp, x: xp.isnan(x), np.where(W > 0, np.nan, W)),
    (lambda xp, x: xp.trunc(3 * x), M), (lambda xp, x: xp.remainder(x, 0.7), M), (lambda xp, x: xp.floor_divide(x, 3), W),
    (lambda xp, x: xp.pow(x, 3), W), (lambda xp, x: x ** 2, W), (lambda xp, x: x / 3, W), (lambda xp, x: x % 3, W),
    (lambda xp, x: xp.isclose(x, x + 1e-9), M), (lambda xp, x: xp.linalg.det(x), SQUARE), (lambda xp, x: xp.linalg.slogdet(-x).sign, SQUARE[:3, :3]),
    (lambda xp, x: xp.linalg.inv(x), SQUARE), (lambda xp, x: xp.linalg.pinv(x), M), (lambda xp, x: xp.linalg.svdvals(x), M),
    (lambda xp, x: xp.linalg.eigvalsh(x), SYMMETRIC), (lambda xp, x: xp.linalg.matrix_power(x, 3), SQUARE),
    (lambda xp, x: xp.linalg.matrix_power(x, -2), SQUARE), (lambda xp, x: xp.linalg.matrix_norm(x, ord="nuc"), M),
    (lambda xp, x: xp.linalg.matrix_norm(x, ord=-1), N3), (lambda xp, x: xp.linalg.matrix_rank(x[:, [0, 0, 1]]), SQUARE),
    (lambda xp, x: xp.linalg.vector_norm(x, axis=1, ord=3), M), (lambda xp, x: xp.linalg.vector_norm(x, ord=np.inf), M),
    (lambda xp, x: xp.linalg.cross(x[:, :3], x[:, 1:]), M), (lambda xp, x: xp.linalg.outer(x, x), V),
    (lambda xp, x: xp.linalg.solve(x, x[0]), SQUARE), (lambda xp, x: xp.linalg.cholesky(x @ x.T, upper=True), SQUARE),
]


@pytest.mark.parametrize("ask, array", SAME, ids=range(len(SAME)))
def test_a_function_gives_what_numpy_gives(ask, array):
    got, want = ask(gd, gd.asarray(array)), np.asarray(ask(np, array))
    assert isinstance(got, gd.Tensor) and got.shape == want.shape
    assert np.allclose(np.asarray(got.detach()), want, rtol=1e-10, atol=1e-12)
    assert got.dtype.kind == want.dtype.kind and (want.dtype.kind != "f" or got.dtype == "f64")


DIFFERENTIABLE = [
    lambda x: gd.sort(x, axis=0) * gd.asarray(M), lambda x: gd.median(x, axis=1), lambda x: gd.quantile(x, [0.2, 0.7], axis=1), gd.std, gd.cumprod,
    lambda x: gd.topk(x, 2).values, lambda x: gd.clip(x, -0.5, 0.5), lambda x: gd.roll(x, 1) * gd.asarray(M), lambda x: gd.tile(x, 2).square(),
    lambda x: gd.repeat(x, 2).square(), lambda x: gd.diag(x[0]) @ x.T, gd.trace, lambda x: gd.hypot(x, 1.5), lambda x: gd.logaddexp(x, x.square()),
    gd.asinh, lambda x: gd.acosh(2 + x.square()), lambda x: gd.atanh(x.tanh() / 2), lambda x: gd.copysign(x, x.flip(1)) * x,
    lambda x: gd.linalg.det(x @ x.T), lambda x: gd.linalg.pinv(x), lambda x: gd.linalg.vector_norm(x, ord=3), lambda x: gd.diff(x).square(),
    lambda x: gd.take_along_axis(x, gd.argsort(x)) * gd.asarray(M), lambda x: gd.take(x, [0, 0, 2], axis=1).square(), lambda x: gd.cumulative_sum(x, axis=1).square(),
    lambda x: gd.tensordot(x, x, axes=2), lambda x: gd.var(x, axis=0, correction=1), lambda x: x.astype("f64").mT @ x, lambda x: x.flatten().square(),
]


@pytest.mark.parametrize("fn", DIFFERENTIABLE, ids=range(len(DIFFERENTIABLE)))
def test_gradients_are_the_slopes(fn):
    x = gd.tensor(M, requires_grad=True)
    slope = gd.grad(fn(x).sum(), x)
    h = 1e-6
    for place in np.ndindex(M.shape):
        ends = []
        for side in (-h, h):
            moved = M.copy()
            moved[place] += side
            ends.append(fn(gd.tensor(moved)).sum().item())
        assert slope[place].item() == pytest.approx((ends[1] - ends[0]) / (2 * h), rel=2e-5, abs=2e-5)


def test_dtypes_are_objects_that_equal_their_short_names():
    assert gd.ones(2).dtype is gd.float64 is gd.f64 and gd.f64 == "f64" == gd.f64 and hash(gd.f64) == hash("f64") and gd.f64 != gd.f32
    assert {"f32": 1}[gd.f32] == 1 and f"{gd.u8:>4}" == "  u8" and repr(gd.i32) == "gradus.int32" and not isinstance(gd.f32, str)
    for copied in (pickle.loads(pickle.dumps(gd.bf16)), copy.deepcopy(gd.bf16), gd.Dtype("bf16"), gd.Dtype("bfloat16")):
        assert copied is gd.bf16
    for dtype in (gd.f32, "f32", "float32", np.float32, np.dtype("f4")):
        assert gd.zeros(2, dtype).dtype is gd.tensor([1], dtype=dtype).dtype is gd.ones(2).to(dtype).dtype is gd.float32
    assert (gd.int64.name, gd.int64.itemsize, gd.int64.kind) == ("int64", 8, "i")
    with pytest.raises(gd.DtypeError, match="no complex numbers"):
        gd.zeros(2, "complex128")


def test_dtypes_know_their_limits_and_meet():
    for dtype in ("float16", "float32", "float64"):
        mine, theirs = gd.finfo(getattr(gd, dtype)), np.finfo(dtype)
        assert (mine.eps, mine.max, mine.min, mine.smallest_normal, mine.bits) == (theirs.eps, theirs.max, theirs.min, theirs.smallest_normal, theirs.bits)
    for dtype in ("int32", "int64", "uint8"):
        assert (gd.iinfo(getattr(gd, dtype)).max, gd.iinfo(dtype).min) == (np.iinfo(dtype).max, np.iinfo(dtype).min)
    names = ("bool", "uint8", "int32", "int64", "float32", "float64")
    for a in names:
        for b in names:
            one, other = gd.zeros((), getattr(gd, a)), gd.zeros((), getattr(gd, b))
            if "bool" not in (a, b):
                assert gd.result_type(one, getattr(gd, b)) == (one + other).dtype
            assert gd.can_cast(one, other) == (gd.result_type(one, other) == other.dtype)
    assert gd.result_type(gd.i32, 2.5) == gd.f64 and gd.result_type(gd.f32, 2.5) == gd.f32 and gd.result_type(gd.u8, 3) == gd.u8
    assert gd.isdtype(gd.u8, "integral") and gd.isdtype(gd.f16, ("bool", "real floating")) and not gd.isdtype(gd.f32, gd.f64)


def test_names_stand_beside_numbers():
    x = gd.tensor(M, axes="row, col", labels={"row": ["a", "b", "c"]})
    for reduce in (gd.sum, gd.mean, gd.max, gd.var, gd.median):
        assert np.array_equal(np.asarray(reduce(x, axis="row")), np.asarray(reduce(x, axis=0))) and reduce(x, axis="row").axes == ("col",)
    assert x.sum(axes="row", keep_dims=True).shape == x.sum(axis=0, keepdims=True).shape == (1, 4)
    ordered = x.sort(axis="row")
    assert ordered.axes == ("row", "col") and ordered.labels == (None, None)
    with pytest.raises(KeyError, match="no axis 'deep'"):
        gd.median(x, axis="deep")
    with pytest.raises(TypeError, match="given twice"):
        x.sum(axis=0, axes=0)


def test_places_of_equal_elements_stay_and_nan_is_last():
    x = gd.tensor([2.0, math.nan, 1.0, 2.0, -math.inf, 1.0])
    assert x.argsort().tolist() == [4, 2, 5, 0, 3, 1] and x.argsort(descending=True).tolist() == [1, 0, 3, 2, 5, 4]
    top = gd.topk(gd.tensor([3, 1, 2]), 2)
    assert (top.values.tolist(), top.indices.tolist()) == ([3, 2], [0, 2])


def test_copies_are_as_asked():
    array = np.zeros(3)
    for wanted in (None, False):
        shared = gd.asarray(array, copy=wanted)
        shared[0] = 5
        assert array[0] == 5
    copied = gd.asarray(array, copy=True)
    copied[0] = 6
    assert array[0] == 5
    for call in (lambda: gd.asarray([1, 2], copy=False), lambda: gd.asarray(array, dtype="f32", copy=False), lambda: gd.reshape(gd.tensor(M).T, (12,), copy=False)):
        with pytest.raises(ValueError):
            call()
    x = gd.tensor(M)
    view = gd.reshape(x, 12, copy=False)
    view[0] = 9
    assert x[0, 0].item() == 9


def test_what_is_not_there_is_refused_by_name():
    for name in ("complex64", "conj", "real", "fft"):
        with pytest.raises(AttributeError, match=f"no '{name}': there are no complex numbers"):
            getattr(gd, name)
    assert gd.ones(2).__array_namespace__() is gd and gd.__array_api_version__ == "2024.12"
    with pytest.raises(ValueError, match="2024.12"):
        gd.ones(2).__array_namespace__(api_version="1999.01")
    info = gd.__array_namespace_info__()
    assert info.capabilities()["max dimensions"] == 8 and info.default_dtypes()["integral"] == gd.int64 and "cpu" in info.devices()
    assert set(info.dtypes(kind="integral")) == {"int32", "int64", "uint8"}


def test_a_number_that_a_dtype_cannot_hold_pads_nothing():
    with pytest.raises(OverflowError, match="300 does not fit into u8"):
        gd.pad(gd.tensor([1, 2], dtype="u8"), [1], [1], 300)


def test_the_sign_of_minus_zero_is_zero():
    signs = gd.sign(gd.tensor([-0.0, 0.0, -2.0, float("nan")]))
    assert [str(v) for v in signs.tolist()] == ["0.0", "0.0", "-1.0", "nan"]
