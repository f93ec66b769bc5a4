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
    with pytest.raises(ValueError, match="method is"):
        model.fit(Y, x=X, amp=5, cen=1, wid=1, method="nelder")
