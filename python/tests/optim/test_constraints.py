"""Constraints of gradus.minimize: the chain that is taken, and what the result says of multipliers."""
import math

import gradus as gd
import pytest


def rosenbrock(x):
    return (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2


def test_nlp_is_the_default_and_gives_multipliers():
    # HS14
    r = gd.minimize(lambda x: (x[0] - 2) ** 2 + (x[1] - 1) ** 2, [2.0, 2.0], equal=lambda x: x[0] - 2 * x[1] + 1,
                    below=lambda x: x[0] ** 2 / 4 + x[1] ** 2 - 1)
    assert r.success and r.nfev <= 8 and r.violation <= 1e-8
    assert r.fun == pytest.approx(1.39346498069, abs=1e-8)
    assert r.multipliers["equal"].tolist() == pytest.approx([1.594491], abs=1e-5)
    assert r.multipliers["below"].tolist() == pytest.approx([1.846591], abs=1e-5)
    assert r.active["below"].tolist() == [True]


def test_multipliers_of_bounds_have_the_form_of_x():
    r = gd.minimize(lambda a, b: (a - 2) ** 2 + (b * b).sum(), {"a": 0.0, "b": [1.0, 1.0]}, bounds={"a": (None, 1), "b": (-3, 3)},
                    below=lambda a, b: b.sum() - 1)
    assert r.success
    assert r.bound_multipliers["a"].item() == pytest.approx(-2, abs=1e-6)
    assert r.bound_multipliers["b"].tolist() == [0, 0]
    assert r.active["bounds"]["a"].item() and r.active["below"].tolist() == [False]


def test_a_chain_that_is_named_is_taken():
    r = gd.minimize(rosenbrock, [0.5, 0.0], "lbfgs | strong_wolfe", below=lambda x: (x * x).sum() - 1)
    s = gd.minimize(rosenbrock, [0.5, 0.0], below=lambda x: (x * x).sum() - 1)
    assert r.success and s.success and s.nfev < r.nfev
    assert r.fun == pytest.approx(s.fun, abs=1e-6) and r.bound_multipliers is None


def test_without_constraints_there_are_no_multipliers():
    r = gd.minimize(rosenbrock, [0.5, 0.0])
    assert r.success and r.multipliers is None and r.active is None


def test_outcomes_are_distinct():
    assert gd.minimize(lambda x: -x.sum(), [1.0, 1.0], below=lambda x: x[0] - x[1] - 1).stop == "UNBOUNDED"
    assert gd.minimize(lambda x: x.sum(), [0.0, 0.0], equal=lambda x: (x * x).sum() + 1).stop == "INFEASIBLE"
    r = gd.minimize(lambda x: 2 * x[0] - x[1], [1.0, 1.0], bounds=(0, None), below=lambda x: gd.stack([x[0] - x[1], x[1] * (x[1] - x[0])]))
    assert r.stop == "DEGENERATE" and not r.success


def test_single_precision_ends_at_its_own_rounding():
    r = gd.minimize(lambda x: x.sum(), [0.5, 0.0], dtype="f32", equal=lambda x: (x * x).sum() - 2)
    assert r.success and r.x.tolist() == pytest.approx([-1, -1], abs=1e-3)
    assert math.isfinite(r.gradient_norm)
