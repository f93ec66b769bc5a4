"""Calls of scipy.optimize as its documentation shows them, retyped with another import: the same numbers.

Expected values: closed forms, or SciPy 1.17.1 on the same calls."""
import warnings

import numpy as np
import pytest

import gradus as gd

LINEAR = lambda A, lb, ub: type("LinearConstraint", (), {"A": A, "lb": lb, "ub": ub})()  # noqa: E731  what SciPy's have
NONLINEAR = lambda fun, lb, ub, jac=None: type("NonlinearConstraint", (), {"fun": staticmethod(fun), "lb": lb, "ub": ub, "jac": staticmethod(jac) if jac else None})()  # noqa: E731,E501


def rosen(x):
    """Of arrays, as SciPy's own is."""
    x = np.asarray(x)
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2.0) ** 2.0 + (1 - x[:-1]) ** 2.0, axis=0)


def rosen_der(x):
    x = np.asarray(x)
    middle = x[1:-1]
    der = np.zeros_like(x)
    der[1:-1] = 200 * (middle - x[:-2] ** 2) - 400 * (x[2:] - middle ** 2) * middle - 2 * (1 - middle)
    der[0] = -400 * x[0] * (x[1] - x[0] ** 2) - 2 * (1 - x[0])
    der[-1] = 200 * (x[-1] - x[-2] ** 2)
    return der


def rosen_hess(x):
    h = np.diag(-400 * x[:-1], 1) - np.diag(400 * x[:-1], -1)
    d = np.zeros_like(x)
    d[0] = 1200 * x[0] ** 2 - 400 * x[1] + 2
    d[-1] = 200
    d[1:-1] = 202 + 1200 * x[1:-1] ** 2 - 400 * x[2:]
    return h + np.diag(d)


X0 = [1.3, 0.7, 0.8, 1.9, 1.2]


@pytest.mark.parametrize("how", [
    {}, {"method": "BFGS"}, {"method": "BFGS", "jac": rosen_der}, {"method": "CG", "jac": rosen_der}, {"method": "L-BFGS-B", "jac": "2-point"},
    {"method": "L-BFGS-B", "jac": "cs"}, {"method": "Newton-CG", "jac": rosen_der, "hess": rosen_hess},
    {"method": "Newton-CG", "jac": rosen_der, "hessp": lambda x, p: rosen_hess(x) @ p}, {"method": "trust-ncg", "jac": rosen_der, "hess": rosen_hess},
    {"method": "trust-krylov", "jac": rosen_der, "hess": rosen_hess}, {"method": "trust-exact", "jac": rosen_der, "hess": rosen_hess},
    {"method": "dogleg", "jac": rosen_der, "hess": rosen_hess}, {"method": "Newton-CG", "jac": rosen_der}, {"method": "SLSQP"}, {"method": "TNC"},
    {"method": "Nelder-Mead", "tol": 1e-6}, {"method": "nelder-mead", "options": {"xatol": 1e-8, "disp": False}},
    {"method": "trust-constr", "jac": rosen_der, "hess": rosen_hess}], ids=lambda how: "-".join(getattr(v, "__name__", str(v)) for v in how.values()))
def test_every_method_finds_the_minimum_of_rosenbrock(how):
    def fun(x):
        assert isinstance(x, np.ndarray)
        return rosen(x)

    res = gd.minimize(fun if "jac" in how and callable(how["jac"]) else rosen if how.get("jac") != "cs" else
                      (lambda x: sum(100.0 * (x[1:] - x[:-1] ** 2.0) ** 2.0 + (1 - x[:-1]) ** 2.0)), X0, **how)
    assert res.success and res.status == 0 and isinstance(res.x, np.ndarray)
    assert res.x.tolist() == pytest.approx([1] * 5, abs=5e-5 if "nelder-mead" in str(how).lower() or "2-point" in str(how) else 1e-5)
    assert res.derivatives == ("values" if how.get("method", "").lower() == "nelder-mead" else "jac" if callable(how.get("jac")) else "differences")
    assert res.nfev >= res.nit > 0 and isinstance(res.message, str)


