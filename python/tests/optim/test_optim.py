"""Chains as text and as objects, optimizers over tensors and modules."""
import inspect
import json
import subprocess
import sys
import warnings

import pytest

import gradus as gd
from gradus import m


def parameter(*values):
    return gd.tensor(list(values), requires_grad=True)


# ---- chains ----

def test_links_join_to_the_text_of_the_library():
    chain = m.clip_norm(1) | m.adam(beta1=0.8) | m.lr(1e-3)
    assert str(chain) == "clip_norm(1) | adam(beta1=0.8) | lr(0.001)"
    assert chain == gd.Chain("clip_norm(1) | adam(beta1=0.8) | lr(1e-3)")
    assert str("adam" | m.lr(0.1)) == "adam | lr(0.1)" and str(m.adam() | "lr(0.1)") == "adam | lr(0.1)"
    assert "<code>adam(beta1=0.8)</code>" in chain._repr_html_()


def test_values_of_every_kind_are_written():
    assert str(m.adam(inner=m.clip_value(1), amsgrad=True)) == "adam(amsgrad=true, inner=clip_value(1))"
    assert str(m.multistep(m.adam() | m.lr(0.1), 3)) == str(gd.Chain("multistep([adam | lr(0.1)], 3)"))
    assert "cosine" in str(m.lr("cosine(0.1, 0.001, 1000)"))
    assert str(m.box(0, [1, 2])) == str(gd.Chain("box(0, [1, 2])"))
    assert str(m.online(m.adam(), m.lr(0.1) | m.clip_value(1))) == str(gd.Chain("online(adam, [lr(0.1) | clip_value(1)])"))
    assert str(m.adamw(lr=0.1)) == str(gd.Chain("adamw(lr=0.1)"))


@pytest.mark.parametrize("wrong, kind, says", [
    (lambda: m.adm, AttributeError, "did you mean 'adam'"), (lambda: m.adam(beta=1), TypeError, "no setting 'beta'"),
    (lambda: m.adam(2.0), gd.Error, "beta1"), (lambda: m.adam(0.9, beta1=0.8), TypeError, "twice"), (lambda: m.lr(object()), TypeError, "lr"),
    (lambda: gd.Chain("adam |"), gd.ParseError, "column"), (lambda: gd.Chain("adm"), gd.ParseError, "did you mean 'adam'"),
    (lambda: m.lr(1, 2, 3), TypeError, "settings")])
def test_mistakes_are_told(wrong, kind, says):
    with pytest.raises(kind, match=says):
        wrong()


@pytest.mark.parametrize("name", gd.link_names())
def test_every_link_is_there_with_signature_and_documentation(name):
    fn, table = getattr(m, name), gd.link_table(name)
    assert name in dir(m) and fn.__doc__ and table["summary"] in fn.__doc__
    for part in (table["formula"] or "").split(";"):
        assert part.strip() in fn.__doc__
    for f in table["fields"]:
        line = fn.__doc__.split(f"\n{f[0]}: ", 1)[1].split("\n", 1)[0]
        assert f[9] in line and ("must be given" if f[2] else "any number" if f[8] else f"default {f[3]!r}") in line
    parameters = inspect.signature(fn).parameters
    assert list(parameters) == [f[0] for f in table["fields"]]
    if not any(f[2] for f in table["fields"]) and not any(f[8] for f in table["fields"]):
        assert isinstance(fn(), gd.Chain)
    if table["example"]:
        assert gd.Chain(table["example"])


# ---- steps ----

def test_gradients_of_backward_or_of_a_closure_give_the_same():
    a, b = parameter(1.0, -2.0), parameter(1.0, -2.0)
    one, two = gd.Optimizer([a], "adam | lr(0.1)"), gd.Optimizer([b], "adam | lr(0.1)")
    for _ in range(5):
        one.zero_grad()
        loss = (a**2).sum()
        loss.backward()
        assert one.step() is None
        assert two.step(lambda: (b**2).sum()) == loss.item()
    assert a.tolist() == b.tolist() and one.steps == 5 and two.info["step"] == 5


