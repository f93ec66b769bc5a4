"""x[...] and x[...] = value against NumPy: random index expressions, their gradients, names, and what is refused."""
import gc
import random

import numpy as np
import pytest

import gradus as gd

COUNT = 2000


def integers(pick, size, shape):
    values = np.array([pick.randrange(-size, size) for _ in range(int(np.prod(shape)))], dtype="int64").reshape(shape)
    return values.astype(pick.choice(["int64", "int32", "int8"]))


def random_slice(pick, size):
    ends = [None, *range(-size - 2, size + 3)]
    return slice(pick.choice(ends), pick.choice(ends), pick.choice([None, 1, 2, 3, -1, -2]))


def random_mask(pick, shape):
    return np.array([pick.random() < 0.5 for _ in range(int(np.prod(shape)))], dtype=bool).reshape(shape)


def random_key(pick, shape):
    """An index expression that NumPy mostly takes: as many parts as there are axes or fewer, masks over several axes, indices that
    broadcast, and sometimes none of them."""
    joint = [pick.choice([1, 2, 3]) for _ in range(pick.choice([0, 1, 1, 1, 2]))]
    parts, axis, trues = [], 0, None
    while axis < len(shape) and pick.random() < 0.85:
        size, kind = shape[axis], pick.random()
        if kind < 0.15 and size:
            parts.append(pick.randrange(-size, size))
        elif kind < 0.4:
            parts.append(random_slice(pick, size))
        elif kind < 0.5:
            mask = random_mask(pick, shape[axis:axis + pick.choice([1, 1, 2, 3])])
            count = int(mask.sum())
            if trues not in (None, count, 1) and count != 1:  # masks that do not broadcast are another test
                continue
            trues = count if trues in (None, 1) else trues
            parts.append(mask)
            axis += mask.ndim
            continue
        elif size:
            own = [pick.choice([n, n, 1]) for n in joint[pick.choice([0, 0, len(joint)]):]]
            parts.append(integers(pick, size, own))
        else:
            parts.append([])
        axis += 1
    for new in [None] * pick.choice([0, 0, 0, 1]) + [Ellipsis] * pick.choice([0, 0, 1]):
        parts.insert(pick.randrange(len(parts) + 1), new)
    if pick.random() < 0.02:
        parts.insert(pick.randrange(len(parts) + 1), pick.choice([True, False]))
    return parts[0] if len(parts) == 1 and pick.random() < 0.5 else tuple(parts)


def in_another_form(pick, part):
    """The same integers as a list, a tuple, an ndarray, a tensor, or a range."""
    if not isinstance(part, np.ndarray):
        return part
    form = pick.choice(["array", "list", "tensor", "tuple"])
    if form == "list" and part.size:
        return part.tolist()
    if form == "tensor":
        return gd.tensor(part)
    if form == "tuple" and part.size and part.ndim == 1:
        return tuple(part.tolist())
    return part


def given(pick, key):
    if isinstance(key, tuple):
        return tuple(in_another_form(pick, part) for part in key)
    part = in_another_form(pick, key)
    return list(part) if isinstance(part, tuple) else part


def cases(count, seed):
    """(number, tensor's array, key for NumPy, key for gradus), those that NumPy takes."""
    made = 0
    for k in range(4 * count):
        pick = random.Random(f"{seed} {k}")
        shape = [pick.choice([1, 2, 3, 3, 4, 0 if pick.random() < 0.1 else 2]) for _ in range(pick.choice([1, 2, 2, 3, 3, 4]))]
        array = np.arange(1.0, np.prod(shape) + 1).reshape(shape)
        if pick.random() < 0.3 and len(shape) > 1:
            array = array.transpose(pick.sample(range(len(shape)), len(shape)))
        key = random_key(pick, array.shape)
        try:
            array[key]
        except (IndexError, ValueError):
            continue
        yield k, pick, array, key
        made += 1
        if made == count:
            return
    raise AssertionError(f"only {made} of {count} keys could be made")


