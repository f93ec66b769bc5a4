"""minimize, curve_fit and fit."""
import csv
import math
import re
from pathlib import Path

import numpy as np
import pytest

import gradus as gd

DECAY = Path(__file__).resolve().parents[3] / "examples" / "data" / "decay.csv"


def rosenbrock(x):
    return (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2


@pytest.mark.parametrize("x0", [[-1.1, 2.5], np.array([-1.1, 2.5]), gd.tensor([-1.1, 2.5])], ids=["list", "array", "tensor"])
def test_a_minimum_is_found_and_has_the_form_of_its_start(x0):
    r = gd.minimize(rosenbrock, x0)
    assert r.success and r["success"] and r.fun < 1e-15
    assert isinstance(r.x, gd.Tensor if isinstance(x0, gd.Tensor) else np.ndarray)
    assert np.allclose(np.asarray(r.x), [1, 1], atol=1e-7)
    assert r.nfev >= r.nit > 0 and "gradient" in r.message


def test_a_saddle_is_not_called_a_minimum():
    def wells(x):
        return x[0] ** 2 - x[1] ** 2 + x[1] ** 4

    r = gd.minimize(wells, [1.0, 0.0])
    assert not r.success and r.stop == "SADDLE" and "saddle" in r.message and r.gradient_norm <= 1e-8
    assert gd.minimize(wells, [1.0, 0.0], curvature_products=0).success
    assert gd.minimize(wells, [1.0, 0.1]).success
    with pytest.raises(ValueError, match="curvature_products is -1"):
        gd.minimize(wells, [1.0, 0.0], curvature_products=-1)


def test_what_the_function_raises_in_the_look_at_the_end_comes_out():
    calls = []

    def wells(x):
        calls.append(1)
        if len(calls) > last:
            raise LookupError("too often")
        return (x * x).sum()

    last = 10**9
    gd.minimize(wells, [1.0, 2.0], curvature_products=0)
    last, calls = len(calls), []
    with pytest.raises(LookupError, match="too often"):
        gd.minimize(wells, [1.0, 2.0])


def test_several_parameters_by_place_and_by_name():
    r = gd.minimize(lambda a, b: (a - 3) ** 2 + (b + 1).square().sum(), (0.0, [0.0, 5.0]))
    assert r.x[0].item() == pytest.approx(3) and r.x[1].tolist() == pytest.approx([-1, -1])
    r = gd.minimize(lambda a, b: (a - 3) ** 2 + (b + 1) ** 2, {"b": 2.0, "a": 2.0})
    assert r.x["a"].item() == pytest.approx(3) and r.x["b"].item() == pytest.approx(-1)


@pytest.mark.parametrize("chain", ["box | lbfgs | strong_wolfe", "box(-1, 3) | newton | backtracking"])
def test_bounds_hold_beside_a_box_of_the_chain(chain):
    assert gd.minimize(lambda x: (x - 5).square().sum(), [1.0], chain, bounds=(0, 2)).x[0] == 2


def test_bounds_and_a_box_without_a_common_number_are_named():
    with pytest.raises(ValueError, match="between 0 and 2.*between 3 and 4"):
        gd.minimize(lambda x: (x - 5).square().sum(), [1.0], "box(3, 4) | lbfgs | strong_wolfe", bounds=(0, 2))


def test_a_comparison_is_no_constraint_and_no_loss():
    for how in ({"equal": lambda x: x.sum() == 1}, {"below": lambda x: x <= 1}):
        with pytest.raises(Exception, match="of dtype bool"):
            gd.minimize(lambda x: (x - 5).square().sum(), [1.0], **how)
    with pytest.raises(Exception, match="true or false|does not depend"):
        gd.minimize(lambda x: x.sum() > 1, [1.0], "cma_es")


@pytest.mark.parametrize("bounds", [(-2, 0.5), [(None, 0.5), (-10, None)], {"x": (None, [0.5, 10])}])
def test_bounds_hold(bounds):
    r = gd.minimize(rosenbrock, [-1.0, 0.2], bounds=bounds)
    assert r.success and r.x.tolist() == pytest.approx([0.5, 0.25], abs=1e-6)


def test_constraints_hold():
    r = gd.minimize(lambda x: x.sum(), [0.5, 0.0], equal=lambda x: (x * x).sum() - 2)
    assert r.x.tolist() == pytest.approx([-1, -1], abs=1e-5) and r.violation < 1e-5
    assert 0 < r.constraint_evals <= r.nfev


def test_a_callback_sees_the_run_and_stops_it():
    seen = []
    r = gd.minimize(rosenbrock, [-1.1, 2.5], callback=lambda progress: seen.append(progress["loss"]) or len(seen) == 3)
    assert len(seen) == 3 and r.stop == "CALLER" and not r.success

    def stop(progress):
        raise StopIteration
    assert gd.minimize(rosenbrock, [-1.1, 2.5], callback=stop).nit == 1


def test_what_the_function_raises_comes_out():
    def fails(x):
        raise LookupError("inside")
    with pytest.raises(LookupError, match="inside"):
        gd.minimize(fails, [1.0])
    with pytest.raises(TypeError, match="Tensor"):
        gd.minimize(lambda x: "1", [1.0])
    with pytest.raises(KeyboardInterrupt):
        gd.minimize(rosenbrock, [-1.1, 2.5], callback=lambda p: (_ for _ in ()).throw(KeyboardInterrupt()))
    with pytest.raises(gd.ParseError, match="adm"):
        gd.minimize(rosenbrock, [1.0, 1.0], "adm")
    assert gd.minimize(rosenbrock, [-1.1, 2.5]).success


def decay_columns():
    with open(DECAY) as f:
        rows = list(csv.DictReader(f))
    return {key: np.array([float(row[key]) for row in rows]) for key in ("t", "y")}


# of scipy.optimize.curve_fit (1.16, tolerances 1e-14) on the same table
DECAY_PARAMS, DECAY_ERRORS = [5.0316881418, 0.5074135454, 1.0034745183], [0.0572649157, 0.0128061974, 0.0265067031]


def test_a_curve_is_fitted_as_scipy_fits_it():
    table = decay_columns()
    popt, pcov = fitted = gd.curve_fit(lambda t, a, b, c: a * gd.exp(-b * t) + c, table["t"], table["y"], p0=[1, 1, 0])
    assert popt.tolist() == pytest.approx(DECAY_PARAMS, rel=1e-7)
    assert np.sqrt(np.diag(pcov)).tolist() == pytest.approx(DECAY_ERRORS, rel=1e-6)
    assert fitted.params["b"] == popt[1].item() and fitted.success and "std. error" in repr(fitted)
    assert gd.curve_fit(lambda t, a, b, c: a * gd.exp(-b * t) + c, table["t"], table["y"]).popt.tolist() == pytest.approx(
        DECAY_PARAMS, rel=1e-7)
    held = gd.curve_fit(lambda t, a, b, c: a * gd.exp(-b * t) + c, table["t"], table["y"], [1, 1, 0], bounds={"a": (0, 4)})
    assert held.params["a"] == 4


@pytest.mark.parametrize("limits, stop", [({"max_steps": 3}, "MAX_STEPS"), ({"max_evals": 6}, "MAX_EVALS"), ({"max_seconds": 1e-9}, "TIME")])
def test_limits_hold_over_the_fits_that_find_a_scale(limits, stop):
    table = decay_columns()
    seen = []
    fitted = gd.curve_fit(lambda t, a, b, c: a * gd.exp(-b * t) + c, table["t"], table["y"], p0=[1, 1, 0], loss="huber",
                          callback=lambda p: seen.append(p["step"]), **limits)
    assert fitted.stop == stop and not fitted.success and fitted.nit <= 6
    assert seen == list(range(1, fitted.nit + 1))  # not from 1 again for every scale


def line(x, a, b):
    return a * x + b


@pytest.mark.parametrize("given, text", [
    ({"ydata": [[1.0], [2.0], [3.0]]}, "the function gives the shape .3,., ydata has .3, 1."),
    ({"ydata": [1.0, 2.0, math.nan]}, "ydata has numbers that are not finite"),
    ({"xdata": [1.0, 2.0, math.inf]}, "xdata has numbers that are not finite"),
    ({"sigma": [1.0, 0.0, 1.0]}, "sigma must be finite and above 0"),
    ({"sigma": np.ones((3, 3))}, "sigma as a covariance must be positive definite"),
    ({"p0": [1.0]}, "p0 has 1 numbers, the function takes 2: a, b"),
    ({"p0": [1.0, 2.0, 3.0]}, "p0 has 3 numbers, the function takes 2: a, b"),
], ids=lambda v: next(iter(v)) if isinstance(v, dict) else "")
def test_data_that_do_not_belong_together_are_refused(given, text):
    with pytest.raises(ValueError, match=text):
        gd.curve_fit(line, **{"xdata": [1.0, 2.0, 3.0], "ydata": [1.0, 2.0, 3.5], **given})


def test_one_number_serves_for_a_list_of_one():
    popt, _ = gd.curve_fit(lambda x, a: a * x, [1.0, 2.0, 3.0], [2.0, 4.0, 6.0], p0=1.5, sigma=0.5)
    assert popt.tolist() == pytest.approx([2])
    popt, _ = gd.curve_fit(lambda x, *p: p[0] * x + p[1], [1.0, 2.0, 3.0], [2.0, 4.0, 6.5], p0=[1.0, 0.0])
    assert len(popt.tolist()) == 2
    assert gd.curve_fit(lambda x, a: a, [1.0, 2.0, 3.0], [1.0, 2.0, 3.0]).params["a"] == pytest.approx(2)
    assert gd.minimize(lambda x, a: ((x - a) ** 2).sum(), [1.0], args=2.0).x.item() == pytest.approx(2)


def test_an_expression_is_fitted_to_a_table():
    table = decay_columns()
    r = gd.fit("a*exp(-b*t)+c", table, params={"a": 1, "b": 1, "c": 0})
    assert list(r.params.values()) == pytest.approx(DECAY_PARAMS, rel=1e-7)
    assert list(r.stderr.values()) == pytest.approx(DECAY_ERRORS, rel=1e-6)
    assert "parameter" in repr(r) and "<table>" in r._repr_html_()
    assert r.plot().svg.startswith(("<svg", "<?xml"))
    same = gd.fit("a*exp(-b*t)+c", DECAY, params=["a", "b", "c"], guess=True, bound=["b>0"])
    assert same.params == pytest.approx(r.params, rel=1e-7)
    with pytest.raises(gd.ParseError, match="unknown name 'b'"):
        gd.fit("a*exp(-b*t)", table, params={"a": 1})
    assert math.isfinite(r.r2)


def test_what_a_result_has_not_is_an_attribute_error():
    fitted = gd.curve_fit(lambda t, a: a * t, [1.0, 2.0, 3.0], [1.0, 2.1, 3.0])
    assert not hasattr(fitted, "_ipython_display_") and "popt" in dir(fitted)
    with pytest.raises(AttributeError, match="no 'answer': it has popt, pcov"):
        fitted.answer


def test_what_fit_refuses_is_said_in_keywords():
    with pytest.raises(gd.ParseError, match="no params= given"):
        gd.fit("a*x", {"x": [1.0, 2.0], "y": [1.0, 2.0]})


def test_a_fit_that_came_to_nothing_can_be_looked_at():
    fit = gd.curve_fit(lambda x, a: gd.log(a) * x, [1.0, 2.0, 3.0], [1.0, 2.0, 3.0], [-1.0])
    assert not fit.success and "nan" in repr(fit) and "not finite at the start" in repr(fit) and "nan" in fit._repr_html_()


def test_every_entry_of_a_result_is_described():
    fit = gd.fit("a*t+b", {"t": [0.0, 1.0, 2.0, 3.0], "y": [1.0, 3.1, 4.9, 7.0]}, params={"a": 1, "b": 1})
    curve = gd.curve_fit(lambda t, a, b: a * t + b, [0.0, 1.0, 2.0, 3.0], [1.0, 3.1, 4.9, 7.0])
    for result in (gd.minimize(lambda x: (x ** 2).sum(), [1.0, 2.0]), curve, fit):
        described = set(re.findall(r"\w+", " ".join(re.findall(r"^ *((?:\w+, )*\w+)  +\S", type(result).__doc__, re.M))))
        assert {key for key in result.keys() if not key.startswith("_")} <= described, type(result)


# ---- columns of data frames ----

class Column:
    """What a column of pandas is to others: an array with labels of its own."""

    __module__ = "pandas.tests"

    def __init__(self, values):
        self.values = np.asarray(values)

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.values, dtype)

    def to_numpy(self):
        return self.values

    def __getitem__(self, label):
        raise KeyError(label)  # labels are not places

    def __len__(self):
        return len(self.values)

    def __iter__(self):
        return iter(self.values)


