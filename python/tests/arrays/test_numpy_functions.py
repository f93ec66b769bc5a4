"""NumPy's functions on tensors: tensors with gradients, or a sentence."""
import numpy as np
import pytest

import gradus as gd

A = np.array([[1.0, 2.0], [3.0, 5.0]])
B = np.array([2.0, 7.0])

KEEP_GRADIENTS = [
    np.exp, np.sum, np.mean, np.std, np.cumsum, np.transpose, np.linalg.norm, np.linalg.inv, np.linalg.det, np.sort, np.ravel, np.square, np.negative,
    np.abs, np.trace, np.diag, np.prod, np.max, np.diff, np.add.reduce, np.sqrt, np.sin, np.median, np.log1p,
    lambda v: np.sum(v, axis=1, keepdims=True), lambda v: np.multiply.reduce(v, axis=1), lambda v: np.var(v, axis=0, ddof=1), lambda v: B * v, lambda v: v * B,
    lambda v: B @ v, lambda v: np.float64(3) * v, lambda v: np.float32(2) - v, lambda v: np.int64(2) ** v, lambda v: np.dot(v, B), lambda v: np.matmul(v, v),
    lambda v: np.maximum(v, 2.0), lambda v: np.clip(v, 2, 3), lambda v: np.clip(v, a_min=2, a_max=None), lambda v: np.percentile(v, 30, axis=1),
    lambda v: np.cumprod(v, axis=1), lambda v: np.concatenate([np.ones((2, 2)), v], axis=1), lambda v: np.stack([v, v], axis=1),
    lambda v: np.reshape(v, (4,)), lambda v: np.linalg.solve(v, B), lambda v: np.linalg.norm(v, axis=0), lambda v: np.where(v > 2, v, 0.0),
    lambda v: np.einsum("ij,ij->", v, v), lambda v: np.outer(v, v), lambda v: np.tensordot(v, v), lambda v: np.roll(v, 1), lambda v: np.repeat(v, 2),
    lambda v: np.tile(v, 2), lambda v: np.take(v, [0, 1], axis=1), lambda v: np.hypot(v, 1.0), lambda v: np.logaddexp(v, B), lambda v: np.arctan2(v, B),
    lambda v: np.power(v, 2.5), lambda v: np.true_divide(B, v), lambda v: np.quantile(v, 0.3),
]
ONLY_VALUES = [
    np.isnan, np.argsort, np.shape, np.ndim, np.size, np.zeros_like, np.unique, lambda v: np.argmax(v, axis=1), lambda v: np.any(v > 2),
    lambda v: np.all(v > 0, axis=0), lambda v: np.count_nonzero(v > 2), lambda v: np.allclose(v, v), lambda v: B < v, lambda v: np.equal(v, 2),
]


@pytest.mark.parametrize("fn", KEEP_GRADIENTS, ids=range(len(KEEP_GRADIENTS)))
def test_a_function_of_numpy_gives_a_tensor_with_its_gradient(fn):
    x = gd.tensor(A, requires_grad=True)
    made, want = fn(x), np.asarray(fn(A))
    assert isinstance(made, gd.Tensor) and made.requires_grad and made.shape == want.shape
    assert np.allclose(made.detach().numpy(), want)


@pytest.mark.parametrize("fn", ONLY_VALUES, ids=range(len(ONLY_VALUES)))
def test_a_function_that_has_no_gradient_gives_its_value(fn):
    made = fn(gd.tensor(A, requires_grad=True))
    assert not isinstance(made, np.ndarray) and np.allclose(np.asarray(made), fn(A))


@pytest.mark.parametrize("fn, says", [
    (np.frexp, "numpy.frexp"), (np.add.accumulate, "numpy.add.accumulate"), (np.fft.fft, "numpy.fft.fft"), (np.unwrap, "numpy.unwrap"), (np.vectorize(lambda v: v), "gd.vmap"),
    (lambda v: np.exp(v, where=A > 2), "numpy.exp with where"), (lambda v: np.sum(v, initial=3), "numpy.sum: 'initial'"),
    (lambda v: np.add(A, v, out=np.zeros((2, 2))), "into which no gradient flows"), (lambda v: np.add.outer(v, v), "numpy.add.outer"),
])
def test_what_has_no_operator_is_refused_by_name(fn, says):
    with pytest.raises(TypeError, match=says):
        fn(gd.tensor(A, requires_grad=True))


def test_an_array_is_not_changed_by_a_tensor():
    array = B.copy()
    with pytest.raises(TypeError, match="no gradient flows"):
        array += gd.tensor(B)
    assert array.tolist() == B.tolist()


def test_minimize_takes_functions_of_numpy():
    r = gd.minimize(lambda x: np.sum(np.square(x - B)) + np.exp(x[0] - 2) - x[0], [0.0, 0.0])
    assert r.success and r.derivatives == "operators" and np.allclose(np.asarray(r.x), B, atol=1e-5)


def test_a_tensor_that_wants_gradients_is_no_output():
    x = gd.tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(gd.GraphError, match="out= is a tensor that wants gradients"):
        np.sin(x, x)
    with gd.no_grad():
        np.square(x, out=x)
    assert x.tolist() == [1, 4] and x.requires_grad


def test_an_axis_is_a_whole_number_or_a_name():
    x = gd.ones((2, 3))
    for fn in (np.flip, np.median, np.std, np.cumprod, np.squeeze, np.count_nonzero):
        for axis in (1.0, (0.5,)):
            with pytest.raises(TypeError):
                fn(x, axis=axis)