def view(array):
    """A tensor that lies in memory as the array does."""
    return gd.asarray(array)


def test_reading_is_numpy_s():
    for k, pick, array, key in cases(COUNT, "read"):
        expected, found = array[key], view(array)[given(pick, key)]
        assert found.shape == np.shape(expected), (k, array.shape, key)
        assert np.array_equal(found.numpy(), expected), (k, array.shape, key)


def test_the_gradient_of_reading_is_numpy_s():
    for k, pick, array, key in cases(COUNT, "gradient"):
        x = gd.tensor(array, requires_grad=True)
        y = x[given(pick, key)]
        weight = np.arange(1.0, y.size + 1).reshape(y.shape)
        (y * gd.tensor(weight)).sum().backward()
        expected = np.zeros(array.shape)
        np.add.at(expected, key, weight)
        assert np.array_equal(x.grad.numpy(), expected), (k, array.shape, key)


def value_for(pick, shape):
    """A value that broadcasts to a shape."""
    n = pick.randrange(len(shape) + 1)
    own = [1 if pick.random() < 0.3 else size for size in shape[n:]]
    return -np.arange(1.0, np.prod(own) + 1).reshape(own)


def test_assignment_is_numpy_s():
    for k, pick, array, key in cases(COUNT, "assign"):
        expected, found = array.copy(order="K"), array.copy(order="K")
        value = value_for(pick, array[key].shape)
        expected[key] = value
        there = view(found)
        there[given(pick, key)] = pick.choice([value, gd.tensor(value), value.tolist() if value.size else value])
        assert np.array_equal(found, expected), (k, array.shape, key)  # the memory itself


def test_the_gradients_of_assignment_are_numpy_s():
    for k, pick, array, key in cases(COUNT, "both"):
        shape = array[key].shape
        value = value_for(pick, shape)
        x, v = gd.tensor(array, requires_grad=True), gd.tensor(value, requires_grad=True)
        y = x * 2
        y[given(pick, key)] = v * 3
        expected = array * 2
        expected[key] = value * 3
        assert np.array_equal(y.detach().numpy(), expected), (k, array.shape, key)
        weight = np.arange(1.0, array.size + 1).reshape(array.shape)
        (y * gd.tensor(weight)).sum().backward()
        of_x, writer = 2 * weight, np.full(array.shape, -1)
        of_x[key] = 0
        writer[key] = np.arange(np.prod(shape, dtype=int)).reshape(shape)  # the last one, where several meet
        of_each = np.zeros(int(np.prod(shape)))
        of_each[writer[writer >= 0]] = 3 * weight[writer >= 0]
        of_value = np.zeros(value.shape)
        place = np.broadcast_to(np.arange(value.size).reshape(value.shape), shape)
        np.add.at(of_value.reshape(-1), place.reshape(-1), of_each)
        assert np.array_equal(x.grad.numpy(), of_x), (k, array.shape, key)
        assert np.array_equal(v.grad.numpy(), of_value), (k, array.shape, key)


def test_second_derivatives_flow_through_both():
    w = np.array([1.0, -2.0, 0.5])

    def read(x):
        return (x[[[0, 1], [1, 2]], [1, 0]] ** 3).sum()

    def assigned(x):
        y = x * x
        y[[0, 1, 0], [1, 1, 1]] = x[:, 0] * x[:, 1] * gd.tensor(w)
        return (y ** 2).sum()

    x = gd.tensor(np.linspace(0.5, 1.5, 6).reshape(3, 2), requires_grad=True)
    for f in (read, assigned):
        h, eps = gd.hessian(f, x).numpy().reshape(6, 6), 1e-6
        for k in range(6):
            step = np.zeros(6)
            step[k] = eps
            step = step.reshape(3, 2)
            up, down = (gd.grad(f(z), z).numpy().reshape(6) for z in
                        (gd.tensor(x.detach().numpy() + s, requires_grad=True) for s in (step, -step)))
            assert np.allclose(h[k], (up - down) / (2 * eps), rtol=1e-6, atol=1e-6)


