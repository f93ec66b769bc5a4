"""Tensors: making, looking, operators between tensors and numbers, indexing, errors."""
import operator

import numpy as np
import pytest

import gradus as gd


def test_lists_keep_their_kind_of_number():
    assert gd.tensor([1.0, 2]).dtype == "f64"
    assert gd.tensor([1, 2]).dtype == "i64"
    assert gd.tensor([True, False]).dtype == "bool"
    assert gd.tensor([[1, 2], [3, 4]], dtype="f32").tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert gd.tensor(2**53 + 1).item() == 2**53 + 1
    assert gd.tensor([]).shape == (0,)


@pytest.mark.parametrize("data, kind", [([[1, 2], [3]], gd.ShapeError), ([1, [2]], gd.ShapeError), (["a"], TypeError),
                                        ([[[[[[[[[1]]]]]]]]], gd.ShapeError), (object(), NotImplementedError)])
def test_what_is_no_tensor_is_refused(data, kind):
    with pytest.raises(kind):
        gd.tensor(data)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "int64", "int32", "uint8", "bool", "int8", "int16", "uint16",
                                   "uint32", "uint64", ">f8", ">f4", ">i4", ">i2"])
def test_arrays_of_every_kind_come_over_as_copies(dtype):
    source = np.arange(24).reshape(2, 3, 4).astype(dtype)[:, ::-1, 1:]
    t = gd.tensor(source)
    before = source.tolist()
    assert t.shape == source.shape and t.tolist() == before
    source[...] = 0
    assert t.tolist() == before


def test_a_number_beyond_i64_is_refused():
    with pytest.raises(gd.OutOfBoundsError):
        gd.tensor(np.array([2**63], dtype="uint64"))


def test_memory_is_shared_with_numpy_both_ways():
    array = np.arange(6.0).reshape(2, 3)
    t = gd.asarray(array)
    array[0, 1] = 10
    assert t[0, 1].item() == 10
    back = t.numpy()
    back[1, 2] = -1
    assert array[1, 2] == -1 and t[1, 2].item() == -1
    t[0] = 7
    assert array[0].tolist() == [7, 7, 7]


def test_read_only_arrays_stay_as_they_are():
    array = np.arange(3.0)
    array.flags.writeable = False
    t = gd.asarray(array)
    assert t.is_read_only
    with pytest.raises(gd.StateError):
        t[0] = 1
    assert not t.numpy().flags.writeable


def test_memory_of_which_nobody_says_that_it_may_change_does_not():
    class Unversioned:
        """As arrays of JAX are: the form of DLPack without versions, which has no read-only."""

        def __init__(self, t):
            self.t = t

        def __dlpack__(self, stream=None):
            return self.t.__dlpack__()

    t = gd.ones(3)
    taken = gd.from_dlpack(Unversioned(t))
    assert taken.is_read_only and (taken * 2).tolist() == [2, 2, 2]
    with pytest.raises(gd.StateError, match="read-only"):
        taken[0] = 5.0
    assert t.tolist() == [1, 1, 1] and not gd.from_dlpack(t.__dlpack__()).is_read_only
    given = gd.from_dlpack(taken.__dlpack__())  # in that form again, which cannot say it: a copy
    given[0] = 5.0
    assert given.tolist() == [5, 1, 1] and taken.tolist() == [1, 1, 1]
    with pytest.raises(gd.Error):
        taken.__dlpack__(copy=False)


def test_an_array_keeps_the_tensor_s_memory_alive():
    array = gd.arange(5.0).numpy()
    del_me = [gd.zeros(1000) for _ in range(10)]
    assert array.tolist() == [0, 1, 2, 3, 4] and del_me


