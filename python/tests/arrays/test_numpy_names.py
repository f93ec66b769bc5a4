"""NumPy's and PyTorch's names beyond the standard: the same call with NumPy's arrays, and gradients by differences."""
import numpy as np
import pytest

import gradus as gd

ARRAYS = {"A": np.arange(12.0).reshape(3, 4) / 7 - 0.6, "V": np.array([3.0, -1.0, 2.0, 0.5]), "P": np.array([0.3, 1.2, 2.5]),
          "I": np.array([[5, -3, 2], [7, 0, -4]]), "M": np.array([[4.0, 1, 0], [1, 3, 1], [0, 1, 2]]), "N": np.array([1.0, np.nan, 3.0])}
CALLS = """
xp.percentile(A, [10, 90], axis=0); xp.array_split(V, 3)[0]; xp.hsplit(A, 2)[1]; xp.vsplit(A, 3)[2]; xp.cumsum(A); A.cumsum(); xp.cumsum(A, axis=1)
xp.logaddexp2(A, A); xp.power(P, 2.5); xp.float_power(I, 2); xp.divmod(V, 0.7)[0]; divmod(V, 0.7)[1]; divmod(I, 4)[0]; xp.dot(A, V); A.dot(V)
xp.dot(A.reshape(3, 2, 2), P[:2]); xp.vdot(A, A); xp.inner(A, V); xp.cross(P, M[0]); xp.kron(V, P); xp.kron(M, M); xp.einsum("ij,kj->ik", A, A)
xp.einsum("ii", M); xp.einsum("ij,j", A, V); xp.einsum("bij, bjk -> bik", A.reshape(3, 2, 2), A.reshape(3, 2, 2)); xp.where(A > 0)[1]
xp.hstack([V, P]); xp.hstack([A, A]); xp.vstack([V, V]); xp.dstack([V, V]); xp.column_stack([V, V]); xp.append(V, P); xp.append(V, 1.0)
xp.insert(V, 1, 5.0); xp.insert(A, 1, 9.0, axis=1); xp.delete(V, 1); xp.delete(A, [0, -1], axis=1); xp.rollaxis(A, 1); xp.transpose(A)
xp.transpose(A, (1, 0)); xp.fliplr(A); xp.flipud(A); xp.rot90(A); xp.rot90(A, 2); xp.rot90(A, 3); xp.atleast_2d(V); xp.atleast_3d(A)
xp.identity(3); xp.logspace(0, 2, 5); xp.geomspace(1, 100, 5); xp.tri(3); xp.tri(3, 4, -1); xp.vander(P); xp.vander(P, 2, increasing=True)
xp.amax(A, axis=1); xp.fmax(N, 2.0); xp.fmin(N, 2.0); xp.ptp(A, axis=0); xp.absolute(A); xp.exp2(A); xp.cbrt(A); xp.arcsin(A); xp.arctan2(A, V)
xp.deg2rad(A); xp.degrees(A); xp.sinc(A); xp.sinc(V * 0); xp.round(A, 2); xp.round(A * 100, -1); A.round(1); round(V[0], 1); xp.rint(A); xp.fix(A)
xp.fmod(A, 0.3); xp.modf(A)[0]; xp.heaviside(A, 0.5); xp.nan_to_num(N); xp.nansum(N); xp.nanmean(N); xp.nanmax(N); xp.nanmin(N); xp.nanstd(N)
xp.nanprod(N); xp.unique(I, return_counts=True)[1]; xp.bincount(xp.asarray([0, 1, 1, 3])); xp.bincount(xp.asarray([0, 1, 1]), weights=P)
xp.digitize(P, xp.asarray([0.0, 1.2, 2.0])); xp.digitize(P, xp.asarray([2.0, 1.2, 0.0])); xp.histogram(A, bins=3)[0]; xp.histogram(A, bins=4)[1]
xp.histogram(V, bins=xp.asarray([-1.0, 0.5, 3.0]), density=True)[0]; xp.interp(V, xp.asarray([0.0, 1.0, 2.5]), xp.asarray([1.0, 2.0, 0.0]))
xp.ediff1d(A); xp.gradient(V); xp.gradient(V, 0.5); xp.gradient(V, xp.asarray([0.0, 1.0, 3.0, 3.5])); xp.gradient(A)[1]; xp.trapezoid(V, dx=0.5)
xp.trapezoid(V, xp.asarray([0.0, 1.0, 3.0, 3.5])); xp.trapezoid(A, axis=0); xp.cov(A); xp.cov(V, V + 1); xp.corrcoef(A); xp.average(V)
xp.average(A, axis=1, weights=V); xp.convolve(V, P); xp.convolve(V, P, mode="same"); xp.convolve(P, V, "valid"); xp.correlate(V, P)
xp.correlate(P, V, "full"); xp.polyval(P, 2.0); xp.polyval(P, V); xp.polyfit(V, V * V, 2); xp.select([A > 0.5, A > 0], [A, 2 * A], 0.0)
xp.argwhere(I > 0); xp.flatnonzero(I); xp.partition(V, 2)[2]; xp.linalg.norm(A); xp.linalg.norm(A, axis=1); xp.linalg.norm(V, ord=1)
xp.linalg.norm(A, 2); xp.linalg.norm(A, axis=(0, 1), keepdims=True); xp.linalg.norm(V, xp.inf); xp.linalg.lstsq(A.T, V, rcond=None)[0]
xp.linalg.multi_dot([M, M, M]); xp.linalg.cond(M); xp.linalg.cond(M, 1); V.nbytes; V.itemsize; A.item(3); A.item(1, 2); xp.invert(I)
xp.array([1, 2], dtype=xp.float32); xp.array(A, ndmin=3); xp.shape(A); xp.size(A, 1); xp.ndim(A); xp.pad(V, 2); xp.pad(V, (1, 2))
xp.pad(A, ((1, 0), (0, 2)), constant_values=1.0); xp.pad(V, 2, mode="edge"); xp.pad(V, 3, mode="reflect"); xp.pad(A, 2, mode="wrap")
xp.block([[M, M], [M, M]]); xp.block([V, P]); xp.indices((2, 3)); xp.unravel_index(5, (2, 3))[1]; xp.sum(xp.asarray([1, 2], dtype=xp.uint8), dtype=xp.uint8)
"""