class Frame:
    def __init__(self, columns):
        self.data, self.columns = columns, list(columns)

    def __getitem__(self, name):
        return Column(self.data[name])


def series(values):
    pandas = pytest.importorskip("pandas")
    return pandas.Series(values, index=range(100, 100 + len(values)))


@pytest.mark.parametrize("column", [Column, series])
def test_columns_of_frames_are_arrays(column):
    t = np.linspace(0, 4, 20)
    y = 3 * np.exp(-0.7 * t) + 1
    a, b = column(t), column(y)
    assert gd.tensor(b).tolist() == y.tolist() == gd.asarray(b).tolist()
    x = gd.tensor(y).require_grad()
    assert isinstance(x - b, gd.Tensor) and (x - b).requires_grad and (x - b).abs().max().item() == 0
    r = gd.curve_fit(lambda t, a, b, c: a * gd.exp(-b * t) + c, a, b, p0=column([1.0, 1.0, 0.0]), sigma=column(np.ones(20)))
    assert r.success and r.popt.tolist() == pytest.approx([3, 0.7, 1])
    r = gd.minimize(lambda p: ((p - b) ** 2).sum(), column(np.zeros(20)), bounds=[(-9, 9)] * 20)
    assert isinstance(r.x, np.ndarray) and np.allclose(r.x, y)
    r = gd.minimize(lambda c, d: b - (c + d * a), (0.0, 0.0))
    assert r.success and [v.item() for v in r.x] == pytest.approx(np.polyfit(t, y, 1)[::-1])


