"""gd.Model and gd.Parameters: the numbers of lmfit on the same fits (recorded), and what it allows."""
import copy
import json
import pickle
from pathlib import Path

import numpy as np
import pytest

import gradus as gd

RECORDED = json.loads((Path(__file__).parent / "lmfit.json").read_text())["fits"]
X = np.linspace(-4, 6, 101)
Y = 5.1 * np.exp(-(X - 0.9) ** 2 / (2 * 1.2 ** 2)) + 0.3 * np.cos(7 * X) + 0.05 * X


def gaussian(x, amp, cen, wid):
    return amp * (-(x - cen) ** 2 / (2 * wid ** 2)).exp()


def of_numpy(x, amp, cen, wid):
    return amp * np.exp(-np.asarray(x - cen) ** 2 / (2 * wid ** 2))


def line(x, slope, intercept):
    return slope * x + intercept


def agrees(result, name, rel=1e-6):
    row = RECORDED[name]
    for n, value in row["values"].items():
        assert result.params[n].value == pytest.approx(value, rel=rel, abs=1e-5 * (row["stderr"][n] or 0)), n
        if row["stderr"][n]:
            assert result.params[n].stderr == pytest.approx(row["stderr"][n], rel=10 * rel), n
    for key in ("chisqr", "redchi", "aic", "bic", "rsquared", "nvarys", "nfree"):
        assert getattr(result, key) == pytest.approx(row[key], rel=rel), key


@pytest.mark.parametrize("model", [gaussian, of_numpy, "amp*exp(-(x-cen)^2/(2*wid^2))"], ids=["operators", "arrays", "text"])
def test_a_fit_has_lmfits_numbers(model):
    result = gd.Model(model).fit(Y, x=X, amp=5, cen=1, wid=1)
    agrees(result, "gaussian")
    assert result.success and result.params["amp"].correl["wid"] == pytest.approx(RECORDED["gaussian"]["correl"], rel=1e-5)
    assert result.eval_uncertainty(sigma=2, x=np.array([0.0, 1.0, 3.0])).tolist() == pytest.approx(RECORDED["gaussian"]["band"], rel=1e-5)
    assert isinstance(result.best_fit, np.ndarray) and result.residual.shape == (101,) and result.init_values["amp"] == 5
    assert "differences" in result.message if model is of_numpy and result.derivatives == "differences" else True


def test_models_are_joined():
    model = gd.Model(gaussian) + gd.Model(line)
    assert model.param_names == ["amp", "cen", "wid", "slope", "intercept"]
    result = model.fit(Y, model.make_params(amp=5, cen=1, wid=1, slope=0, intercept=1), x=X)
    agrees(result, "composite")
    parts = result.eval_components()
    assert np.allclose(parts["gaussian"] + parts["line"], result.best_fit)
    two = gd.Model(gaussian, prefix="a_") + gd.Model(gaussian, prefix="b_")
    assert two.param_names == ["a_amp", "a_cen", "a_wid", "b_amp", "b_cen", "b_wid"]
    with pytest.raises(NameError, match="'amp'"):
        gd.Model(gaussian) + gd.Model(gaussian)


def test_weights_fixed_parameters_limits_and_expressions():
    model = gd.Model(gaussian) + gd.Model(line)
    params = model.make_params(amp=5, cen=1, wid=1, slope=0, intercept=0)
    params["intercept"].vary = False
    params["wid"].min = 0
    params.add("fwhm", expr="2.3548200450309493*wid")
    agrees(model.fit(Y, params, x=X, weights=1 / (0.2 + 0.01 * X ** 2)), "weighted", 1e-5)
    agrees(gd.Model(gaussian).fit(Y, x=X, amp=5, cen=1, wid=1, weights=np.full(101, 4.0), scale_covar=False), "unscaled")
    held = gd.Model(gaussian).make_params(amp=5, cen=1, wid={"value": 0.5, "max": 1.0})
    result = gd.Model(gaussian).fit(Y, held, x=X)
    assert result.params["wid"].value == 1.0
    tied = gd.Model(gaussian).make_params(amp=5, cen=1, wid=1)
    tied["wid"].expr = "amp/4"
    result = gd.Model(gaussian).fit(Y, tied, x=X)
    assert result.params["wid"].value == pytest.approx(result.params["amp"].value / 4) and result.nvarys == 2
    assert result.params["wid"].stderr == pytest.approx(result.params["amp"].stderr / 4)


def test_tables_by_name_and_tensors():
    table = {"x": X, "y": Y, "words": ["a"] * 101}
    result = gd.Model(gaussian).fit(table, y="y", amp=5, cen=1, wid=1)
    agrees(result, "gaussian")
    result = gd.Model(gaussian).fit(gd.tensor(Y), x=gd.tensor(X), amp=5, cen=1, wid=1)
    assert isinstance(result.best_fit, gd.Tensor)
    pandas = pytest.importorskip("pandas")
    agrees(gd.Model(gaussian).fit(pandas.DataFrame(table), y="y", amp=5, cen=1, wid=1), "gaussian")