def numbers(value):
    if isinstance(value, gd.Tensor):
        value = value.detach().numpy()
    return np.asarray(value)


@pytest.mark.parametrize("call", [c.strip() for c in CALLS.strip().replace("\n", ";").split(";")])
def test_a_call_gives_what_numpy_gives(call):
    want = numbers(eval(call, {"xp": np, **ARRAYS}))
    got = numbers(eval(call, {"xp": gd, **{k: gd.tensor(v) for k, v in ARRAYS.items()}}))
    assert got.shape == want.shape and got.dtype.kind == want.dtype.kind
    np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("call", ["hstack([x, x])", "dot(x, x)", "einsum('i,j->ij', x, x)", "interp(x, [0.0, 1, 2, 3], x)", "convolve(x, x)", "cov(x)",
                                  "pad(x, 2, mode='reflect')", "trapezoid(x)", "gradient(x)", "polyval(x, x)", "average(x, weights=x)", "cbrt(x)",
                                  "cumsum(x)", "nan_to_num(x)", "sinc(x)", "fmod(x, 0.75)", "linalg.norm(x)", "kron(x, x)", "fmax(x, 1.0)"])
def test_gradients_flow(call):
    names = {k: getattr(gd, k) for k in dir(gd) if not k.startswith("__")}
    assert gd.gradcheck(lambda x: eval(call, {**names, "x": x}), gd.tensor([0.4, 1.3, 2.1, 0.9]))


def test_numpys_functions_take_tensors():
    x = gd.tensor([3.0, 1.0, 2.0], requires_grad=True)
    for made in (np.hstack([x, x]), np.pad(x, 1), np.interp(x, [0, 1, 4], [0, 1, 0]), np.convolve(x, [1.0, 2.0]), np.dot(x, x), np.cbrt(x), np.exp2(x)):
        assert isinstance(made, gd.Tensor) and made.requires_grad


def test_an_array_of_objects_is_refused():
    x = gd.tensor([1.0, 2.0])
    for wrong in (lambda: np.vectorize(lambda v: v * 2)(x), lambda: np.asarray(x, dtype=object)):
        with pytest.raises(TypeError, match="gd.vmap"):
            wrong()


def test_torchs_names():
    x = gd.ones((5, 4), dtype="f32")
    assert x.view(-1).shape == (20,) and x.numel() == 20 and x.dim() == 2 and x.t().shape == (4, 5) and x.double().dtype == "f64"
    assert x.sum(dim=0, keepdim=True).shape == (1, 4) and x.softmax(dim=-1).shape == (5, 4) and gd.cat([x, x], dim=1).shape == (5, 8)
    assert x.clamp(min=2).tolist() == [[2.0] * 4] * 5 and [p.shape for p in x.chunk(2)] == [(3, 4), (2, 4)]
    assert gd.stack([x, x], dim=0).shape == (2, 5, 4) and gd.bmm(gd.ones((2, 3, 4)), gd.ones((2, 4, 5))).shape == (2, 3, 5)
    drawn = gd.randint(3, 6, (1000,))
    assert set(drawn.tolist()) == {3, 4, 5} and sorted(gd.randperm(5).tolist()) == list(range(5))
    assert x.fill_(2.0).zero_().sum().item() == 0 and x.requires_grad_().requires_grad
    with pytest.raises(TypeError, match="given twice"):
        x.sum(dim=0, axis=0)