def test_a_likelihood_picks_one_element_a_row():
    logp = np.log(np.random.default_rng(1).dirichlet(np.ones(3), 7))
    y = [0, 2, 1, 1, 0, 2, 2]
    t = gd.tensor(logp, requires_grad=True)
    loss = -t[list(range(7)), y].mean()
    assert loss.shape == () and loss.item() == pytest.approx(-logp[range(7), y].mean())
    loss.backward()
    assert np.count_nonzero(t.grad.numpy()) == 7


# ---- what is refused ----

def test_places_that_are_not_there_are_refused():
    x = gd.ones((3, 4))
    for key in ([0, 3], [-4], ([0], [4]), (slice(None), [9]), (0, [0, -5]), [[0, 1], [2, 3]], 2**70, ([0], 2**70)):
        with pytest.raises(IndexError):
            x[key]
        with pytest.raises(IndexError):
            x[key] = 1.0
    with pytest.raises(gd.OutOfRangeError, match="index 5 is out of range: axis 'col' has 4 elements"):
        x.rename("row, col")[[0], [5]]
    assert x.tolist() == [[1] * 4] * 3


@pytest.mark.parametrize("key, kind", [(([0, 1], [0, 1, 2]), IndexError), ((0, 0, 0), IndexError), (([0], [0], [0]), IndexError),
                                       ((..., 0, ...), IndexError), (([0], ..., ...), IndexError), (0.5, TypeError), ([0.5], TypeError),
                                       (gd.tensor([0.5]), TypeError), (object(), TypeError), ({0}, TypeError), (["a"], Exception),
                                       (([True, False], 0), IndexError), (gd.tensor([[True] * 3] * 3), IndexError)])
def test_keys_that_mean_nothing_are_refused(key, kind):
    x = gd.ones((3, 4))
    with pytest.raises(kind):
        x[key]
    with pytest.raises(kind):
        x[key] = 0.0
    assert x.tolist() == [[1] * 4] * 3


def test_values_that_do_not_fit_are_refused():
    x = gd.zeros((3, 4))
    for key in ([0, 1], (slice(None), [0, 1]), slice(2)):
        with pytest.raises(gd.Error):
            x[key] = gd.ones(7)
    with pytest.raises(gd.StateError):
        array = np.arange(3.0)
        array.flags.writeable = False
        gd.asarray(array)[[0, 1]] = 5.0
    assert x.sum().item() == 0


def test_overlapping_memory_is_read_before_it_is_written():
    x = gd.arange(5.0)
    x[[0, 1, 2, 3, 4]] = x[::-1]
    assert x.tolist() == [4, 3, 2, 1, 0]
    x[1:] = x[:-1]
    assert x.tolist() == [4, 4, 3, 2, 1]


# ---- what gradients demand of assignment ----

def test_a_buffer_takes_what_was_computed():
    p = gd.tensor([1.0, 2.0, 3.0], requires_grad=True)
    out = gd.zeros(3)
    for i in range(3):
        out[i] = p[i] ** 2
    out[[0, 2]] = out[[2, 0]] * 10
    assert out.tolist() == [90, 4, 10]
    (out * gd.tensor([1.0, 2.0, 3.0])).sum().backward()
    assert p.grad.tolist() == [60, 8, 60]


def test_an_overwritten_element_has_no_gradient():
    x = gd.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = x * 2
    kept = y.sum()  # what was computed before still has its own
    y[0] = 0
    (y.sum() + kept).backward()
    assert y.tolist() == [0, 4, 6] and x.grad.tolist() == [2, 4, 4]


