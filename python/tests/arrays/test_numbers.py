"""Functions that read their arguments on the host: no gradient flows through that, and it is never silent."""
import math
import warnings

import numpy as np
import pytest

import gradus as gd


def counted(fn):
    def wrapper(*args):
        wrapper.calls += 1
        return fn(*args)
    wrapper.calls = 0
    return wrapper


def bowl(x):
    return (x[0] - 1) ** 2 + (x[1] - 2) ** 2


# each has its minimum at (1, -pi/2), where it is -1
READS = {"math.sin": lambda x: (x[0] - 1) ** 2 + math.sin(x[1]), "float": lambda x: (float(x[0]) - 1) ** 2 + math.sin(float(x[1])),
         "item": lambda x: (x[0] - 1) ** 2 + math.sin(x[1].item()), "tolist": lambda x: (x.tolist()[0] - 1) ** 2 + x[1].sin(),
         "__array__": lambda x: (x[0] - 1) ** 2 + float(np.sin(np.asarray(x))[1]),
         "a number": lambda x: (x.detach().tolist()[0] - 1) ** 2 + math.sin(x.detach().tolist()[1]),
         "an array": lambda x: np.array([(x.detach().tolist()[0] - 1) ** 2 + math.sin(x.detach().tolist()[1])])}


@pytest.mark.parametrize("name", READS)
def test_minimize_takes_differences_and_says_so(name):
    fun = counted(READS[name])
    r = gd.minimize(fun, [0.0, 0.3])
    assert r.x.tolist() == pytest.approx([1, -math.pi / 2], abs=1e-6) and r.fun == pytest.approx(-1, abs=1e-10) and r.success
    assert r.derivatives == "differences" and "derivatives by differences: the function re" in r.message
    assert r.nfev == fun.calls
    if name not in ("a number", "an array"):
        assert f"{__file__}, line " in r.message


@pytest.mark.parametrize("chain, derivatives", [
    ("newton(eigval_fn=\"abs\") | strong_wolfe", "differences"), ("trust_cg(lsr1)", "differences"), ("bfgs | backtracking", "differences"),
    ("newton_cg_steihaug", "differences"), ("cma_es(seed=1)", "values"), ("fdm | lbfgs | strong_wolfe", "differences")])
def test_any_chain_takes_a_function_of_numbers(chain, derivatives):
    r = gd.minimize(READS["math.sin"], [0.0, 0.3], chain)
    assert r.x.tolist() == pytest.approx([1, -math.pi / 2], abs=1e-4) and r.derivatives == derivatives


@pytest.mark.parametrize("chain, derivatives", [
    ("lbfgs | strong_wolfe", "operators"), ("nelder_mead", "values"), ("cma_es(seed=1)", "values"), ("fdm | lbfgs | strong_wolfe", "differences")])
def test_the_chain_decides_which_derivatives_of_operators_are_used(chain, derivatives):
    assert gd.minimize(lambda x: (x * x).sum(), [1.0, 2.0], chain).derivatives == derivatives


def test_a_chain_that_needs_residuals_says_why_there_are_none():
    with pytest.raises(gd.Error, match="residuals, the objective returned one number"):
        gd.minimize(READS["math.sin"], [0.0, 0.3], "gauss_newton")


def test_a_read_that_comes_late_begins_again():
    fun = counted(lambda x: (x[0] - 1) ** 2 + x[1] ** 2 + (math.exp(x[1]) if x.detach().tolist()[1] < 0.1 else x[1].exp()))
    r = gd.minimize(fun, [0.0, 0.3])
    assert r.x.tolist() == pytest.approx([1, -0.3517337], abs=1e-6) and r.derivatives == "differences" and r.nfev == fun.calls


@pytest.mark.parametrize("fun", [lambda x: bowl(x), lambda x: bowl(x) if x[0] > 0.5 else bowl(x) * 1, lambda x: bowl(x) + 0 * len(f"{x[0]:.2f} {x}"),
                                 lambda x: (lambda l: (float(l.detach()), l)[1])(bowl(x))], ids=["plain", "comparison", "print", "detach"])
def test_what_reads_no_value_keeps_its_operators(fun):
    r = gd.minimize(fun, [0.0, 0.0])
    assert r.derivatives == "operators" and "differences" not in r.message and r.x.tolist() == pytest.approx([1, 2])


def test_bounds_and_constraints_hold_for_functions_of_numbers():
    half = lambda x: (x[0] - 1) ** 2 + (float(x[1]) - 2) ** 2  # noqa: E731
    seen = []
    inside = lambda x: (seen.append(x.tolist()), half(x))[1]  # noqa: E731
    assert gd.minimize(inside, [0.0, 0.3], bounds=[(0, 0.5), (0, 1)]).x.tolist() == [0.5, 1]
    assert all(0 <= a <= 0.5 and 0 <= b <= 1 for a, b in seen)
    for r in (gd.minimize(half, [0.0, 0.3], below=lambda x: x[0] + x[1] - 1), gd.minimize(bowl, [0.0, 0.3], equal=lambda x: float(x[0]) + x[1] - 1),
              gd.minimize(half, [0.0, 0.3], equal=lambda x: float(x[0]) + float(x[1]) - 1)):
        assert r.x.tolist() == pytest.approx([0, 1], abs=1e-5) and r.success and r.derivatives == "differences"