def test_the_result_has_what_scipys_has():
    res = gd.minimize(rosen, X0, method="BFGS", jac=rosen_der, options={"gtol": 1e-6, "disp": False})
    assert np.abs(res.jac).max() < 1e-6 and res["jac"] is res.jac
    # the inverse of the Hessian at (1, 1, 1, 1, 1)
    assert np.allclose(res.hess_inv, np.linalg.inv(rosen_hess(np.ones(5))), rtol=1e-5)
    assert res.njev > 0 and res.fun < 1e-12
    import pickle
    assert pickle.loads(pickle.dumps(res)).x.tolist() == res.x.tolist()


FUN = lambda x: (x[0] - 1) ** 2 + (x[1] - 2.5) ** 2  # noqa: E731
CONS = ({"type": "ineq", "fun": lambda x: x[0] - 2 * x[1] + 2}, {"type": "ineq", "fun": lambda x: -x[0] - 2 * x[1] + 6},
        {"type": "ineq", "fun": lambda x: -x[0] + 2 * x[1] + 2})
BNDS = ((0, None), (0, None))


@pytest.mark.parametrize("method", ["SLSQP", "trust-constr", "COBYLA", None])
def test_the_example_with_three_inequalities(method):
    res = gd.minimize(FUN, (2, 0), method=method, bounds=BNDS, constraints=CONS)
    assert res.x.tolist() == pytest.approx([1.4, 1.7], abs=1e-6) and res.fun == pytest.approx(0.8, abs=1e-6) and res.success
    assert res.multipliers["below"].tolist() == pytest.approx([0.8, 0, 0], abs=1e-5)  # SciPy 1.17.1: res.multipliers of SLSQP
    assert res.maxcv < 1e-6


def test_the_tutorial_of_constraints():
    """A Rosenbrock with bounds, a linear and a nonlinear constraint, in three spellings."""
    x = np.polynomial.Polynomial([0, 1])  # along the line 2 x + y = 1, which both limits of the second row make
    along = 100 * (1 - 2 * x - x ** 2) ** 2 + (1 - x) ** 2
    root = along.deriv().roots().real.max()
    expected = [root, 1 - 2 * root]  # SciPy's documentation prints 0.41494531, 0.17010937
    linear = LINEAR([[1, 2], [2, 1]], [-np.inf, 1], [1, 1])
    nonlinear = NONLINEAR(lambda x: np.array([x[0] ** 2 + x[1], x[0] ** 2 - x[1]]), -np.inf, 1)
    with_jac = NONLINEAR(lambda x: [x[0] ** 2 + x[1], x[0] ** 2 - x[1]], -np.inf, 1, lambda x: [[2 * x[0], 1], [2 * x[0], -1]])
    bounds = type("Bounds", (), {"lb": [0, -0.5], "ub": [1.0, 2.0]})()
    for second in (nonlinear, with_jac):
        res = gd.minimize(rosen, [0.5, 0.0], method="trust-constr", jac=rosen_der, hess=rosen_hess, constraints=[linear, second], bounds=bounds)
        assert res.success and res.x.tolist() == pytest.approx(expected, abs=1e-6)
    ineq = {"type": "ineq", "fun": lambda x: np.array([1 - x[0] - 2 * x[1], 1 - x[0] ** 2 - x[1], 1 - x[0] ** 2 + x[1]]),
            "jac": lambda x: np.array([[-1.0, -2.0], [-2 * x[0], -1.0], [-2 * x[0], 1.0]])}
    eq = {"type": "eq", "fun": lambda x: np.array([2 * x[0] + x[1] - 1]), "jac": lambda x: np.array([2.0, 1.0])}
    res = gd.minimize(rosen, np.array([0.5, 0]), method="SLSQP", jac=rosen_der, constraints=[eq, ineq], options={"ftol": 1e-9, "disp": False}, bounds=bounds)
    assert res.x.tolist() == pytest.approx(expected, abs=5e-6)


def test_arguments_and_pairs():
    res = gd.minimize(lambda x, a, b: (a * (x - 1) ** 2).sum() + b, [3.0, 4.0], (2.0, 5.0))
    assert res.x.tolist() == pytest.approx([1, 1]) and res.fun == pytest.approx(5) and res.derivatives == "operators"
    res = gd.minimize(lambda x, a: (a * np.sum((x - 1) ** 2), 2 * a * (x - 1)), [3.0, 4.0], args=(2.0,), jac=True)
    assert res.x.tolist() == pytest.approx([1, 1]) and res.derivatives == "jac"
    res = gd.minimize(lambda x: float(x[0]) ** 2 + 1, 3.0)
    assert res.x.shape == (1,) and res.fun == pytest.approx(1)


