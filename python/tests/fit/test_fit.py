"""gradus.fit: a text or a function, fitted to a table in this process."""
import copy
import math
import os
import pickle
import shutil
import subprocess
import sys

import pytest

import gradus as gd

np = pytest.importorskip("numpy")

X = [0.0, 1.0, 2.0, 3.0, 4.0]
Y = [1.1, 2.9, 5.2, 6.8, 9.1]
LINE = {"x": X, "y": Y}
A, B, SA, SB = 1.04, 1.99, 0.14628738838327807, 0.05972157622389644  # linear regression
F_SLOPE, P_SLOPE = 50.54205607476629, 0.0057265261986234745  # F-test of y = b x inside y = a + b x
T_95, T_90 = 3.1824463052837078, 2.3533634348018233  # Student's, 3 degrees of freedom


def line(x, a, b):
    return a + b * x


def line_fit(**options):
    return gd.fit("a + b*x", LINE, params={"a": 1, "b": 1}, **options)


# Every way to another program fails and leaves a note.
SHIM = r"""
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
static int refuse(void)
{
    int fd = open(getenv("SHIM_NOTE"), O_CREAT | O_WRONLY, 0600);
    if (fd >= 0) close(fd);
    errno = EPERM;
    return -1;
}
int execve(const char *path, char *const *argv, char *const *env) { (void)path, (void)argv, (void)env; return refuse(); }
int execv(const char *path, char *const *argv) { (void)path, (void)argv; return refuse(); }
int execvp(const char *file, char *const *argv) { (void)file, (void)argv; return refuse(); }
int execvpe(const char *file, char *const *argv, char *const *env) { (void)file, (void)argv, (void)env; return refuse(); }
int posix_spawn(pid_t *pid, const char *path, const void *a, const void *b, char *const *argv, char *const *env)
{ (void)pid, (void)path, (void)a, (void)b, (void)argv, (void)env; (void)refuse(); return EPERM; }
int posix_spawnp(pid_t *pid, const char *path, const void *a, const void *b, char *const *argv, char *const *env)
{ (void)pid, (void)path, (void)a, (void)b, (void)argv, (void)env; (void)refuse(); return EPERM; }
"""

NO_PROCESS = """
import subprocess, gradus as gd
table = {"t": [0., 1, 2, 3, 4, 5], "y": [5.9, 4.0, 2.9, 2.1, 1.7, 1.4]}
by_text = gd.fit("a*exp(-b*t)+c", table, params={"a": 1, "b": 1, "c": 0}, intervals="bootstrap:200")
by_function = gd.fit(lambda t, a, b, c: a * gd.exp(-b * t) + c, table, params={"a": 1, "b": 1, "c": 0})
assert abs(by_text.params["a"] - by_function.params["a"]) < 1e-6
assert by_text.plot().svg.startswith(("<svg", "<?xml"))
print("fitted")
try:
    subprocess.run(["true"])
    print("the shim lets programs start")
except PermissionError:
    pass
"""


@pytest.mark.skipif(not shutil.which("cc") or sys.platform != "linux", reason="no compiler")
def test_a_fit_starts_no_process(tmp_path):
    (tmp_path / "shim.c").write_text(SHIM)
    built = subprocess.run(["cc", "-shared", "-fPIC", "-o", str(tmp_path / "shim.so"), str(tmp_path / "shim.c")], capture_output=True)
    if built.returncode:
        pytest.skip("the compiler makes no shared objects")
    program = NO_PROCESS.replace('print("fitted")', 'import os; print("noted" if os.path.exists(os.environ["SHIM_NOTE"]) else "fitted")')
    environment = {**os.environ, "LD_PRELOAD": str(tmp_path / "shim.so"), "SHIM_NOTE": str(tmp_path / "note")}
    if "asan" in os.environ.get("LD_PRELOAD", ""):
        pytest.skip("the sanitizer is preloaded")
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)
    assert run.returncode == 0, run.stderr
    assert run.stdout.split() == ["fitted"]


def test_estimates_are_those_of_linear_regression():
    fit = line_fit()
    assert fit.params == pytest.approx({"a": A, "b": B})
    assert fit.stderr == pytest.approx({"a": SA, "b": SB})
    assert fit.interval["a"] == pytest.approx([A - T_95 * SA, A + T_95 * SA])
    assert line_fit(level=0.9).interval["a"] == pytest.approx([A - T_90 * SA, A + T_90 * SA])
    assert fit.dof == 3 and fit.points == 5 and fit.success and fit.names == ["a", "b"]


