"""Tensors of other libraries by DLPack, both ways: NumPy, PyTorch, JAX.  Each is left out where it is not installed."""
import gc

import gradus as gd
import pytest

DTYPES = {"f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16", "i64": "int64", "i32": "int32", "u8": "uint8",
          "bool": "bool"}


class NumPy:
    lacks = ("bf16",)
    changes = True

    def __init__(self):
        self.library = pytest.importorskip("numpy")

    def make(self, values, dtype):
        return self.library.array(values, dtype=DTYPES[dtype])

    def take(self, t):
        return self.library.from_dlpack(t)


class Torch(NumPy):
    lacks = ()

    def __init__(self):
        self.library = pytest.importorskip("torch")

    def make(self, values, dtype):
        return self.library.tensor(values, dtype=getattr(self.library, DTYPES[dtype]))


class Jax(NumPy):
    lacks = ()
    changes = False  # its arrays never do

    def __init__(self):
        jax = pytest.importorskip("jax")
        jax.config.update("jax_enable_x64", True)
        jax.config.update("jax_default_device", jax.devices("cpu")[0])  # where there is a GPU it would be that
        self.library = pytest.importorskip("jax.numpy")


@pytest.fixture(params=[NumPy, Torch, Jax], ids=lambda c: c.__name__)
def other(request):
    return request.param()


def plain(x):
    return [plain(v) for v in x] if isinstance(x, list) else float(x)


@pytest.mark.parametrize("dtype", DTYPES)
def test_values_come_and_go(other, dtype):
    if dtype in other.lacks:
        pytest.skip("it has no such dtype in DLPack")
    values = [[0, 1, 1], [1, 0, 1]]
    t = gd.from_dlpack(other.make(values, dtype))
    assert t.dtype == dtype and t.shape == (2, 3) and plain(t.tolist()) == plain(values)
    back = other.take(gd.tensor(values).to(dtype))
    assert DTYPES[dtype] in str(back.dtype) and tuple(back.shape) == (2, 3)
    assert plain(gd.from_dlpack(back).tolist()) == plain(values)
    assert plain(gd.from_dlpack(other.take(t)).tolist()) == plain(values)  # there, here and there again


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1,), (2, 1, 3), (1,) * 8])
def test_every_shape_comes_and_goes(other, shape):
    t = gd.ones(shape)
    there = other.take(t)
    assert tuple(there.shape) == shape and gd.from_dlpack(there).shape == shape


def test_memory_is_one(other):
    if not other.changes:
        pytest.skip("its arrays never change")
    theirs = other.make([1.0, 2.0, 3.0], "f64")
    ours = gd.from_dlpack(theirs)
    ours[0] = 7.0
    theirs[1] = 8.0
    assert plain(theirs.tolist()) == ours.tolist() == [7, 8, 3]
    there = other.take(ours)
    there[2] = 9.0
    assert ours.tolist() == [7, 8, 9]


def test_what_never_changes_there_is_read_only_here(other):
    if other.changes:
        pytest.skip("its arrays may change")
    ours = gd.from_dlpack(other.make([1.0, 2.0], "f64"))
    assert ours.is_read_only and (ours + 1).tolist() == [2, 3]
    with pytest.raises(gd.StateError, match="read-only"):
        ours[0] = 5.0
    changed = gd.tensor(ours)  # a copy
    changed[0] = 5.0
    assert ours.tolist() == [1, 2]


def test_views_keep_their_steps(other):
    t = gd.arange(12).reshape(3, 4)
    for view in (t.T, t[:, 1:3], t[::2]) if other.changes else (t.T,):  # JAX takes no gaps
        assert plain(other.take(view).tolist()) == plain(view.tolist())
    theirs = other.make([[1.0, 2.0], [3.0, 4.0]], "f32").T
    assert gd.from_dlpack(theirs).tolist() == [[1, 3], [2, 4]]


def test_each_side_keeps_the_memory_alive(other):
    ours = gd.from_dlpack(other.make([1.0] * 5000, "f64"))
    there = other.take(gd.ones(5000) * 3.0)
    gc.collect()
    scratch = [gd.full((5000,), 5.0) for _ in range(20)]  # would lie where freed memory was
    assert ours.sum().item() == 5000 and plain(there.tolist()) == [3.0] * 5000 and scratch


def test_tensors_that_want_gradients_do_not_go(other):
    with pytest.raises((gd.Error, BufferError, RuntimeError)):
        other.take(gd.ones(2).require_grad())
    assert gd.ones(2).sum().item() == 2