def test_callbacks_by_their_arguments():
    seen = []

    def by_point(xk):
        seen.append(xk)

    def by_result(intermediate_result):
        seen.append(intermediate_result.fun)
        if len(seen) == 3:
            raise StopIteration
    gd.minimize(rosen, X0, callback=by_point)
    assert len(seen) > 3 and isinstance(seen[0], np.ndarray) and seen[-1].tolist() == pytest.approx([1] * 5, abs=1e-4)
    seen.clear()
    res = gd.minimize(rosen, X0, callback=by_result)
    assert res.nit == 3 and res.status == 99 and not res.success and seen == sorted(seen, reverse=True)


def test_what_has_no_effect_is_said():
    with pytest.warns(gd.GradusWarning, match="unknown option 'gtoll'"):
        gd.minimize(rosen, X0, options={"gtoll": 1})
    with pytest.warns(gd.GradusWarning, match="hess is not used without jac"):
        gd.minimize(lambda x: (x ** 2).sum(), [1.0], hess=lambda x: [[2.0]])
    with pytest.warns(gd.GradusWarning, match="needs no derivatives"):
        gd.minimize(rosen, X0, method="Nelder-Mead", jac=rosen_der)
    with pytest.raises(TypeError, match="method and chain"):
        gd.minimize(rosen, X0, "lbfgs", method="BFGS")
    with pytest.raises(ValueError, match="jac is a function"):
        gd.minimize(rosen, X0, jac="exact")
    with pytest.raises(ValueError, match="a constraint is a dict with type"):
        gd.minimize(rosen, X0, constraints={"type": "ineqq", "fun": lambda x: x[0]})
    with pytest.raises(gd.ParseError, match="bfsg"):
        gd.minimize(rosen, X0, method="bfsg")
    with pytest.raises(ValueError, match="derivative has the shape"):
        gd.minimize(rosen, X0, jac=lambda x: np.ones(3))


def test_method_names_stand_for_the_chains_that_messages_name():
    from gradus._minimize import METHODS

    for name, chain in METHODS.items():
        gd.Chain(chain)
        if name not in gd.m.__all__:  # "dogleg" is a link
            with pytest.raises(gd.ParseError) as refused:
                gd.Chain(name)
            assert str(refused.value).endswith(f"write {chain}")


# of SciPy 1.17.1, tolerances 1e-15 and 1e-14
RECORDED_LINEAR = [0.8812158762499537, -0.024264564970087665, -2.430586352722874], 12.200326171319634
RECORDED_SOFT = [1.9023082060233287, 0.09167129999134861, 0.6326082132491768], 0.9464461501580862
RECORDED_HUBER = [1.9600489007939879, 0.09666280085899212, 0.6312179267590745], 0.9661483678399827
RECORDED_ARCTAN = [2.088699437634165, 0.10747555875801236, 0.6256594358372217], 0.6045591961930679
RECORDED_CAUCHY = [2.090828458949502, 0.10790109228528758, 0.6247282328016507], 0.12282860404400839
RECORDED_POPT, RECORDED_PCOV = [2.5441069374650356, 1.365482593289413, 0.5186144482058732], [[0.007652636950062, 0.003349673102721173, -0.000356177848347873], [0.003349673102721173, 0.009902699087850143, 0.0025876716470992264], [-0.000356177848347873, 0.0025876716470992264, 0.0013286744479771458]]
RECORDED_BOUNDED = [2.4238265768653826, 0.9999999999999999, 0.3912024681125306]
RECORDED_WEIGHTED = [2.548760432449068, 1.4055959577025978, 0.5330498904116237]
RECORDED_OMITTED = [2.5869604967188864, 1.3721783289649476, 0.5176795657885093]


# ---- least_squares ----

def fun_rosenbrock(x):
    return np.array([10 * (x[1] - x[0] ** 2), (1 - x[0])])