@pytest.mark.parametrize("model", [line, lambda x, a, b: a + b * x, lambda b, a, x: a + b * x])
def test_a_function_gives_what_its_text_gives(model):
    want = line_fit()
    for params in ({"a": 1, "b": 1}, None):
        fit = gd.fit(model, LINE, params=params)
        assert fit.params == pytest.approx(want.params) and fit.stderr == pytest.approx(want.stderr)
    assert fit.plot().svg.startswith(("<svg", "<?xml"))
    assert fit.predict({"x": [1.0]}).tolist()[0] == pytest.approx(want.predict({"x": [1.0]}).tolist()[0])


def test_a_function_may_be_of_a_file_have_constants_and_tied_parameters(tmp_path):
    (tmp_path / "line.csv").write_text("x,y\n" + "".join(f"{x},{y}\n" for x, y in zip(X, Y)))
    path = tmp_path / "line.csv"
    assert gd.fit(line, path, params={"a": 1, "b": 1}).params == pytest.approx({"a": A, "b": B})
    fixed = gd.fit(lambda x, a, b, k: k * a + b * x, LINE, params={"a": 1, "b": 1}, fix={"k": 2})
    assert fixed.params["a"] == pytest.approx(A / 2)
    for model in (line, "a + b*x"):  # y = b (x + 1/2)
        tied = gd.fit(model, LINE, params={"b": 1}, tied={"a": "b/2"})
        assert tied.params == pytest.approx({"b": 2.003636363636364})
        assert tied.derived["a"]["stderr"] == pytest.approx(0.025755793164697928 / 2)


def test_what_a_function_does_wrong_comes_out():
    def broken(x, a, b):
        raise KeyError("no such thing")

    with pytest.raises(KeyError, match="no such thing"):
        gd.fit(broken, LINE)
    with pytest.raises(gd.Error, match="the model gives 3 numbers for 5 rows"):
        gd.fit(lambda x, a: a * x[:3], LINE)
    with pytest.raises(gd.ParseError, match="params= c: the model does not use it"):
        gd.fit(line, LINE, params={"a": 1, "c": 1})
    with pytest.raises(gd.ParseError, match="names all of its arguments"):
        gd.fit(lambda x, *rest: x, LINE)

    def interrupted(x, a, b):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        gd.fit(interrupted, LINE)
    assert gd.fit(line, LINE).success  # the context is as before


def test_predictions_have_the_bands_of_linear_regression():
    bands = line_fit().predict({"x": [5.0, 0.5]})
    assert bands.tolist()[0] == pytest.approx([10.99, 10.359639938869895, 11.620360061130102, 10.11903241162346, 11.860967588376537])


def test_tables_of_every_kind_give_the_same():
    pandas = pytest.importorskip("pandas")
    structured = np.array(list(zip(X, Y)), dtype=[("x", "f8"), ("y", "f8")])
    for table in (LINE, pandas.DataFrame(LINE), structured, {"x": gd.tensor(X), "y": np.array(Y)}, {**LINE, "who": list("abcde")}):
        assert gd.fit("a + b*x", table, params={"a": 1, "b": 1}).params == line_fit().params
    assert gd.fit("a + b*x", LINE, params=pandas.Series({"a": 1.0, "b": 1.0})).params == line_fit().params


def test_a_kept_fit_does_not_look_at_the_table_again():
    x, y = np.array(X), np.array(Y)
    fit = gd.fit("a + b*x", {"x": x, "y": y}, params={"a": 1, "b": 1})
    before = fit.plot().svg
    x[:], y[:] = 7, 7
    assert fit.plot().svg == before != fit.plot(dark=True).svg


def test_files_of_a_fit(tmp_path):
    fit = line_fit(out=tmp_path / "a.safetensors", residuals=str(tmp_path / "r.csv"), export=[str(tmp_path / "f.py"), str(tmp_path / "f.c")])
    names = {"a.safetensors", "r.csv", "f.py", "f.c"}
    assert {p.name for p in tmp_path.iterdir()} == names
    scope: dict = {}
    exec((tmp_path / "f.py").read_text(), scope)
    assert scope["f"](1.0) == pytest.approx(A + B)
    fit.save(tmp_path / "b.safetensors")
    assert gd.load(tmp_path / "b.safetensors")["a"].item() == pytest.approx(A)


def test_rows_of_a_fit_are_tensors():
    fit, x, y = line_fit(), np.array(X), np.array(Y)
    assert np.allclose(fit.fitted(), A + B * x) and np.allclose(fit.residuals(), y - A - B * x)
    assert np.allclose(fit.standardized(), fit.residuals().numpy() / fit.sigma)