def test_assignment_works_in_closures():
    def f(p):
        out = gd.zeros(2)
        out[0] = p[0] - 3
        out[[1]] = p[1] + 1
        return (out ** 2).sum()

    assert gd.minimize(f, [0.0, 0.0]).x.tolist() == pytest.approx([3, -1], abs=1e-6)
    inside = gd.zeros(2)

    def g(p):
        inside[0] = p[0]
        return (inside ** 2).sum() + p[0]

    x = gd.tensor([1.0], requires_grad=True)
    assert gd.grad(g(x), x).tolist() == [3]


def test_what_others_hold_is_not_left_behind():
    p = gd.tensor([5.0], requires_grad=True)
    out = gd.zeros(4)
    row = out[1:3]
    for key in (0, [0], slice(None)):
        with pytest.raises(gd.GraphError, match="view"):
            row[key] = p
    with pytest.raises(gd.GraphError, match="leaf"):
        p[0] = p * 2
    y = gd.ones((2, 2)) * p
    with pytest.raises(gd.GraphError, match="view"):
        y[0][1] = 3.0
    with gd.no_grad():
        row[0] = p[0]
    p[0] = 7.0  # a leaf: its new value
    assert out.tolist() == [0, 5, 0, 0] and p.tolist() == [7]
    del row
    gc.collect()
    out[[3]] = p
    assert out.requires_grad and out.tolist() == [0, 5, 0, 7]


def test_a_module_s_buffer_is_not_left_behind():
    class Net(gd.Module):
        no_grad_tensors = {"kept"}

    net, p = Net(), gd.tensor([1.0], requires_grad=True)
    net.kept = gd.zeros(2)
    with pytest.raises(gd.GraphError, match="holds"):
        net.kept[0] = p
    net.kept[0] = 4.0
    assert net.kept.tolist() == [4, 0]


# ---- names and labels ----

def named():
    return gd.tensor(np.arange(24.0).reshape(2, 3, 4), axes="a, b, c", labels={"b": ["x", "y", "z"]})


def test_names_follow_the_axes():
    t = named()
    assert t[:, [2, 0]].axes == ("a", "b", "c") and t[:, [2, 0]].labels[1] == ("z", "x")
    assert t[:, [0, 0]].labels[1] is None  # a label names one element
    assert t[[0, 1], [0, 1]].axes == (None, "c")
    assert t[:, [0, 1], [0, 1]].axes == ("a", None)
    assert t[[0, 1], :, [0, 1]].axes == (None, "b") and t[[0, 1], :, [0, 1]].labels == (None, ("x", "y", "z"))
    assert t[0, :, [1, 2]].axes == ("c", "b") and t[0, :, [1, 2]].shape == (2, 3)  # NumPy: in front
    assert t[:, [[0, 1], [1, 2]]].axes == ("a", None, None, "c")
    assert t[..., None, [1]].axes == ("a", "b", None, "c")
    assert t[:, "y", [3, 1]].axes == ("a", "c") and t[:, "y", [3, 1]].tolist() == [[7, 5], [19, 17]]
    assert t[..., "z", [0]].tolist() == [[8], [20]]
    assert t[t > 20].axes == (None,)
    assert t[:, gd.tensor([True, False, True])].labels[1] == ("x", "z")


def test_named_indices_name_their_axes():
    t = named()
    when = gd.tensor([2, 0], axes="when", labels={"when": ["late", "early"]})
    assert t[:, when].axes == ("a", "when", "c") and t[:, when].labels[1] == ("late", "early")
    pairs = gd.tensor([[0, 1], [1, 1], [0, 0]], axes="i, j")
    assert t[pairs, when].axes == ("i", "j", "c")
    assert t[:, gd.tensor([0, 1], axes="c")].axes == ("a", "c", None)  # a name stands once


def test_values_go_by_place():
    t = named()
    t[:, [0, 2], 1] = gd.tensor([[1.0], [2.0]], axes="a, b")
    assert t[:, "x", 1].tolist() == [1, 2] and t[:, "z", 1].tolist() == [1, 2]
    for axes in ("a", "other"):
        with pytest.raises(gd.AxisError):
            t[:, [0, 2], 1] = gd.tensor([1.0, 2.0], axes=axes)


