"""Bounds as SciPy's functions take them: which form they have is decided by the function that is called, never by their shape."""
import types

import numpy as np
import pytest

import gradus as gd

INF = float("inf")
T = np.linspace(0, 4, 30)


def decay(t, a, b):
    return a * gd.exp(-b * t)


def bowl(x):
    """Its minimum is at (3, -1)."""
    return (x[0] - 3) ** 2 + (x[1] + 1) ** 2


def scipy_bounds(low, high):
    """What scipy.optimize.Bounds has."""
    return types.SimpleNamespace(lb=np.asarray(low, float), ub=np.asarray(high, float), keep_feasible=np.array(False))


# bounds, and where the fit to decay(t, 5, 0.5) ends; the best b beside a = 4 is the root of the derivative, by Newton in NumPy
@pytest.mark.parametrize("bounds, wanted", [
    (([0, 0], [10, 10]), [5, 0.5]), (([0.0, 0.0], [4.0, 10.0]), [4, 0.3806591]), ((0, 10), [5, 0.5]), ((0, [4, 10]), [4, 0.3806591]),
    ((-INF, [4, INF]), [4, 0.3806591]), (([-INF, 0], INF), [5, 0.5]), ((None, [4, None]), [4, 0.3806591]),
    (np.array([[0, 0], [4, 10]]), [4, 0.3806591]), ((np.zeros(2), np.array([4.0, 10.0])), [4, 0.3806591]), ((np.float64(0), np.int64(10)), [5, 0.5]),
    (scipy_bounds([0, 0], [4, 10]), [4, 0.3806591]), (scipy_bounds(0, 10), [5, 0.5]), (scipy_bounds([0, -INF], INF), [5, 0.5]),
    ({"a": (0, 4)}, [4, 0.3806591]), ({"a": (4, 4)}, [4, 0.3806591])], ids=str)
def test_curve_fit_takes_lows_and_highs(bounds, wanted):
    found = gd.curve_fit(decay, T, 5 * np.exp(-0.5 * T), bounds=bounds)
    assert found.success and found.popt.tolist() == pytest.approx(wanted, rel=1e-4)


@pytest.mark.parametrize("bounds, wanted", [
    ([(0, 2), (0, 2)], [2, 0]), (((0, 2), (-2, 2)), [2, -1]), ([[0, 0], [10, 10]], [0, 10]), (np.array([[0, 10], [0, 10]]), [3, 0]),
    ([(None, 2), (0, None)], [2, 0]), ([(-INF, 2), (0, INF)], [2, 0]), ((0, 2), [2, 0]), ((None, 2), [2, -1]), ([None, np.float64(2)], [2, -1]),
    (scipy_bounds([0, 0], [2, 10]), [2, 0]), (scipy_bounds(-INF, [2, INF]), [2, -1]), (scipy_bounds(0, 2), [2, 0]),
    ({"x": ([0, 0], [10, 10])}, [3, 0]), ({"x": (None, [2, None])}, [2, -1])], ids=str)
def test_minimize_takes_a_pair_for_each_element(bounds, wanted):
    found = gd.minimize(bowl, [0.5, 5.0], bounds=bounds)
    assert found.x.tolist() == pytest.approx(wanted, abs=1e-6)


@pytest.mark.parametrize("bounds, says", [
    ([(0, 1), (0, 1)], "'a' would be held at 0"), ([(0, 1)], "not 1 entries"), ([(0, 1)] * 3, "not 3 entries"),
    (([0, 0, 0], [1, 1, 1]), "3 numbers for 2 elements"), (([0, 5], [10, 1]), "'b' are 5 and 1"), ((0, float("nan")), "no number is between"),
    ((INF, INF), "held at inf"), ({"c": (0, 1)}, "no parameter 'c'"), ({"a": (0, 1, 2)}, "'a' are a pair"), (scipy_bounds([0] * 3, 1), "3 numbers")],
    ids=str)
def test_curve_fit_refuses_other_bounds(bounds, says):
    with pytest.raises((ValueError, KeyError), match=says):
        gd.curve_fit(decay, T, T, bounds=bounds)


@pytest.mark.parametrize("bounds, says", [
    (([0, 0, 0], [1, 1, 1]), r"2 entries; \(lows, highs\)"), ([(0, 1)], "not 1 entries"), ([(0, 1), (0, 1, 2), (0, 1)], r"'x\[1\]' are a pair"),
    ([(0, 1), (1, 0), (0, 1)], r"'x\[1\]' are 1 and 0"), ([0, 1, 2], r"'x\[0\]' are a pair"), ({"x": (0, [1, 2])}, "2 numbers for 3 elements")],
    ids=str)
def test_minimize_refuses_other_bounds(bounds, says):
    with pytest.raises(ValueError, match=says):
        gd.minimize(lambda x: (x**2).sum(), [0.5, 0.5, 0.5], bounds=bounds)


def test_a_start_that_is_not_given_is_inside_the_bounds():
    seen = []

    def line(t, a, b, c, d):
        seen.append([float(p.detach()) for p in (a, b, c, d)])
        return a * t + b + c * t**2 + d * t**3
    gd.curve_fit(line, T, T, bounds=([2, -INF, 5, -INF], [4, INF, INF, -3]))
    assert seen[0] == [3, 1, 6, -4]  # as SciPy's


def test_a_fit_unpacks_and_indexes_as_scipy_s_tuple():
    fitted = gd.curve_fit(decay, T, 5 * np.exp(-0.5 * T))
    popt, pcov = fitted
    assert fitted[0] is popt is fitted.popt is fitted["popt"] and fitted[1] is pcov is fitted[-1] and len(fitted) == 2
    assert fitted[:1] == (popt,) and np.diag(fitted[1]).shape == (2,)
    with pytest.raises(IndexError):
        fitted[2]
    with pytest.raises(KeyError):
        fitted["nothing"]
