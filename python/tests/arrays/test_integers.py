"""Integers against NumPy: bits, division by zero, and numbers that a dtype cannot hold."""
import operator

import numpy as np
import pytest

import gradus as gd

DTYPES = {"u8": np.uint8, "i32": np.int32, "i64": np.int64}
VALUES = {"u8": [0, 1, 2, 6, 127, 128, 254, 255], "i32": [0, 1, -1, 6, -6, 77, -2**31, 2**31 - 1],
          "i64": [0, 1, -1, 6, -6, 2**53 + 1, -2**63, 2**63 - 1]}


def pairs(dtype):
    a = np.array(VALUES[dtype], dtype=DTYPES[dtype])
    return np.repeat(a, len(a)), np.tile(a, len(a))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op", [operator.and_, operator.or_, operator.xor, operator.floordiv, operator.mod, operator.add, operator.sub,
                                operator.mul], ids=lambda op: op.__name__)
def test_operators_between_integers_are_numpy_s(op, dtype):
    a, b = pairs(dtype)
    with np.errstate(all="ignore"):
        expected = op(a, b)
    found = op(gd.tensor(a), gd.tensor(b))
    assert found.dtype == dtype and found.tolist() == expected.tolist()
    for number in VALUES[dtype][1:4]:  # numbers on either side
        with np.errstate(all="ignore"):
            assert op(gd.tensor(a), number).tolist() == op(a, DTYPES[dtype](number)).tolist()
            assert op(number, gd.tensor(a)).tolist() == op(DTYPES[dtype](number), a).tolist()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op", [operator.lshift, operator.rshift], ids=lambda op: op.__name__)
def test_shifts_are_numpy_s(op, dtype):
    a = np.array(VALUES[dtype], dtype=DTYPES[dtype])
    for count in (0, 1, 3, 7, 8, 31, 32, 63, 64, 100):
        assert op(gd.tensor(a), count).tolist() == op(a, DTYPES[dtype](count)).tolist(), count
    if dtype != "u8":
        assert op(gd.tensor(a), -1).tolist() == op(a, DTYPES[dtype](-1)).tolist()
    assert op(1, gd.tensor(a[:4].clip(0, 7))).tolist() == op(DTYPES[dtype](1), a[:4].clip(0, 7)).tolist()


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_other_bits(dtype):
    a = np.array(VALUES[dtype], dtype=DTYPES[dtype])
    assert (~gd.tensor(a)).tolist() == (~a).tolist() == gd.bit_not(gd.tensor(a)).tolist()


def test_bits_of_bools_are_truth():
    a, b = np.array([0, 0, 1, 1], dtype=bool), np.array([0, 1, 0, 1], dtype=bool)
    for op in (operator.and_, operator.or_, operator.xor):
        found = op(gd.tensor(a), gd.tensor(b))
        assert found.dtype == "bool" and found.tolist() == op(a, b).tolist()
    assert (~gd.tensor(a)).dtype == "bool" and (~gd.tensor(a)).tolist() == (~a).tolist()
    assert (gd.tensor(6) & 3).item() == 2 and (~gd.tensor(6)).item() == -7


@pytest.mark.parametrize("fn", [lambda x: x & x, lambda x: ~x, lambda x: x << 1], ids=["and", "not", "shift"])
def test_floats_have_no_bits(fn):
    with pytest.raises(gd.DtypeError, match="needs integers, got f64"):
        fn(gd.ones(2))


@pytest.mark.parametrize("dtype, low, high", [("u8", 0, 255), ("i32", -2**31, 2**31 - 1), ("i64", -2**63, 2**63 - 1)])
def test_numbers_that_do_not_fit_are_refused(dtype, low, high):
    x = gd.tensor([1, 2], dtype=dtype)
    before = x.tolist()
    for fits in (low, high):
        assert gd.tensor([fits, 0], dtype=dtype).tolist() == [fits, 0]
        assert gd.tensor(fits, dtype=dtype).item() == fits
        y = x.copy()
        y[0], y[[1]] = fits, [fits]
        assert y.tolist() == [fits, fits]
    for wrong in (low - 1, high + 1, 2**70, -2**70):
        for use in (lambda: x + wrong, lambda: wrong - x, lambda: x & wrong, lambda: x // wrong, lambda: gd.tensor([wrong], dtype=dtype),
                    lambda: gd.tensor(wrong, dtype=dtype), lambda: gd.tensor([[0, wrong]], dtype=dtype),
                    lambda: x.__setitem__(0, wrong), lambda: x.__setitem__([0], wrong), lambda: x.__setitem__([0, 1], [1, wrong]),
                    lambda: x.assign(wrong), lambda: x.assign([1, wrong]), lambda: gd.where(x > 1, x, wrong)):
            with pytest.raises(OverflowError, match="does not fit"):
                use()
        assert x.tolist() == before


def test_what_is_made_of_a_number_holds_it():
    for make in (lambda: gd.full((2,), 300, dtype="u8"), lambda: gd.full((2,), -1, dtype="u8"), lambda: gd.full((), 2.0**31, dtype="i32"),
                 lambda: gd.arange(0, 300, dtype="u8"), lambda: gd.arange(3, -3, -1, dtype="u8"),
                 lambda: gd.tensor([1.0, 1e10], dtype="i32"), lambda: gd.tensor([float("inf")], dtype="i64"), lambda: gd.tensor(2**63)):
        with pytest.raises(OverflowError, match="does not fit"):
            make()
    assert gd.full((1,), 255, dtype="u8").tolist() == [255] and gd.arange(250, 256, dtype="u8").tolist()[-1] == 255
    assert gd.tensor(2**70, dtype="f64").item() == 2.0**70 and gd.tensor([2**70, 0.5]).dtype == "f64"


@pytest.mark.parametrize("dtype", DTYPES)
def test_comparisons_with_any_whole_number_are_right(dtype):
    a = np.array(VALUES[dtype], dtype=DTYPES[dtype])
    for number in (-2**70, -2**63 - 1, -2**31 - 1, -1, 0, 6, 255, 256, 300, 2**31, 2**63, 2**70):
        for op in (operator.lt, operator.le, operator.eq, operator.ne, operator.gt, operator.ge):
            expected = [op(v, number) for v in a.tolist()]
            assert op(gd.tensor(a), number).tolist() == expected, (op, number)
            assert op(number, gd.tensor(a)).tolist() == [op(number, v) for v in a.tolist()], (op, number)