def test_pandas_leaves_operators_to_tensors():
    x = gd.tensor([1.0, 2.0]).require_grad()
    assert isinstance(series([1.0, 2.0]) - x, gd.Tensor)


def test_fit_reads_of_a_table_what_the_model_uses():
    t = np.linspace(0, 4, 20)
    y = 3 * np.exp(-0.7 * t) + 1
    table = {"t": t, "y": y, "who": np.array(["x"] * 20, dtype=object), "day": np.datetime64("2020-01-01") + np.arange(20), "ok": t > 1,
             'odd,"name"': ["a\nb"] * 20, "missing": np.array([1, None] * 10, dtype=object)}
    params = {"a": y.max(), "b": np.float32(1), "c": np.int64(0)}
    want = gd.fit("a*exp(-b*t)+c", {"t": t, "y": y}, params={"a": float(y.max()), "b": 1, "c": 0}).params
    for given in (table, Frame(table), {**table, "t": Column(t)}):
        assert gd.fit("a*exp(-b*t)+c", given, params=params).params == want
    assert gd.fit("a*day+c", {"day": table["day"], "y": 2.0 * np.arange(20)}, params={"a": 1, "c": 0}).params["a"] == pytest.approx(2)
    with pytest.raises(gd.Error, match="the table: row 1, column 'who': 'x' is not a number"):
        gd.fit("a*who+c", {k: table[k] for k in ("y", "who")}, params={"a": 1, "c": 0})
    with pytest.raises(ValueError, match="'w' has 2 rows, 'y' has 20"):
        gd.fit("a*who+c", {"y": y, "w": ["a", "b"]}, params={"a": 1, "c": 0})