def jac_rosenbrock(x):
    return np.array([[-20 * x[0], 10], [-1, 0]])


def test_the_examples_of_least_squares():
    x0 = np.array([2, 2])
    for how in ({}, {"jac": jac_rosenbrock}, {"method": "lm"}, {"jac": "3-point"}, {"jac": "cs"}):
        res = gd.least_squares(fun_rosenbrock, x0, **how)
        assert res.x.tolist() == pytest.approx([1, 1], abs=1e-7) and res.cost < 1e-15 and res.success and res.status > 0
        assert res.fun.shape == (2,) and res.jac.tolist() == [pytest.approx([-20, 10], abs=1e-4), pytest.approx([-1, 0], abs=1e-4)]
    res = gd.least_squares(fun_rosenbrock, x0, jac_rosenbrock, bounds=([-np.inf, 1.5], np.inf))
    assert res.x.tolist() == pytest.approx([1.22437075, 1.5], abs=1e-7) and res.cost == pytest.approx(0.025213093946805685, rel=1e-8)
    assert res.active_mask.tolist() == [0, -1]


def broyden(n):
    def fun(x):
        f = (3 - x) * x + 1
        f[1:] -= x[:-1]
        f[:-1] -= 2 * x[1:]
        return f
    return gd.least_squares(fun, -np.ones(n))


def test_a_system_of_many_equations():
    res = broyden(100)
    assert res.cost < 1e-15 and res.optimality < 1e-6


def generate_data(t, A, sigma, omega):
    return A * np.exp(-sigma * t) * np.sin(omega * t)


def test_robust_losses_go_by_scipys_scale():
    t = np.linspace(0, 9, 15)
    noise = 0.1 * np.cos(7 * t)
    noise[[2, 5, 9]] *= 35
    y = generate_data(t, 2, 0.1, 0.1 * 2 * np.pi) + noise
    fun = lambda x, t, y: generate_data(t, x[0], x[1], x[2]) - y  # noqa: E731
    expected = {  # SciPy 1.17.1, least_squares(..., xtol=1e-15, ftol=1e-15, gtol=1e-15)
        "linear": RECORDED_LINEAR, "soft_l1": RECORDED_SOFT, "huber": RECORDED_HUBER, "cauchy": RECORDED_CAUCHY}
    for loss, (x, cost) in expected.items():
        res = gd.least_squares(fun, np.ones(3), loss=loss, f_scale=0.1, args=(t, y))
        assert res.x.tolist() == pytest.approx(x, rel=1e-6) and res.cost == pytest.approx(cost, rel=1e-8), loss
        assert np.abs(res.grad).max() < 1e-8  # of the cost
    with pytest.raises(ValueError, match="no loss 'atan'"):
        gd.least_squares(fun, np.ones(3), loss="atan", args=(t, y))
    with pytest.warns(gd.GradusWarning, match="x_scale is not used"):
        gd.least_squares(fun_rosenbrock, [2.0, 2.0], x_scale=[1.0, 10.0])


# ---- curve_fit ----

def func(x, a, b, c):
    return a * np.exp(-b * x) + c


def test_the_examples_of_curve_fit():
    xdata = np.linspace(0, 4, 50)
    ydata = func(xdata, 2.5, 1.3, 0.5) + 0.2 * np.cos(13 * xdata)
    popt, pcov = gd.curve_fit(func, xdata, ydata)
    assert isinstance(popt, np.ndarray) and popt.tolist() == pytest.approx(RECORDED_POPT, rel=1e-6)
    assert np.allclose(pcov, RECORDED_PCOV, rtol=1e-5)
    bounded, _ = gd.curve_fit(func, xdata, ydata, bounds=(0, [3.0, 1.0, 0.5]))
    assert bounded.tolist() == pytest.approx(RECORDED_BOUNDED, rel=1e-6)
    by_jac, cov = gd.curve_fit(func, xdata, ydata, jac=lambda x, a, b, c: np.stack([np.exp(-b * x), -a * x * np.exp(-b * x), np.ones_like(x)], 1))
    assert by_jac.tolist() == pytest.approx(RECORDED_POPT, rel=1e-7) and np.allclose(cov, RECORDED_PCOV, rtol=1e-6)
    sigma = 0.1 + 0.05 * xdata
    weighted, cov = gd.curve_fit(func, xdata, ydata, sigma=sigma, absolute_sigma=True)
    assert weighted.tolist() == pytest.approx(RECORDED_WEIGHTED, rel=1e-6)
    full, fullcov = gd.curve_fit(func, xdata, ydata, sigma=np.diag(sigma ** 2), absolute_sigma=True)
    assert full.tolist() == pytest.approx(RECORDED_WEIGHTED, rel=1e-6) and np.allclose(cov, fullcov, rtol=1e-6)
    ydata[3] = np.nan
    omitted, _ = gd.curve_fit(func, xdata, ydata, nan_policy="omit")
    assert omitted.tolist() == pytest.approx(RECORDED_OMITTED, rel=1e-6)
    assert len(gd.curve_fit(func, xdata, ydata, nan_policy="omit", full_output=True)) == 5