def test_numbers_are_those_of_the_program(tmp_path):
    x = parameter(-1.1, 2.5)
    optimizer = gd.Optimizer(x, "clip_norm(1) | adam | lr(0.05)")
    losses = [optimizer.step(lambda: (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2) for _ in range(20)]
    trace = tmp_path / "run.jsonl"
    subprocess.run([sys.executable, "-m", "gradus", "minimize", "(1-p[0])^2 + 100*(p[1]-p[0]^2)^2", "--param", "p=[-1.1,2.5]", "--chain",
                    "clip_norm(1) | adam | lr(0.05)", "--steps", "20", "--trace", str(trace)], check=True, capture_output=True)
    rows = [row for row in map(json.loads, trace.read_text().splitlines()) if row["step"]]
    assert losses == pytest.approx([row["loss"] for row in rows], rel=1e-12)
    assert x.tolist() == pytest.approx(rows[-1]["params"]["p"], rel=1e-12)


def test_groups_have_settings_of_their_own():
    a, b = parameter(1.0), parameter(1.0)
    optimizer = gd.Optimizer([{"params": [a]}, {"params": {"b": b}, "lr": 0.5}], "lr(0.1)")
    optimizer.step(lambda: a.sum() + b.sum())
    assert (a.item(), b.item()) == (pytest.approx(0.9), pytest.approx(0.5)) and optimizer.groups == 2
    optimizer.set("lr", 0.2)
    optimizer.step(lambda: a.sum() + b.sum())
    assert a.item() == pytest.approx(0.7)
    optimizer.set("lr", "linear(1, 0, 4)")
    with pytest.raises(gd.Error, match="momentun"):
        optimizer.set("momentun", 1.0)

    class Net(gd.Module):
        pass
    net = Net()
    net.w, net.bias = parameter(1.0), parameter(1.0)
    optimizer = gd.Optimizer(net, "lr(0.1)").group("bias", lr=0.0)
    optimizer.step(lambda: net.w.sum() + net.bias.sum())
    assert (net.w.item(), net.bias.item()) == (pytest.approx(0.9), 1.0)


@pytest.mark.parametrize("params, kind", [([], ValueError), ([1.0], TypeError), ([gd.tensor([1])], gd.Error), ([{"lr": 1}], KeyError)])
def test_what_is_no_parameter_is_refused(params, kind):
    with pytest.raises(kind):
        gd.Optimizer(params, "lr(0.1)").step()


def test_state_goes_to_disk_and_on(tmp_path):
    def run(steps, path=None, resume=None):
        x = parameter(1.0, 2.0) if resume is None else gd.tensor(resume, requires_grad=True)
        optimizer = gd.Optimizer({"x": x}, "adam | lr(0.1)")
        if resume is not None:
            optimizer.load(path)
        for _ in range(steps):
            optimizer.step(lambda: (x**4).sum())
        if path and resume is None:
            optimizer.save(path)
        return x.tolist()
    half = run(5, tmp_path / "state")
    assert run(5, tmp_path / "state", half) == run(10)


def test_warnings_and_lines_of_links_are_python_s(capsys):
    x = gd.tensor([1.0])
    with pytest.warns(gd.GradusWarning):
        gd.Optimizer([x], "lr(0.1)").step(lambda: (x**2).sum())
    y = parameter(1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(gd.GradusWarning):
            gd.Optimizer([x], "lr(0.1)").step(lambda: (x**2).sum())
    gd.Optimizer([y], "print_loss | lr(0.1)" if "print_loss" in gd.link_names() else "lr(0.1)").step(lambda: (y**2).sum())


def test_explain_and_repr():
    x = parameter(1.0)
    optimizer = gd.Optimizer([x], "clip_norm(1) | adam | lr(0.1)")
    assert "pass" in optimizer.explain() and "clip_norm(1) | adam | lr(0.1)" in repr(optimizer)
    assert list(optimizer.parameters) == ["p0"] and optimizer.evaluations == 0 and not optimizer.should_terminate


def test_what_links_leave_for_the_user_is_read():
    x = parameter(1.0)
    optimizer = gd.Optimizer([x], "save_best | lr(0.1)")
    assert optimizer.attr("best_loss") is None
    optimizer.step(lambda: (x**2).sum())
    assert optimizer.attr("best_loss") == 1.0
    assert {n: t.tolist() for n, t in optimizer.attr("best_params").items()} == {"p0": [1]} and x.item() == pytest.approx(0.8)
    assert optimizer.attr("nothing") is None


def test_what_was_best_is_known_after_loading(tmp_path):
    x = parameter(0.0)
    one, other = (gd.Optimizer({"x": x}, "save_best | lr(-1)") for _ in range(2))
    with pytest.warns(gd.GradusWarning, match="the learning rate of parameter 'x' is below 0"):
        for _ in range(3):
            one.step(lambda: ((x - 0.25) ** 2).sum())
    one.save(tmp_path / "state")
    other.load(tmp_path / "state")
    with pytest.warns(gd.GradusWarning, match="below 0"):
        other.step(lambda: ((x - 0.25) ** 2).sum())
    assert other.attr("best_loss") == 0.0625 and other.attr("best_params")["x"].tolist() == [0]


def test_state_meets_its_parameter_by_label(tmp_path):
    def one_step(values, slopes, labels, load=False):
        p = gd.tensor(values, axes="f", labels={"f": labels}, requires_grad=True)
        optimizer = gd.Optimizer({"p": p}, "adam(eps=0) | lr(0.1)")
        if load:
            optimizer.load(tmp_path / "state")
        optimizer.step(lambda: (p * gd.tensor(slopes)).sum())
        optimizer.save(tmp_path / "state")
        return p.tolist()

    assert one_step([2.0, 1.0], [1.0, 9.0], ["a", "b"]) == pytest.approx([1.9, 0.9])
    # constant gradients: each step is lr, unless the moments are those of the other element
    assert one_step([0.9, 1.9], [9.0, 1.0], ["b", "a"], load=True) == pytest.approx([0.8, 1.8])
    with pytest.raises(gd.Error, match="other labels here than in the file"):
        one_step([0.9, 1.9], [9.0, 1.0], ["b", "c"], load=True)


@pytest.mark.parametrize("chain", ["adam(eps=0) | lr(0.1)", "heavy_ball(0.9) | lr(0.1)", "adagrad | lr(0.1)", "clip_norm(1) | adamw(lr=0.1)"])
def test_state_of_a_square_parameter_follows_its_axes(chain, tmp_path):
    slopes = gd.tensor([[1.0, 9.0], [4.0, -2.0]], axes="row, column")

    def steps(p, count, load=False):
        optimizer = gd.Optimizer({"p": p}, chain)
        if load:
            optimizer.load(tmp_path / "state")
        for _ in range(count):
            optimizer.step(lambda: (p * p * slopes).sum())
        optimizer.save(tmp_path / "state")
        return p

    def square(values, axes):
        return gd.tensor(values, axes=axes, requires_grad=True)

    whole = steps(square([[2.0, 1.0], [-1.0, 3.0]], "row, column"), 6)
    half = steps(square([[2.0, 1.0], [-1.0, 3.0]], "row, column"), 3)
    turned = steps(square(half.T.tolist(), "column, row"), 3, load=True)
    assert turned.T.reshape(-1).tolist() == pytest.approx(whole.reshape(-1).tolist(), rel=1e-14)
    with pytest.raises(gd.Error, match="p"):
        steps(square([[2.0, 1.0], [-1.0, 3.0]], "row, other"), 1, load=True)


class Tensor:  # of somebody else
    pass


Tensor.__module__ = "torch"


@pytest.mark.parametrize("wrong", [
    lambda: gd.Optimizer([Tensor()], "lr(1)"), lambda: gd.Optimizer({"a": Tensor()}, "lr(1)"), lambda: gd.Optimizer([("a", Tensor())], "lr(1)"),
    lambda: gd.Optimizer([parameter(1.0)], "lr(1)").add("a", Tensor()),
    lambda: gd.Optimizer([parameter(1.0)], "lr(1)").add_group(("a",), (Tensor(),)), lambda: gd.Module().load_state_dict({"a": Tensor()})])
def test_tensors_of_others_are_named(wrong):
    with pytest.raises(TypeError, match="gradus.Tensor.*a torch.Tensor was given"):
        wrong()


@pytest.mark.parametrize("wrong", [lambda: gd.zeros((2,), 3), lambda: gd.tensor([1.0], 3)])
def test_a_number_for_a_dtype_is_told(wrong):
    with pytest.raises(gd.DtypeError, match=r"not the number 3; sizes are given together, as \(2, 3\)"):
        wrong()


def test_sizes_may_stand_alone():
    assert gd.zeros(2, 3).shape == gd.randn(2, 3).shape == gd.ones(2, 3, gd.f32).shape == (2, 3)
    assert gd.ones(2, 3, "f32").dtype == "f32" and gd.zeros(4).shape == (4,)


def test_messages_have_the_names_of_python():
    x = parameter(1.0)
    optimizer = gd.Optimizer([x], "adam | lr(0.1) | ema(0.5)" if "ema" in gd.link_names() else "adam | lr(0.1)")
    optimizer.step(lambda: (x**2).sum())
    optimizer.evaluate(True)
    try:
        optimizer.step(lambda: (x**2).sum())
    except gd.StateError as e:
        assert "until optimizer.evaluate has put" in str(e) and "gd_" not in str(e) and "optimizer_" not in str(e)
    with pytest.raises(TypeError, match="'lr' is a number or the text of a schedule, not None"):
        optimizer.set("lr", None)


def test_a_loss_that_would_not_be_used_is_told():
    p = gd.tensor([1.0, 2.0]).require_grad()
    optimizer = gd.Optimizer([p], "adam | lr(0.1)")
    with pytest.raises(TypeError, match="a closure gives the loss"):
        optimizer.step(lambda: (p**2).sum(), loss=3.0)
    with pytest.raises(ValueError, match="the loss is one number, not a tensor of 3"):
        optimizer.step(loss=gd.ones(3))
    assert optimizer.steps == 0 and p.tolist() == [1, 2]


@pytest.mark.parametrize("chain", ["adam | lr(0.1)", 'split("*", sign, adam) | lr(0.1)'])
def test_a_keyword_that_no_link_reads_is_refused(chain):
    p = gd.tensor([1.0, 2.0]).require_grad()
    optimizer = gd.Optimizer([p], chain)
    with pytest.raises(TypeError, match="unexpected keyword argument 'nonsense'"):
        optimizer.step(lambda: (p**2).sum(), nonsense=1.0)
    assert optimizer.steps == 0 and p.tolist() == [1, 2]


def test_a_closure_that_takes_backward_and_leaves_no_gradients_is_told():
    p = gd.tensor([1.0, 2.0]).require_grad()
    for chain in ("lbfgs | strong_wolfe", "adam | lr(0.1)"):
        with pytest.raises(gd.StateError, match="the closure left no gradients"):
            gd.Optimizer([p], chain).step(lambda backward=True: (p**2).sum())
    assert p.tolist() == [1, 2]


# ---- parameters of modules that are changed or replaced ----

class Weighted(gd.Module):
    def __init__(self):
        super().__init__()
        self.w = gd.tensor([4.0, -4.0], requires_grad=True)


def test_parameters_changed_in_place_stay_in_the_optimizer(recwarn):
    net = Weighted()
    optimizer, w = gd.Optimizer(net, "lr(0.25)"), net.w
    with gd.no_grad():
        net.w *= 0.5
        net.w[0] += 1
    net.w = net.w  # the tensor it has already
    assert net.w.tolist() == [3.0, -2.0] and net.w.requires_grad
    optimizer.step(lambda: net.w.square().sum())
    assert net.w.tolist() == [1.5, -1.0] == w.tolist()
    assert not recwarn.list


@pytest.mark.parametrize("replace", [lambda net: setattr(net, "w", net.w.clamp(-1, 1)), lambda net: delattr(net, "w")])
def test_an_optimizer_says_that_a_module_has_replaced_its_parameter(replace):
    net, other = Weighted(), gd.ones(1).require_grad()
    whole, single = gd.Optimizer(net, "lr(0.25)"), gd.Optimizer({"w": net.w, "other": other}, "lr(0.25)")
    with gd.no_grad():
        replace(net)
    for optimizer in (whole, single):
        with pytest.warns(gd.GradusWarning, match="'w' has replaced or deleted it.* optimizer.rebind "):
            optimizer.step(lambda: other.sum() + optimizer.parameters["w"].sum())
        with warnings.catch_warnings():  # once
            warnings.simplefilter("error")
            optimizer.step(lambda: other.sum() + optimizer.parameters["w"].sum())


# ---- steps that can lead nowhere ----

@pytest.mark.parametrize("chain", ["lr(0.1)", "adam | lr(0.1)", "lbfgs | strong_wolfe", "newton"])
@pytest.mark.parametrize("loss", [lambda other: gd.tensor(3.0), lambda other: (other * other).sum()], ids=["a number", "of another tensor"])
def test_a_loss_that_depends_on_no_parameter_is_refused(chain, loss):
    p, other = parameter(1.0, 2.0), parameter(3.0)
    opt = gd.Optimizer(p, chain)
    with pytest.raises(gd.GraphError, match="step: the loss does not depend on any parameter"):
        opt.step(lambda: loss(other))
    assert p.tolist() == [1, 2] and opt.steps == 0


@pytest.mark.parametrize("nothing", [[], {}, (), [{"params": []}]], ids=repr)
def test_an_optimizer_without_parameters_is_refused(nothing):
    with pytest.raises(ValueError, match="no parameters were given"):
        gd.Optimizer(nothing, "lr(0.1)")


@pytest.mark.parametrize("step, says", [
    (lambda: gd.Optimizer(gd.tensor([1.0]), "lr(0.1)").step(lambda: gd.tensor(1.0)), "none of its parameters wants gradients"),
    (lambda: gd.Optimizer(parameter(1.0), "lr(0.1)").step(), "none of its parameters has a gradient"),
    (lambda: (lambda p: gd.Optimizer(p, "adam | lr(-0.1)").step(lambda: (p * p).sum()))(parameter(1.0)), "below 0: steps go uphill"),
    (lambda: (lambda p: gd.Optimizer([{"params": [p], "lr": -0.1}], "lr(1)").step(lambda: (p * p).sum()))(parameter(1.0)), "below 0"),
], ids=["frozen", "no gradient", "negative lr", "negative lr of a group"])
def test_a_step_that_is_hardly_meant_warns_with_the_line_of_the_user(step, says):
    with pytest.warns(gd.GradusWarning, match=says) as seen:
        step()
    assert seen[0].filename == __file__


def test_a_closure_that_returns_a_vector_is_told_of_residuals():
    p = parameter(1.0, 2.0)
    opt = gd.Optimizer(p, "lr(0.1)")
    with pytest.raises(ValueError, match=r"shape \(2,\), a loss is one number.*step\(residuals=closure\)"):
        opt.step(lambda: p * p)
    assert p.tolist() == [1, 2] and opt.steps == 0
    assert opt.step(residuals=lambda: p * p) == pytest.approx(17) and p.tolist() == pytest.approx([0.6, -1.2])


def test_residuals_may_be_of_any_number():
    for n in (1, 2, 3):
        p = parameter(*[3.0] * n)
        opt = gd.Optimizer(p, "levenberg_marquardt(gauss_newton)")
        assert opt.step(residuals=lambda: p - 1) == pytest.approx(4 * n)
        for _ in range(5):
            opt.step(residuals=lambda: p - 1)
        assert p.tolist() == pytest.approx([1] * n, abs=1e-3)
    q = parameter(3.0, 4.0)
    opt = gd.Optimizer(q, "lr(0.5)")
    assert opt.step(residuals=lambda: (q * q).sum().sqrt()) == pytest.approx(25)  # one residual of no axes
    assert q.tolist() == pytest.approx([0, 0])


@pytest.mark.parametrize("arguments, says", [
    (dict(residuals=3), "residuals must be callable"), (dict(residuals=lambda: 3.0), "residuals are a Tensor"),
    (dict(residuals=lambda: None, closure=lambda: None), "give one of them"), (dict(residuals=lambda: None, loss=1.0), "give one of them")])
def test_wrong_residuals_are_refused(arguments, says):
    with pytest.raises(TypeError, match=says):
        gd.Optimizer(parameter(1.0), "lr(0.1)").step(**arguments)
