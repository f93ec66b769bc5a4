"""Virtual tensors stand for their values wherever a tensor is wanted, and gradients flow through them."""
import operator

import numpy as np
import pytest

import gradus as gd


class Doubled(gd.Module):
    def __init__(self, dtype="f64"):
        super().__init__()
        self.weight = gd.tensor([1.0, 2.0, 3.0], dtype=dtype, requires_grad=True)
        gd.VirtualTensor.create(self, "v", lambda module, dtype, device: module.weight * 2, dtype=dtype)


@gd.register(Doubled, gd.Tensor)
def _(module, x):
    return x * module.weight


@pytest.fixture
def module():
    return Doubled()


X = np.arange(6.0).reshape(2, 3)
ROW = np.array([3.0, 5.0, 7.0])

# with a virtual tensor v, and the tensor that it stands for
EVERYWHERE = {
    "scalar of NumPy * v": lambda v: np.sqrt(2) * v,
    "narrow scalar * v": lambda v: np.float32(2) * v,
    "whole scalar * v": lambda v: np.int64(2) * v,
    "flag * v": lambda v: np.bool_(True) * v,
    "array * v": lambda v: ROW * v,
    "array without axes * v": lambda v: np.array(2.0) * v,
    "array - v": lambda v: ROW - v,
    "array / v": lambda v: ROW / v,
    "array ** v": lambda v: ROW ** v,
    "array @ v": lambda v: X @ v,
    "v @ array": lambda v: v @ X.T,
    "number - v": lambda v: 2 - v,
    "v - number": lambda v: v - 2,
    "v with itself": lambda v: v * v + v,
    "tensor + v": lambda v: gd.ones(3) + v,
    "v + tensor": lambda v: v + gd.ones(3),
    "function of v and a number": lambda v: gd.mul(v, 2.0),
    "function with v chosen": lambda v: gd.where(v > 2, v, 0.0),
    "stack": lambda v: gd.stack([v, gd.ones(3)]),
    "stack of one": lambda v: gd.stack((v, v)),
    "cat": lambda v: gd.cat([v, v]),
    "einsum": lambda v: gd.einsum("i,i->", [v, v]),
    "tensor": lambda v: gd.tensor(v),
    "tensor of a list": lambda v: gd.tensor([v, v]),
    "tensor of a list in a list": lambda v: gd.tensor([[v[0], 1.0], [2.0, v[1]]]),
    "asarray": lambda v: gd.asarray(v),
    "index": lambda v: v[1],
    "method": lambda v: v.square(),
}


@pytest.mark.parametrize("name", EVERYWHERE)
def test_a_virtual_tensor_is_a_tensor(module, name):
    made, wanted = EVERYWHERE[name](module.v), EVERYWHERE[name](module.v.value)
    assert type(made) is gd.Tensor and made.requires_grad
    assert made.tolist() == wanted.tolist() and made.dtype == wanted.dtype
    weight = module.weight
    assert gd.grad(made.sum(), weight).tolist() == gd.grad(wanted.sum(), weight).tolist()


@pytest.mark.parametrize("compare", [operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge])
def test_comparisons_are_of_values(module, compare):
    for left, right in [(module.v, 4.0), (4.0, module.v), (module.v, ROW), (ROW, module.v), (module.v, module.v)]:
        value = [side.value if isinstance(side, gd.VirtualTensor) else side for side in (left, right)]
        assert compare(left, right).tolist() == compare(gd.asarray(value[0]), gd.asarray(value[1])).tolist()
    assert len({module.v: 1}) == 1


def test_numbers_beside_a_narrow_virtual_tensor_do_not_widen_it():
    narrow = Doubled("f32")  # a virtual tensor does not keep its owner
    v = narrow.v
    for made in (np.float64(2) * v, np.int32(2) * v, gd.mul(v, 2.0), 2 * v, v * 2.5):
        assert made.dtype == "f32"


