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


# ---- one function for all of an evaluation ----

def disc_and_line(style, calls):
    """HS14 as `evaluate` takes it."""
    def fun(x, request):
        calls.append(request)
        a, b = x[0], x[1]
        out = {"loss": (a - 2) ** 2 + (b - 1) ** 2, "equal": a - 2 * b + 1, "below": a * a / 4 + b * b - 1}
        if style == "operators":
            return out
        assert not isinstance(a, gd.Tensor)
        if "gradient" in request:
            out["gradient"] = [2 * (a - 2), 2 * (b - 1)]
            out["equal_jacobian"], out["below_jacobian"] = [1.0, -2.0], [a / 2, 2 * b]
        if "hessian" in request:
            y = request.multipliers[1] if request.multipliers else 0
            out["hessian"] = [[2 * request.weight + y / 2, 0], [0, 2 * request.weight + 2 * y]]
        return out
    return fun


@pytest.mark.parametrize("style, names", [("operators", "loss equal below"),
                                          ("numbers", "loss gradient equal below equal_jacobian below_jacobian"),
                                          ("numbers", ("loss", "gradient", "equal", "below", "equal_jacobian", "below_jacobian", "hessian"))])
def test_one_call_per_point_serves_loss_and_constraints(style, names):
    calls = []
    r = gd.minimize(disc_and_line(style, calls), [2.0, 2.0], evaluate=names, sensitivities=True)
    assert r.success and r.fun == pytest.approx(1.39346498069, abs=1e-6)
    assert r.multipliers["below"].tolist() == pytest.approx([1.846591], abs=1e-3)
    points = sum(q.new_point for q in calls)
    assert r.nfev <= points <= r.nfev + 2  # the default chain and sensitivities count the constraints, each by a call
    assert style == "numbers" or points == len(calls)
    assert r.sensitivities["equal"].tolist()[0] == pytest.approx([0.6889822, -0.1555089], abs=1e-5)  # [rows, elements]
    assert r.sensitivities["below"].tolist()[0] == pytest.approx([0.7559289, 0.3779645], abs=1e-5)


def test_sensitivities_are_those_of_problems_solved_again():
    def solve(b, **how):
        return gd.minimize(lambda x: (x[0] - 2) ** 2 + (x[1] - 1) ** 2 + (x[2] - x[0]) ** 4, [2.0, 2.0, 0.5],
                           equal=lambda x: x[0] - 2 * x[1] + 1 - b, below=lambda x: x[0] ** 2 / 4 + x[1] ** 2 - 1 + x[2], **how)
    h = 1e-4
    found = solve(0.0, sensitivities=True).sensitivities["equal"][0]
    assert ((solve(h).x - solve(-h).x) / (2 * h)).tolist() == pytest.approx(found.tolist(), abs=1e-5)


def test_mistakes_of_evaluate_are_named():
    fun = disc_and_line("operators", [])
    with pytest.raises(ValueError, match="'los' is none of loss, gradient"):
        gd.minimize(fun, [2.0, 2.0], evaluate="los")
    with pytest.raises(TypeError, match="equal and evaluate are given"):
        gd.minimize(fun, [2.0, 2.0], evaluate="loss", equal=lambda x: x[0])
    with pytest.raises(KeyError, match="was to compute 'gradient', its results have 'loss'"):
        gd.minimize(lambda x, request: {"loss": 1.0}, [2.0, 2.0], evaluate="loss gradient")
    with pytest.raises(TypeError, match="returns a dict of results by name, not float"):
        gd.minimize(lambda x, request: 1.0, [2.0, 2.0], evaluate="loss gradient")
    with pytest.raises(gd.Error, match="equal_jacobian without its values"):
        gd.minimize(fun, [2.0, 2.0], evaluate="loss equal_jacobian")
    with pytest.raises(RuntimeError, match="broke"):
        gd.minimize(lambda x, request: (_ for _ in ()).throw(RuntimeError("broke")), [2.0, 2.0], evaluate="loss gradient")