@pytest.mark.parametrize("wrong", [{"y": "yy"}, {"y": "who"}, {"sigma": "none"}])
def test_messages_of_fit_name_no_file_of_its_own(wrong):
    with pytest.raises(gd.Error) as seen:
        gd.fit("a*t", {"t": [1.0, 2.0], "y": [1.0, 2.0], "who": ["a", "b"]}, params={"a": 1}, **wrong)
    assert "the table" in str(seen.value) or "column" in str(seen.value)
    assert "/" not in str(seen.value) and ".csv" not in str(seen.value)


def test_what_the_program_warns_of_is_a_warning():
    columns = decay_columns()
    with pytest.warns(gd.GradusWarning, match="exclude= 't>100': no row is like that") as seen:
        fitted = gd.fit("a*exp(-b*t)+c", columns, params={"a": 1, "b": 1, "c": 0}, exclude=["t>100"])
    assert seen[0].filename == __file__ and len(seen) == 1 and fitted.success


def test_results_are_tables_in_notebooks():
    shown = gd.minimize(lambda x: (x * x).sum(), [1.0])._repr_html_()
    assert shown.startswith("<table>") and "<th>nfev</th>" in shown
    assert "<th>cost</th>" in gd.least_squares(lambda x: x - 1, [0.0])._repr_html_()