def test_a_guess_is_a_start():
    model = gd.Model(gaussian)
    params = model.guess(Y, x=X)
    agrees(model.fit(Y, params, x=X), "gaussian", 1e-5) if model.fit(Y, params, x=X).chisqr < 6 else None
    assert all(np.isfinite(v) for v in params.valuesdict().values())
    assert ((model.eval(params, x=X) - Y) ** 2).sum() < (Y ** 2).sum()


def test_bands_and_reports():
    result = gd.Model(gaussian).fit(Y, x=X, amp=5, cen=1, wid=1)
    value, low, high = result.predict(0.95, x=np.array([1.0, 2.0]))
    assert (low < value).all() and (value < high).all()
    half = result.eval_uncertainty(0.5, x=np.array([1.0, 2.0]))
    # the 97.5 % and 75 % quantiles of Student's distribution with 98 degrees of freedom, of scipy.stats
    assert (high - value).tolist() == pytest.approx((half * 1.984467454 / 0.677001439).tolist(), rel=1e-6)
    text = result.report()
    for part in ("[[Fit Statistics]]", "reduced chi-square", "amp:", "(init = 5)", "C(amp, wid)"):
        assert part in text
    assert "<table>" in result._repr_html_() and result.fit_report() == text


def test_parameters():
    params = gd.Parameters()
    params.add("a", value=3, min=0, max=10)
    params.add_many(("b", 2, False), ("c", None, True, None, None, "a + 2*b"))
    assert params.valuesdict() == {"a": 3, "b": 2, "c": 7} and params["c"].expr == "a + 2*b" and not params["c"].vary
    params["a"].set(value=20)
    assert params["a"].value == 10 and params.valuesdict()["c"] == 14
    for other in (copy.deepcopy(params), params.copy(), pickle.loads(pickle.dumps(params))):
        other["a"].value = 1
        assert params["a"].value == 10 and other.valuesdict()["c"] == 5
    assert "vary" in repr(params) and "<table>" in params._repr_html_()
    with pytest.raises(ValueError, match="min 2 is not below max 1"):
        params.add("d", 1, min=2, max=1)
    with pytest.raises(TypeError, match="a Parameter is needed"):
        params["d"] = 1.0
    params.add("e", expr="f + 1")
    with pytest.raises(gd.ParseError, match="'f', which is no parameter"):
        params.valuesdict()


@pytest.mark.parametrize("text", ["__import__('os')", "x.real", "[1]", "(lambda: 1)()", "open(x)", "'a'"])
def test_expressions_are_arithmetic_only(text):
    with pytest.raises(gd.ParseError):
        gd.Model(text)


def test_what_is_missing_is_named():
    model = gd.Model(gaussian)
    with pytest.raises(ValueError, match="parameter 'wid' has no value"):
        model.fit(Y, x=X, amp=5, cen=1)
    with pytest.raises(TypeError, match="'x' is not given"):
        model.fit(Y, amp=5, cen=1, wid=1)
    with pytest.raises(TypeError, match="no parameter or variable 'with_'"):
        model.fit(Y, x=X, amp=5, cen=1, wid=1, with_=2)
    with pytest.raises(KeyError, match="no parameter 'width'"):
        model.make_params(width=1)
    with pytest.raises(ValueError, match="there is no method 'emcee'"):
        model.fit(Y, x=X, amp=5, cen=1, wid=1, method="emcee")