def test_recorded_functions_give_the_same():
    f = lambda x: (100 * (x[1] - x[0] ** 2) ** 2 + (1 - x[0]) ** 2)  # noqa: E731
    plain, recorded = gd.minimize(f, [-1.2, 1.0]), gd.minimize(f, [-1.2, 1.0], jit=True)
    assert plain.x.tolist() == recorded.x.tolist() and plain.nfev == recorded.nfev
    calls = []
    r = gd.least_squares(lambda x: (calls.append(1), gd.stack([10 * (x[1] - x[0] ** 2), 1 - x[0]]))[1], [-1.2, 1.0], jit=True)
    assert r.x.tolist() == pytest.approx([1, 1], abs=1e-8) and r.derivatives == "operators" and len(calls) < r.nfev
    t = np.linspace(0, 4, 20)
    model = lambda t, a, b: a * (-b * t).exp()  # noqa: E731
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert gd.curve_fit(model, t, 2 * np.exp(-t), jit=True).popt.tolist() == pytest.approx([2, 1])


def test_numbers_of_any_dtype_are_doubles_as_in_scipy():
    res = gd.minimize(rosen, np.array([2, 3], dtype=np.float32))
    assert res.success and res.x.dtype == np.float64 and res.x.tolist() == pytest.approx([1, 1], abs=1e-6)
    assert gd.minimize(rosen, np.array([2, 3])).success


@pytest.mark.parametrize("kind", ["operators", "arrays", "jac"])
def test_losses_of_scipy_that_are_functions(kind):
    t = np.linspace(0, 9, 15)
    noise = 0.1 * np.cos(7 * t)
    noise[[2, 5, 9]] *= 35
    y = generate_data(t, 2, 0.1, 0.1 * 2 * np.pi) + noise

    def fun(x):
        x = np.asarray(x) if kind == "arrays" else x
        return generate_data(t, x[0], x[1], x[2]) - y

    def jac(x):
        f = np.exp(-x[1] * t)
        return np.stack([f * np.sin(x[2] * t), -t * x[0] * f * np.sin(x[2] * t), t * x[0] * f * np.cos(x[2] * t)], 1)
    jac = jac if kind == "jac" else None
    arctan = lambda z: np.array([np.arctan(z), 1 / (1 + z ** 2), -2 * z / (1 + z ** 2) ** 2])  # noqa: E731
    cauchy = lambda z: np.array([np.log1p(z), 1 / (1 + z), -1 / (1 + z) ** 2])  # noqa: E731
    for loss, (x, cost), scale in (("arctan", RECORDED_ARCTAN, 0.5), (arctan, RECORDED_ARCTAN, 0.5), (cauchy, RECORDED_CAUCHY, 0.1)):
        res = gd.least_squares(fun, [2.0, 0.1, 0.6], jac=jac, loss=loss, f_scale=scale)
        assert res.x.tolist() == pytest.approx(x, rel=1e-6) and res.cost == pytest.approx(cost, rel=1e-8)
        assert np.allclose(res.fun, fun(res.x), atol=1e-12) and np.abs(res.grad).max() < 1e-8
        assert res.derivatives == ("jac" if jac else "differences" if kind == "arrays" else "operators")
    exact = gd.least_squares(lambda x: fun(x) * 0, [2.0, 0.1, 0.6], loss="arctan") if kind == "operators" else None
    assert exact is None or (exact.cost == 0 and np.isfinite(exact.jac).all())  # residuals of 0 have finite slopes
    with pytest.raises(ValueError, match="loss is a function of z"):
        gd.least_squares(fun, [2.0, 0.1, 0.6], jac=jac, loss=lambda z: z)
    with pytest.raises(ValueError, match="f_scale is above 0"):
        gd.least_squares(fun, [2.0, 0.1, 0.6], jac=jac, loss="arctan", f_scale=0)