def test_numbers_take_the_tensor_s_dtype():
    x = gd.tensor([1.0, 2.0], dtype="f32")
    for y in (x + 1, 1 + x, x - 1, 1 - x, x * 2, 2 * x, x / 2, 2 / x, x**2, 2**x, x % 2, x // 2):
        assert y.dtype == "f32"
    assert (1 - x).tolist() == [0, -1]
    assert (2 / x).tolist() == [2, 1]
    assert (2**x).tolist() == [2, 4]
    assert (gd.tensor([1, 2]) + 1).tolist() == [2, 3]
    half = gd.tensor([1, 2]) + 0.5  # of whole numbers with one that has a point: f64
    assert half.dtype == "f64" and half.tolist() == [1.5, 2.5] and (gd.tensor([1, 2]) * 1.0).dtype == "f64"
    assert (gd.tensor([True, False]) + 1).dtype == "i64" and (gd.tensor([True, False]) * 0.5).tolist() == [0.5, 0]
    assert (x + gd.tensor([1.0, 2.0])).dtype == "f64" and (x + gd.tensor(1.0)).dtype == "f64"


WHOLE, FRACTIONS = ["bool", "u8", "i32", "i64"], ["f16", "f32", "f64"]
KINDS = {"bool": "b1", "u8": "u1", "i32": "i4", "i64": "i8", "f16": "f2", "f32": "f4", "f64": "f8"}


@pytest.mark.parametrize("a, b", [(a, b) for kind in (WHOLE, FRACTIONS) for a in kind for b in kind] +
                         [(a, b) for a in WHOLE for b in FRACTIONS if a == "bool" or b == "f64" or (a == "u8" and b != "f16")])
def test_dtypes_meet_as_in_numpy(a, b):
    left, right = [3, 1, 0, 7], [1, 2, 1, 3]
    for first, second in ((a, b), (b, a)):
        x, y = gd.tensor(left).to(first), gd.tensor(right).to(second)
        u, v = np.array(left).astype(KINDS[first]), np.array(right).astype(KINDS[second])
        operators = [lambda p, q: p / q, lambda p, q: p < q, lambda p, q: p == q]
        if (a, b) != ("bool", "bool"):
            operators += [lambda p, q: p + q, lambda p, q: p * q, lambda p, q: p // q, lambda p, q: p @ q]
        for k, operator in enumerate(operators):
            got, want = operator(x, y), operator(u, v)
            if k == 0 and want.dtype == np.float16 and a != b:  # NumPy divides u8 by bool in f16
                continue
            assert KINDS[got.dtype] == want.dtype.str[1:], (k, first, second)
            assert np.allclose(np.asarray(got), want, rtol=1e-3 if "f16" in (a, b) else 1e-6)


def test_in_place_keeps_the_dtype_on_the_left():
    x = gd.tensor([1.0, 2.0], dtype="f32")
    x += gd.tensor([1.0, 1.0], dtype="f64")
    assert x.dtype == "f32" and x.tolist() == [2, 3]
    k = gd.tensor([1, 2], dtype="i32")
    k += gd.tensor([1, 1], dtype="i64")
    assert k.dtype == "i32" and k.tolist() == [2, 3]
    for wrong in (lambda: k.__iadd__(0.5), lambda: k.__itruediv__(2), lambda: k.__imul__(x)):
        with pytest.raises(gd.DtypeError, match="cannot hold"):
            wrong()
    assert k.tolist() == [2, 3]
    with pytest.raises(OverflowError):
        k + 2**40


def test_numpy_arrays_stand_on_either_side():
    x, a = gd.tensor([1.0, 2.0]), np.array([10.0, 20.0])
    assert isinstance(a + x, gd.Tensor) and (a + x).tolist() == [11, 22]
    assert (x - a).tolist() == [-9, -18] and (a - x).tolist() == [9, 18]
    assert np.asarray(x).tolist() == [1, 2]


def test_axes_meet_by_name_and_labels_by_label():
    a = gd.tensor([[1.0, 2.0], [3.0, 4.0]], axes=("row", "col"), labels={"row": ["up", "down"]})
    assert a["up"].tolist() == [1, 2] and a[:, 0].tolist() == [1, 3] and a["down", 1].item() == 4
    assert a.sum("row").axes == ("col",)
    assert (a + gd.tensor([10.0, 20.0], axes="row")).tolist() == [[11, 12], [23, 24]]
    assert a.sel(col=1, row="up").item() == 2
    with pytest.raises(gd.LabelError, match="left"):
        a["left"]
    with pytest.raises(KeyError):
        a["left"]
    with pytest.raises(gd.AxisError):
        a.sum("depth")


def test_data_without_names_meets_axes_by_place():
    y = np.array([1.0, 2.0, 4.0])
    x = gd.tensor([1.0, 2.0, 3.0], axes="i")
    assert (x - y).axes == ("i",) and (x - y).tolist() == [0, 0, -1] and (y - x).tolist() == [0, 0, 1]
    assert gd.minimize(lambda p: ((p - y) ** 2).sum(), gd.tensor([0.0, 0.0, 0.0], axes="i")).x.tolist() == pytest.approx([1, 2, 4], abs=1e-6)
    assert gd.mse(x, gd.tensor(y)).item() == pytest.approx(1 / 3)
    table = gd.tensor(np.arange(6.0).reshape(2, 3), axes=("row", "f"))
    centred = table - table.mean("f", keep_dims=True)
    assert centred.axes == ("row", "f") and centred.tolist() == [[-1, 0, 1], [-1, 0, 1]]
    with pytest.raises(gd.AxisError, match="no name.*'f'"):
        table * gd.ones((2, 3)).rename("row, _")
    with pytest.raises(gd.AxisError, match="'row' of .* stands where .* has 'f'"):
        gd.zeros((3, 3)).rename("row, f")[:] = gd.zeros((3, 3)).rename("f, row")


KEYS = [0, -1, slice(None), slice(1, 3), slice(None, None, -1), slice(3, 0, -2), slice(5, 1), (1, 2), (slice(None), 1), (..., 0),
        (0, ...), (None, 0), (slice(None), None, slice(1, None)), [0, 2], (slice(None), [3, 0, 0]), (1, slice(None, None, 2), -1)]


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_indexing_is_numpy_s(key):
    array = np.arange(60.0).reshape(3, 4, 5)
    assert gd.tensor(array)[key].tolist() == array[key].tolist()


def test_masks_choose_elements():
    array = np.arange(12.0).reshape(3, 4)
    t = gd.tensor(array)
    assert t[t > 5].tolist() == array[array > 5].tolist()
    assert t[gd.tensor([True, False, True])].tolist() == array[[True, False, True]].tolist()


@pytest.mark.parametrize("key, kind", [(3, IndexError), ((0, 0, 0), IndexError), ("x", KeyError), (1.5, TypeError)])
def test_wrong_indices_say_so(key, kind):
    with pytest.raises(kind):
        gd.zeros((3, 4))[key]


def test_gradients():
    x = gd.tensor([1.0, 2.0, 3.0], requires_grad=True)
    (x**3).sum().backward()
    assert x.grad.tolist() == [3, 12, 27]
    assert gd.grad((x**2).sum(), x).tolist() == [2, 4, 6]
    assert gd.hessian(lambda x: (x**3).sum(), x.detach()).tolist() == [[6, 0, 0], [0, 12, 0], [0, 0, 18]]
    assert gd.hvp(lambda x: (x**3).sum(), x.detach(), gd.ones(3)).tolist() == [6, 12, 18]
    assert gd.jacobian(lambda x: x * 2, gd.ones(2)).tolist() == [[2, 0], [0, 2]]
    with gd.no_grad():
        assert not (x * 2).requires_grad
    assert (x * 2).requires_grad


def test_an_error_in_a_function_comes_out_as_it_was_raised():
    class Mine(Exception):
        pass

    def fails(x):
        raise Mine("here")

    with pytest.raises(Mine, match="here"):
        gd.hessian(fails, gd.ones(2))
    assert gd.ones(2).sum().item() == 2


def test_cuda_libraries_of_packages_are_loaded_before_the_plugin_asks(tmp_path, monkeypatch):
    import ctypes
    import ctypes.util
    import shutil
    import sys

    from gradus import _cuda

    folder = tmp_path / "nvidia" / "cuda_nvrtc" / "lib"
    folder.mkdir(parents=True)
    (tmp_path / "nvidia" / "cublas" / "lib").mkdir(parents=True)
    (tmp_path / "nvidia" / "cublas" / "lib" / "libcublas.so.12").write_text("not a library")
    some = next(line.split()[-1] for line in open("/proc/self/maps") if "libm.so" in line or "libm-" in line)
    shutil.copy(some, folder / "libnvrtc.so.12")
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    assert _cuda.preload() == [str(folder / "libnvrtc.so.12")]


def test_a_device_that_is_not_there_is_told():
    with pytest.raises(gd.DeviceError, match="gpu:63"):
        gd.ones(2).to("gpu:63")
    with pytest.raises(gd.DeviceError):
        gd.ones(2).to(device="abacus")


def test_errors_speak_python():
    x = gd.ones(2).require_grad()
    with pytest.raises(gd.StateError, match="; detach it first"):
        x.numpy()
    loss = (x * x).sum()
    loss.backward()
    with pytest.raises(gd.GraphError, match="retain_graph=True"):
        loss.backward()


def test_a_repr_shows_values_names_and_labels():
    x = gd.tensor([[1.0, 2.5], [3.0, float("nan")]], axes=("row", "col"), labels={"row": ["up", "down"]})
    assert repr(x) == "tensor([[1, 2.5],\n        [3, nan]]  f64[row=2: up down, col=2])"
    assert repr(gd.ones((2, 1, 2))) == "tensor([[[1, 1]],\n\n        [[1, 1]]]  f64[2, 1, 2])"
    assert repr(gd.tensor([12345678, -1])) == "tensor([12345678, -1]  i64[2])"  # whole numbers are whole
    assert repr(gd.tensor([True, False])) == "tensor([True, False]  bool[2])"
    assert repr(gd.tensor(3.0).require_grad()) == "tensor(3  f64[], requires_grad)"
    assert repr(gd.ones((2, 0))) == "tensor([]  f64[2, 0])"
    assert repr(gd.arange(20)) == "tensor([0, 1, 2, 3, 4, ..., 15, 16, 17, 18, 19]  i64[20])"
    long = gd.ones(15).rename("day").with_labels("day", [f"d{i}" for i in range(15)])
    assert "f64[day=15: d0 d1 d2 d3 d4 ... d10 d11 d12 d13 d14]" in repr(long)
    assert len(repr(gd.ones((30,) * 4))) < 20_000
    html = x._repr_html_()
    assert "<th>up</th><td>1</td><td>2.5</td>" in html and "row \\ col" in html
    assert "<pre>" in gd.ones((2, 2, 2))._repr_html_() and "&lt;b&gt;" in gd.ones(1).rename("<b>")._repr_html_()


def test_every_status_of_the_library_is_a_class_of_its_own():
    import pathlib
    import re

    header = pathlib.Path(__file__).resolve().parents[3] / "include/gradus/base.h"
    statuses = re.findall(r"X\(([A-Z_]+), \"", header.read_text().split("GD_STATUS_LIST", 1)[1].split("\n\n", 1)[0])
    classes = [c for c in vars(gd).values() if isinstance(c, type) and issubclass(c, gd.Error) and c is not gd.Error]
    assert "NOMEM" in statuses and len(set(classes)) == len(statuses) - 1  # all but OK
    for c in classes:
        assert c.__mro__[1] is gd.Error and issubclass(c, Exception) and c.__doc__
    assert issubclass(gd.ShapeError, ValueError) and issubclass(gd.DtypeError, TypeError)
    assert issubclass(gd.AxisError, KeyError) and issubclass(gd.OutOfMemoryError, MemoryError)


@pytest.mark.parametrize("call", [
    lambda t, s: t.to(s), lambda t, s: t.to(device=s), lambda t, s: t.to(dtype=s), lambda t, s: t.to(**{s: 1}),
    lambda t, s: gd.tensor([1.0], dtype=s), lambda t, s: gd.tensor([1.0], axes=s), lambda t, s: gd.zeros(2, device=s),
    lambda t, s: t.sum(s), lambda t, s: t[s], lambda t, s: gd.chain(s), lambda t, s: gd.load(s + "/\0"),
    lambda t, s: gd.einsum(s, t), lambda t, s: gd.curve_fit(lambda x, a: a * x, [1.0, 2.0], [1.0, 2.0], loss=s)])
def test_a_text_that_is_no_utf8_is_an_error_that_says_so(call):
    with pytest.raises(Exception) as error:
        call(gd.tensor([1.0, 2.0], axes="i"), "\ud800")
    assert not isinstance(error.value, SystemError), error.value


# ---- in place ----

IN_PLACE = {"+=": operator.iadd, "-=": operator.isub, "*=": operator.imul, "/=": operator.itruediv, "//=": operator.ifloordiv,
            "%=": operator.imod, "**=": operator.ipow}


@pytest.mark.parametrize("sign", IN_PLACE)
@pytest.mark.parametrize("other", [2.0, 3, np.float32(2), np.array([2.0, 3.0]), [2.0, 3.0]])
def test_in_place_operators_change_the_tensor(sign, other):
    x, array = gd.tensor([5.0, 7.0]), np.array([5.0, 7.0])
    view, same = x[1:], x
    wanted = IN_PLACE[sign](array, np.asarray(other))
    x = IN_PLACE[sign](x, gd.tensor(other) if isinstance(other, list) else other)
    assert x is same and x.tolist() == wanted.tolist() and view.tolist() == wanted[1:].tolist()


def test_in_place_operators_keep_dtype_and_shape():
    x = gd.ones(2, dtype="f32")
    x *= 2.5
    assert x.dtype == "f32"
    i = gd.tensor([1, 2])
    i += 1
    assert i.tolist() == [2, 3] and i.dtype == "i64"
    with pytest.raises((gd.DtypeError, TypeError)):
        i += 0.5
    with pytest.raises(gd.ShapeError, match="other axes"):
        x += gd.ones((3, 2), dtype="f32")
    flags = gd.tensor([True, False])
    flags |= gd.tensor([False, False])
    assert flags.tolist() == [True, False] and flags.dtype == "bool"
    m = gd.ones((2, 2))
    m[0] += 3
    m[:, 1] *= 2
    m @= gd.tensor([[0.0, 1.0], [1.0, 0.0]])
    assert m.tolist() == [[8.0, 4.0], [2.0, 1.0]] and i.tolist() == [2, 3]


def test_a_parameter_is_changed_in_place_only_where_nothing_records():
    w = gd.tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(gd.GraphError, match="inside no_grad"):
        w *= 0.5
    before = w
    with gd.no_grad():
        w *= 0.5
    assert w is before and w.requires_grad and w.is_leaf and w.tolist() == [0.5, 1.0]


def test_graphs_notice_what_was_changed_in_place():
    x, w = gd.tensor([1.0, 2.0]), gd.tensor([3.0, 4.0], requires_grad=True)
    y = (x * w).sum()
    x += 1
    with pytest.raises(gd.GraphError, match="changed"):
        y.backward()


def test_gradients_flow_through_what_is_added_in_place():
    w = gd.tensor([1.0, 2.0], requires_grad=True)

    def loss():
        total = gd.zeros(())
        for i in range(2):
            total += w[i] * w[i]
        other = w.sum()
        other *= other
        return total + other

    assert gd.grad(loss(), w).tolist() == [8.0, 10.0]

    def outside(total):
        total += w.sum()

    total = gd.zeros(())
    outside(total)
    assert total.item() == 3 and gd.grad(total, w).tolist() == [1.0, 1.0]
    kept = [gd.zeros(()) for _ in range(3)]  # outlive the function that changes them
    optimizer = gd.Optimizer([w], "lr(0)")
    for total in kept:
        def closure():
            outside(total)
            outside(total)
            return total * 1.0
        assert optimizer.step(closure) == 6
    assert [total.item() for total in kept] == [6.0, 6.0, 6.0]


def test_elements_changed_in_place_lose_no_gradient_in_silence():
    w, y = gd.tensor([1.0, 2.0], requires_grad=True), gd.zeros(2)
    with pytest.raises(gd.GraphError, match="it is a view, or something else holds it too"):
        y[0] += w.sum()
    y[0] = y[0].item() + w.sum()
    assert y.tolist() == [3.0, 0.0] and gd.grad(y.sum(), w).tolist() == [1.0, 1.0]
    z = gd.zeros(2)
    with gd.no_grad():
        z[0] += w.sum()
    assert z.tolist() == [3.0, 0.0]


def test_what_only_reads_is_not_changed_in_place():
    array = np.ones(2)
    array.flags.writeable = False
    x = gd.asarray(array)
    with pytest.raises(gd.StateError):
        x += 1
    assert array.tolist() == [1.0, 1.0]


def test_no_tensors_are_not_joined():
    for join in (gd.stack, gd.concat, gd.cat, gd.hstack):
        with pytest.raises(ValueError, match="no tensors"):
            join([])
    assert gd.stack(iter([gd.ones(2), gd.ones(2)])).shape == (2, 2) and gd.stack((np.ones(2), gd.zeros(2)), -1).tolist() == [[1, 0], [1, 0]]
    with pytest.raises(IndexError, match="no place 3"):
        gd.stack([gd.ones(2), gd.ones(2)], 3)