def test_residuals_of_numbers_have_jacobians_of_differences():
    r = gd.minimize(lambda x: np.array([float(x[0]) - 1, 2 * float(x[1]) - 2, 3]), [0.0, 0.3], "levenberg_marquardt(gauss_newton)")
    assert r.x.tolist() == pytest.approx([1, 1], abs=1e-6) and r.fun == pytest.approx(9)


def test_curve_fit_alike():
    x = np.linspace(0, 4, 30)
    y = 2 * np.exp(-0.7 * x) + 0.3 + 0.01 * np.sin(7 * x)
    exact = gd.curve_fit(lambda x, a, b, c: a * (-b * x).exp() + c, x, y)
    for bounds in (None, ([0, 0, 0], [1.5, 3, 1])):
        exact = gd.curve_fit(lambda x, a, b, c: a * (-b * x).exp() + c, x, y, bounds=bounds)
        for f in (lambda x, a, b, c: a * (-float(b) * x).exp() + c, lambda x, a, b, c: float(a) * np.exp(-float(b) * np.asarray(x)) + float(c)):
            fun = counted(f)
            r = gd.curve_fit(fun, x, y, p0=[1, 1, 1], bounds=bounds)
            assert r.popt.tolist() == pytest.approx(exact.popt.tolist(), rel=1e-6) and r.success and r.derivatives == "differences"
            assert r.stderr.tolist() == pytest.approx(exact.stderr.tolist(), rel=1e-4, nan_ok=True) and "the function reads a value" in r.message
            assert r.nfev == fun.calls


@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
@pytest.mark.parametrize("chain", ["lbfgs | strong_wolfe", "newton"])
def test_one_element_is_the_loss_whatever_its_shape(shape, chain):
    r = gd.minimize(lambda x: ((x - [1.0, 2.0]) ** 2).sum().reshape(shape) - 5, [0.0, 0.0], chain)
    assert r.fun == pytest.approx(-5) and r.x.tolist() == pytest.approx([1, 2])


@pytest.mark.parametrize("wrong", [None, True, "text", 1j], ids=repr)
def test_what_is_no_loss_is_refused(wrong):
    with pytest.raises(TypeError, match="must return a Tensor made of its arguments, or a number"):
        gd.minimize(lambda x: wrong, [0.0, 0.3])


def test_what_the_function_raises_comes_out():
    with pytest.raises(ZeroDivisionError):
        gd.minimize(lambda x: 1 / 0 if float(x[0]) else 0.0, [1.0, 2.0])


# ---- steps ----

def test_a_step_warns_once_with_the_line_that_reads():
    p = gd.tensor([1.0, 2.0], requires_grad=True)
    opt = gd.Optimizer(p, "lr(0.1)")

    def closure():
        return p[0] ** 2 + math.sin(p[1])  # this line

    with pytest.warns(gd.GradusWarning, match="read on the host here") as seen:
        opt.step(closure)
    with open(__file__) as f:
        assert seen[0].filename == __file__ and "# this line" in f.read().splitlines()[seen[0].lineno - 1]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        opt.step(closure)
        gd.Optimizer(p, "fdm | lr(0.1)").step(closure)  # by values
        gd.Optimizer(p, "lr(0.1)").step(lambda: (gd.tensor([p[0], p[1]]) ** 2).sum() * float((p * p).sum().detach()))
        with pytest.raises(gd.GradusWarning, match="read on the host"):
            gd.Optimizer(p, "lr(0.1)").step(closure)


@pytest.mark.parametrize("read", [lambda p: float(p[0]), lambda p: p[0].item(), lambda p: int(p[0]), lambda p: bool(p[0]), lambda p: p.tolist(),
                                  lambda p: np.asarray(p), lambda p: np.asarray(p * 2), lambda p: p[0].tolist(), lambda p: math.floor(p[0])],
                         ids=["float", "item", "int", "bool", "tolist", "asarray", "asarray of a result", "tolist of one", "floor"])
def test_every_read_is_noticed(read):
    p = gd.tensor([1.0, 2.0], requires_grad=True)
    with pytest.warns(gd.GradusWarning, match="read on the host"):
        gd.Optimizer(p, "lr(0.1)").step(lambda: (read(p), (p * p).sum())[1])


@pytest.mark.parametrize("export", [lambda p: p.numpy(), lambda p: np.from_dlpack(p * 2), lambda p: memoryview(p)], ids=["numpy", "from_dlpack", "memoryview"])
def test_memory_of_what_has_a_gradient_is_not_given_away(export):
    p = gd.tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises((gd.StateError, TypeError)):
        gd.Optimizer(p, "lr(0.1)").step(lambda: (export(p), (p * p).sum())[1])
    assert p.tolist() == [1, 2]