def test_second_derivatives_of_constraints_are_used():
    seen = []

    def hess(x, v):
        seen.append(v)
        return v[0] * np.array([[2.0, 0], [0, 0]]) + v[1] * np.array([[2.0, 0], [0, 0]])
    made = lambda **how: type("NonlinearConstraint", (), {  # noqa: E731
        "fun": staticmethod(lambda x: [x[0] ** 2 + x[1], x[0] ** 2 - x[1]]), "lb": -np.inf, "ub": 1,
        "jac": staticmethod(lambda x: [[2 * x[0], 1], [2 * x[0], -1]]), "hess": staticmethod(hess), **how})()
    operator = type("LinearOperator", (), {"matvec": lambda self, p: self.h @ p})

    def as_operator(x):
        out = operator()
        out.h = rosen_hess(np.asarray(x))
        return out
    for h in (rosen_hess, as_operator):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            res = gd.minimize(rosen, [0.5, 0.0], method="trust-constr", jac=rosen_der, hess=h, constraints=[made()], bounds=[(0, 1), (-0.5, 2)])
        assert res.success and res.x.tolist() == pytest.approx([0.7074721577416423, 0.4994831460203849], abs=1e-5)  # SciPy 1.17.1, SLSQP
        assert seen and res.maxcv < 1e-8
        seen.clear()
    by_updates = gd.minimize(rosen, [0.5, 0.0], jac=rosen_der, constraints=[made(hess=None)], bounds=[(0, 1), (-0.5, 2)])
    assert by_updates.x.tolist() == pytest.approx(res.x.tolist(), abs=1e-5)
    with pytest.warns(gd.GradusWarning, match="hess of fun is not used: a nonlinear constraint has none"):
        gd.minimize(rosen, [0.5, 0.0], jac=rosen_der, hess=rosen_hess, constraints=[made(hess=None)])
    with pytest.warns(gd.GradusWarning, match="hess of a nonlinear constraint is not used without jac"):
        gd.minimize(rosen, [0.5, 0.0], constraints=[made(jac="2-point")])
    with pytest.raises(ValueError, match="hess of a constraint is a function"):
        gd.minimize(rosen, [0.5, 0.0], constraints={"type": "ineq", "fun": lambda x: x[0], "hess": 3})


@pytest.mark.parametrize("method", ["Powell", "COBYLA", "COBYQA"])
def test_methods_that_are_not_here_say_what_takes_their_place(method):
    with pytest.warns(gd.GradusWarning, match=f"no method {method}: nelder_mead is used"):
        res = gd.minimize(rosen, [1.3, 0.7], method=method)
    assert res.success and res.x.tolist() == pytest.approx([1, 1], abs=1e-5)


@pytest.mark.parametrize("arrays", [False, True])
def test_evaluations_are_counted_as_they_are(arrays):
    calls = []

    def fun(x):
        calls.append(1)
        x = np.asarray(x) if arrays else x
        return (100.0 * (x[1:] - x[:-1] ** 2.0) ** 2.0 + (1 - x[:-1]) ** 2.0).sum()
    for how in ({}, {"method": "Nelder-Mead"}, {"method": "Newton-CG"}, {"method": "trust-ncg"}, {"method": "CG"}):
        calls.clear()
        assert gd.minimize(fun, X0, **how).nfev == len(calls), how

    def residuals(x):
        calls.append(1)
        x = np.asarray(x) if arrays else x
        return x[1:] - x[:-1] ** 2
    for how in ({}, {"loss": "huber"}, {"loss": "arctan"}):
        calls.clear()
        assert gd.least_squares(residuals, X0, **how).nfev == len(calls), how