def test_masks_lie_where_their_names_are():
    t = gd.tensor(np.arange(4.0).reshape(2, 2), axes="a, b", labels={"a": ["x", "y"]})
    assert t[t > 1].tolist() == [2, 3]
    with pytest.raises(gd.AxisError, match="mask"):
        t[(t > 1).T]
    turned = gd.tensor([False, True], axes="a", labels={"a": ["y", "x"]})
    assert t[turned].tolist() == [[0, 1]]
    t[turned] = 9.0
    assert t.tolist() == [[9, 9], [2, 3]]


# ---- other dtypes ----

@pytest.mark.parametrize("dtype", ["f64", "f32", "f16", "bf16", "i64", "i32", "u8", "bool"])
def test_every_dtype_is_read_and_written(dtype):
    array = np.arange(12).reshape(3, 4) % 2
    t = gd.tensor(array).to(dtype)
    assert t[[2, 0], [1, -1]].dtype == dtype and t[[2, 0], [1, -1]].tolist() == array[[2, 0], [1, -1]].tolist()
    t[[2, 0], [1, -1]] = gd.tensor([0, 1]).to(dtype)
    array[[2, 0], [1, -1]] = [0, 1]
    assert t.tolist() == array.tolist()


def test_integers_of_every_dtype_are_indices():
    x = gd.arange(300.0)
    for dtype in ("i64", "i32", "u8"):
        assert x[gd.tensor([3, 200], dtype=dtype)].tolist() == [3, 200]
    assert x[np.array([250], dtype="uint8")].tolist() == [250]
    assert x[np.int64(4)].item() == 4 and x[np.array(4)].item() == 4 and x[gd.tensor(4)].item() == 4
    assert x[range(3)].tolist() == [0, 1, 2] and x[np.bool_(True)].shape == (1, 300) and x[np.bool_(False)].shape == (0, 300)
    assert x[[np.int64(1), 2]].tolist() == [1, 2]


@pytest.mark.parametrize("key", [slice(None), [0, 1], np.array([True, True]), (slice(None), [0, 1, 2])], ids=["slice", "list", "mask", "second axis"])
def test_assignment_is_by_place_and_names_are_equal_or_absent(key):
    a = gd.zeros((2, 3)).rename("row, column")
    a[key] = gd.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    assert a.tolist() == [[1, 2, 3], [4, 5, 6]]
    a[key] = gd.tensor([[6.0, 5.0, 4.0], [3.0, 2.0, 1.0]], axes="row, column")
    assert a.tolist() == [[6, 5, 4], [3, 2, 1]] and a.axes == ("row", "column")
    for axes in ("column, row", "row, other"):
        square = gd.zeros((3, 3)).rename("row, column")
        with pytest.raises(gd.AxisError, match="names must be equal or absent"):
            square[:] = gd.ones((3, 3)).rename(axes)
        with pytest.raises(gd.AxisError, match="names must be equal or absent"):
            square[[0, 1, 2]] = gd.ones((3, 3)).rename(axes)
        assert square.tolist() == [[0] * 3] * 3


def test_assignment_brings_labels_into_order():
    for key in (slice(None), [0, 1]):
        a = gd.tensor([1.0, 2.0], axes="i", labels={"i": ["x", "y"]})
        a[key] = gd.tensor([8.0, 9.0], axes="i", labels={"i": ["y", "x"]})
        assert a.tolist() == [9, 8]


def test_a_mask_of_another_size_is_an_index_error():
    x = gd.ones((2, 3))
    for mask in ([True, False, True], [[True, False], [False, True]]):
        with pytest.raises(IndexError, match="the mask has"):
            x[gd.tensor(mask)]
        with pytest.raises(IndexError, match="the mask has"):
            x[gd.tensor(mask)] = 0.0