def test_nested_fits_are_compared_by_the_f_test():
    small, large = gd.fit("b*x", LINE, params={"b": 1}), line_fit()
    found = small.compare(large)
    assert found.nested and found.why is None and found.f == pytest.approx(F_SLOPE)
    assert (found.aicc, found.other_aicc) == pytest.approx((small.aicc, large.aicc))
    assert found.evidence_ratio == pytest.approx(math.exp(abs(small.aicc - large.aicc) / 2))
    assert found.p == pytest.approx(P_SLOPE)
    with pytest.raises(ValueError, match="different data"):
        large.compare(gd.fit("b*x", {"x": X[:4], "y": Y[:4]}, params={"b": 1}))
    with pytest.raises(TypeError, match="compare: a Fit, not int"):
        large.compare(1)  # type: ignore[arg-type]


def test_a_copy_has_the_numbers_but_no_data():
    fit = line_fit()
    for same in (copy.deepcopy(fit), pickle.loads(pickle.dumps(fit))):
        assert same.params == fit.params and repr(same) == repr(fit)
        with pytest.raises(gd.StateError, match="not its data"):
            same.plot()


@pytest.mark.parametrize("options, says", [
    ({"bound": ["q>1"]}, "bound=: no parameter 'q'"), ({"sigma": "s", "weights": "w"}, "weights= and sigma= say the same"),
    ({"sgima": "s"}, "unknown option sgima=, did you mean sigma="), ({"missing": "dorp"}, "missing= is one of error, drop"),
    ({"threads": 2}, "threads= belongs to the context"), ({"absolute_sigma": True}, "absolute_sigma= says something of sigma="),
    ({"loss": "hubert"}, "loss=: 'hubert' is none of"), ({"level": 95}, "level=: 95 is not between 0 and 1"),
    ({"tied": {"c": "2*x"}}, "tied= c: 'x' is a column"), ({"steps": 0}, "steps=")])
def test_mistakes_are_said_in_keywords(options, says):
    with pytest.raises(gd.ParseError) as seen:
        line_fit(**options)
    assert says in str(seen.value) and "--" not in str(seen.value)