def test_several_sets_share_parameters():
    sets = [3 * np.exp(-(X - c) ** 2 / (2 * 0.8 ** 2)) + 0.1 * np.cos(7 * X + c) for c in (0.5, 1.5, 2.5)]
    model = gd.Model(gaussian)
    result = model.fit_sets(sets, x=X, shared=["wid", "amp"], amp=2, cen=[0, 1, 2], wid={"value": 1, "min": 0.1})
    assert result.var_names == ["amp", "cen_1", "wid", "cen_2", "cen_3"] and result.ndata == 303 and result.success

    def residual(p):  # the same by hand
        return np.concatenate([gaussian(gd.tensor(X), p["amp"].value, p[f"c{k}"].value, p["wid"].value).numpy() - y for k, y in enumerate(sets)])
    by_hand = gd.minimize(residual, gd.create_params(amp=2, c0=0, c1=1, c2=2, wid={"value": 1, "min": 0.1}))
    assert by_hand.derivatives == "differences" and result.derivatives == "operators"
    assert result.chisqr == pytest.approx(by_hand.chisqr, rel=1e-9)
    for one, other in (("amp", "amp"), ("cen_2", "c1"), ("wid", "wid")):
        assert result.params[one].value == pytest.approx(by_hand.params[other].value, rel=1e-6)
        assert result.params[one].stderr == pytest.approx(by_hand.params[other].stderr, rel=1e-4)
    assert np.allclose(result.best_fit[1], result.eval(1)) and result.set_params(1)["cen"].value == result.params["cen_2"].value
    own = model.fit_sets([sets[0], sets[1][:50]], x=[X, X[:50]], amp=2, cen=0, wid=1)  # nothing is shared: each as alone
    assert own.params["wid_2"].value == pytest.approx(model.fit(sets[1][:50], x=X[:50], amp=2, cen=0, wid=1).params["wid"].value, rel=1e-6)
    for wrong in ({"shared": ["width"]}, {"cen": [1, 2]}, {"x": [X, X]}, {"wid": None}, {"nothing": 1}):
        with pytest.raises((KeyError, ValueError, TypeError)):
            model.fit_sets(sets, **{**dict(x=X, shared=["wid"], amp=2, cen=0, wid=1), **wrong})


def test_parameters_calculate_as_numbers_do():
    params = gd.create_params(a=2, b={"value": 3, "min": 0}, c={"expr": "a*b"})
    a, b = params["a"], params["b"]
    assert (a + b, a * 2, 2 / a, a ** 2, -a, abs(-a.value), a - 1, 7 % b) == (5, 4, 1, 4, -2, 2, 1, 1) and a < b and a == 2 and bool(a)
    assert np.sin(a) == np.sin(2.0) and (np.ones(2) * a).tolist() == [2, 2] and float(b) == 3 and params["c"].value == 6
    assert (gd.tensor([1.0, 2.0]) * a).tolist() == [2, 4]
    params.set(a=4, b={"max": 10})
    assert params["c"].value == 12 and params["b"].max == 10 and params.eval("a + c") == 16
    with pytest.raises(KeyError, match="no parameter 'd'"):
        params.set(a=7, d=1)
    assert params["a"].value == 4  # nothing changed
    again = gd.Parameters().loads(params.dumps())
    assert again.valuesdict() == params.valuesdict() and again["b"].max == 10
    with pytest.raises(gd.ParseError):
        params["a"].set(value=5, expr="a +")
    assert params["a"].value == 4 and (params + gd.create_params(d=1)).valuesdict()["d"] == 1 and "d" not in params


def test_a_minimiser_stops_by_its_callback_and_says_what_it_cannot():
    seen = []
    residual = lambda p: p["a"] * np.exp(-X) + p["b"] * X - Y  # noqa: E731
    result = gd.minimize(residual, gd.create_params(a=50, b=-30), iter_cb=lambda params, step, resid: seen.append((params["a"].value, step, resid.shape)) or step >= 1)
    assert len(seen) == 1 and seen[0][1:] == (1, (101,)) and not result.success
    for method in ("nelder", "lbfgsb", "bfgs", "cg", "slsqp"):
        found = gd.minimize(residual, gd.create_params(a=1, b=1), method=method)
        best = gd.minimize(residual, gd.create_params(a=1, b=1))
        assert found.params["b"].value == pytest.approx(best.params["b"].value, rel=1e-4), method
        assert found.params["b"].stderr == pytest.approx(best.params["b"].stderr, rel=1e-3), method
        assert found.method == method
    with pytest.raises(ValueError, match="no method 'brute'"):
        gd.minimize(residual, gd.create_params(a=1, b=1), "brute")
    with pytest.raises(ValueError, match="not finite"):
        gd.minimize(lambda p: p["a"] * np.array([1.0, np.nan]), gd.create_params(a=1))
    with pytest.warns(gd.GradusWarning, match="'tool'"):
        gd.minimize(residual, gd.create_params(a=1, b=1), tool=3)


def test_voigts_slopes_agree_with_differences():
    for x, y in ((0.3, 0.2), (-2.0, 1e-3), (5.0, 3.0), (0.1, 1e-8), (1.0, -0.2)):
        at = gd.tensor([x, y])
        f = lambda v: gd.models.lineshapes.voigt(v[0], 1.0, 0.0, 1.0, v[1])  # noqa: E731
        g, h = gd.grad(f)(at).tolist(), gd.hessian(f)(at).tolist()
        for i in (0, 1):
            step = gd.tensor([1e-5 if k == i else 0.0 for k in (0, 1)])
            assert g[i] == pytest.approx((f(at + step).item() - f(at - step).item()) / 2e-5, rel=1e-6, abs=1e-9)
            assert h[i] == pytest.approx(((gd.grad(f)(at + step) - gd.grad(f)(at - step)) / 2e-5).tolist(), rel=1e-5, abs=1e-8)