def test_functions_may_return_it(module):
    optimizer = gd.Optimizer(module, "lr(0.5)")

    class Total(gd.Module):
        def __init__(self):
            super().__init__()
            gd.VirtualTensor.create(self, "loss", lambda *_: module.v.square().sum(), dtype="f64")

    total = Total()
    assert optimizer.step(lambda: total.loss) == 56.0
    assert module.weight.tolist() == [-3.0, -6.0, -9.0]
    assert gd.grad(total.loss, module.weight).tolist() == [-24.0, -48.0, -72.0]
    assert gd.hessian(lambda w: total.loss * 0 + (w * w).sum(), gd.ones(2)).tolist() == [[2, 0], [0, 2]]
    assert gd.minimize(lambda p: total.loss * 0 + (p - 1) ** 2, 0.0).success


def test_a_known_loss_may_be_one(module):
    module.v.sum().backward()
    gd.Optimizer(module, "fill_loss").step(loss=module.v[0])
    assert module.weight.tolist() == [-1.0, 0.0, 1.0]


def test_a_module_is_called_with_it(module):
    assert module(module.v).tolist() == [2.0, 8.0, 18.0]
    assert module.allows(module.v)


def test_it_is_saved(module, tmp_path):
    gd.save(tmp_path / "v.safetensors", {"v": module.v})
    assert gd.load(tmp_path / "v.safetensors")["v"].tolist() == [2.0, 4.0, 6.0]


def test_derivatives_take_it(module):
    assert gd.grad(module.v.sum(), module.weight, seed=module.v[0]).tolist() == [4.0, 4.0, 4.0]
    assert gd.jvp(lambda x: module.v * x, gd.ones(3), module.v).tolist() == [4.0, 16.0, 36.0]
    module.weight.grad = module.v
    assert module.weight.grad.tolist() == [2.0, 4.0, 6.0]


def test_it_is_not_changed_in_place(module):
    for change in ("module.v += 1", "module.v *= 2", "module.v[0] = 1"):
        with pytest.raises(TypeError, match="'v' is computed from others"):
            exec(change, {"module": module})
    assert isinstance(module.v, gd.VirtualTensor)


# ---- NumPy on the left of plain tensors ----

@pytest.mark.parametrize("scalar", [np.float64(2), np.float32(2), np.float16(2), np.int64(2), np.int8(2), np.uint8(2), np.bool_(True)])
@pytest.mark.parametrize("operate", [operator.add, operator.sub, operator.mul, operator.truediv, operator.pow, operator.lt, operator.eq])
def test_scalars_of_numpy_are_numbers(scalar, operate):
    for dtype in ("f32", "f64"):
        x = gd.tensor([1.0, 2.0], dtype=dtype, requires_grad=True)
        for made, wanted in [(operate(scalar, x), operate(scalar.item(), x)), (operate(x, scalar), operate(x, scalar.item()))]:
            assert type(made) is gd.Tensor and made.tolist() == wanted.tolist()
            assert (made.dtype, made.requires_grad) == (wanted.dtype, wanted.requires_grad)


def test_numbers_and_tensors_of_a_list_are_stacked_with_their_gradients():
    x = gd.tensor([1.0, 2.0], requires_grad=True)
    for made in (gd.tensor([1.0, x[0]]), gd.tensor([x[0], 1]), gd.tensor([[x[0]], [np.float64(4)]]), gd.tensor([(x[0], x[0]), (1, 2)])):
        assert made.requires_grad and gd.grad(made.sum(), x).tolist() != [0.0, 0.0]
    with pytest.raises(TypeError, match="a list has tensors and"):
        gd.tensor([x[0], "a"])


def test_pandas_on_the_left_keeps_the_gradient(module):
    pandas = pytest.importorskip("pandas")
    made = pandas.Series([1.0, 2.0, 3.0]) * module.v
    assert isinstance(made, gd.Tensor) and made.requires_grad