def test_options_of_the_program_are_keywords(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("x;y;s\n" + "".join(f"{x};{y};{1 + k % 2}\n".replace(".", ",") for k, (x, y) in enumerate(zip(X, Y))) + ";3;1\n")
    fit = gd.fit("y = a + b*x", path, params={"a": "1", "b": 1}, sigma="s", missing="drop", separator=";", decimal="comma", bound="b>0",
                 derive={"r": "a/b"}, loss="huber:1", intervals="bootstrap:100", seed=3)
    assert fit.loss == "huber" and fit.intervals == "bootstrap" and fit.points == 5 and math.isfinite(fit.derived["r"]["stderr"])
    guessed = gd.fit("a*exp(-b*t)", {"t": X, "y": [3 * math.exp(-0.4 * x) for x in X]}, params=["a", "b"], guess=True)
    assert guessed.params == pytest.approx({"a": 3, "b": 0.4})


def test_groups_have_the_numbers_of_their_own_fits():
    rng = np.random.default_rng(4)
    t = np.tile(np.linspace(0, 4, 20), 6)
    group = np.repeat(np.arange(6), 20)
    y = (2 + 0.2 * group) * np.exp(-(0.6 + 0.05 * group) * t) + 0.4 + 0.02 * rng.standard_normal(120)
    table = {"t": t, "y": y, "group": group, "site": ["north" if g % 2 else "south" for g in group]}
    start = {"a": 1, "b": 1, "c": 0}
    fits = gd.fit_many("a*exp(-b*t)+c", table, "group", params=start)
    by_function = gd.fit_many(lambda t, a, b, c: a * gd.exp(-b * t) + c, table, ["group"], params=start)
    assert fits["group"] == [0, 1, 2, 3, 4, 5] and fits["points"] == [20] * 6 and fits["converged"] == [1] * 6
    for g in range(6):
        rows = group == g
        one = gd.fit("a*exp(-b*t)+c", {"t": t[rows], "y": y[rows]}, params=start)
        for name in start:
            assert fits[name][g] == pytest.approx(one.params[name], rel=1e-12)
            assert fits[f"{name}_error"][g] == pytest.approx(one.stderr[name], rel=1e-11)
            assert by_function[name][g] == pytest.approx(one.params[name], rel=1e-12)
    by_word = gd.fit_many("a*exp(-b*t)+c", table, ["site"], params=start, errors="hc3")
    assert sorted(by_word["site"]) == ["north", "south"]
    with pytest.raises(gd.Error, match="no column 'grop'"):
        gd.fit_many("a*exp(-b*t)+c", table, "grop", params=start)
    with pytest.raises(gd.Error, match="out= is for one fit"):
        gd.fit_many("a*exp(-b*t)+c", table, "group", params=start, out="x.csv")


def test_groups_start_where_a_table_says():
    t = np.tile(np.arange(20) * 0.3, 3)
    who = np.repeat(["a", "b", "c"], 20)
    y = 2 * np.sin(np.repeat([1.0, 3.0, 5.0], 20) * t)
    table, start = {"t": t, "y": y, "who": who.tolist()}, {"a": 1, "w": 1.1}
    own = {"who": ["c", "b"], "w": [4.9, 2.9], "a_high": [float("nan"), 1.5]}
    for model in ("a*sin(w*t)", lambda t, a, w: a * gd.sin(w * t)):
        fits = gd.fit_many(model, table, "who", params=start, group_starts=own)
        assert fits["w"] == pytest.approx([1, 3, 5], abs=0.1) and fits["a"] == pytest.approx([2, 1.5, 2])
        again = gd.fit_many(model, table, "who", params=start, group_starts=fits)
        assert again["a"] == pytest.approx([2, 2, 2]) and again["w"] == pytest.approx([1, 3, 5])
        assert fits.plot(groups=["b"]).svg.count("<circle") >= 20
    with pytest.raises(gd.Error, match="group_starts=: no column is named like a parameter"):
        gd.fit_many("a*sin(w*t)", table, "who", params=start, group_starts={"who": ["c"], "v": [1]})
    with pytest.raises(gd.Error, match="group_starts=: for fits of groups"):
        gd.fit("a*sin(w*t)", table, params=start, group_starts=own)


def test_groups_are_drawn(tmp_path):
    table = {"t": [0, 1, 2, 3] * 3, "y": [1, 2, 3.1, 4, 3, 5, 7.1, 9, 0, 1, 0.1, 1], "site": ["north"] * 4 + ["south"] * 4 + ["west"] * 4,
             "well": [0] * 4 + [1.5] * 4 + [2] * 4}
    for model in ("a + b*t", lambda t, a, b: a + b * t):
        fits = gd.fit_many(model, table, ["site", "well"], params={"a": 1, "b": 1})
        svg = fits.plot(groups=[("south", 1.5), ("north", 0)]).svg
        assert ">south/1.5<" in svg and ">north/0<" in svg and "west" not in svg
        assert svg.count("<circle") == 2 * 4 + 2  # and the legend
        for ending, begins in (("svg", b"<svg"), ("png", b"\x89PNG"), ("pdf", b"%PDF")):
            assert fits.plot(tmp_path / f"f.{ending}", log="y", dark=True) is None
            assert (tmp_path / f"f.{ending}").read_bytes().startswith(begins)
        with pytest.raises(gd.Error, match="groups= no group|groups=: no group 'east', there are north/0"):
            fits.plot(groups=["east"])
    assert gd.fit_many("a + b*t", table, "well", params={"a": 1, "b": 1}).plot(groups=[0, 2.0]).svg.count("<circle") == 10
    with pytest.raises(ValueError, match="names no group"):
        fits.plot(groups=[])
    again = pickle.loads(pickle.dumps(fits))
    assert again == fits
    with pytest.raises(ValueError, match="does not know its table"):
        again.plot()


def test_errors_may_hold_for_unequal_variances():
    x, y = np.array(X), np.array(Y)
    fit = line_fit(errors="hc3")
    j = np.stack([np.ones(5), x], 1)
    c = np.linalg.inv(j.T @ j)
    r = (y - A - B * x) / (1 - np.einsum("ij,jk,ik->i", j, c, j))
    want = np.sqrt(np.diag(c @ j.T @ np.diag(r**2) @ j @ c))
    assert [fit.stderr["a"], fit.stderr["b"]] == pytest.approx(list(want), rel=1e-10)


@pytest.mark.parametrize("options, says", [
    ({"bound": ["q>1"]}, "bound=: no parameter 'q'"), ({"steps": 0}, "fit: steps=: "), ({"fix": {"q": 1}}, "fix= q: the model does not use it"),
    ({"x_errors": {"x": -1}}, "x_errors= x: -1 is not"), ({"loss": "sum"}, "fit: loss=: 'sum'"), ({"tied": {"q": "2*x"}}, "tied= q: 'x' is a column")])
def test_errors_name_keyword_arguments(options, says):
    with pytest.raises(gd.ParseError) as error:
        gd.fit("a + b*x", LINE, params={"a": 1, "b": 1}, **options)
    assert str(error.value).startswith(says)


def test_warnings_name_keyword_arguments():
    with pytest.warns(gd.GradusWarning, match="exclude= 'x>70': no row is like that"):
        gd.fit("a + b*x", LINE, params={"a": 1, "b": 1}, exclude="x>70")
    with pytest.warns(gd.GradusWarning, match="fit: dates= has no effect"):
        gd.fit("a + b*x", LINE, params={"a": 1, "b": 1}, dates="days")
