"""docs/python.md's table "Beside the classes you may know": every row runs, with numbers that its row's library gives for the same call."""
import copy
import math
import re

import numpy as np
import pytest

import gradus as gd
from doc_pages import ROOT
from gradus import nn

TEXT = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| (.+?) \| (.+?) \| (.+?) \|$", TEXT[TEXT.index("## Beside the classes"):].split("\n## ")[0], re.M)[1:]


def rosenbrock(x):
    return sum(100.0 * (x[1:] - x[:-1] ** 2.0) ** 2.0 + (1 - x[:-1]) ** 2.0)


def decay(t, a, b):
    return a * gd.exp(-b * t)


T = np.linspace(0, 4, 25)
Y = 5 * np.exp(-0.5 * T) + 0.01 * np.cos(9 * T)


def fitted():
    return gd.Model(decay).fit(Y, t=T, a=4, b=1)


def residual(p, t, y):
    return p["a"] * np.exp(-p["b"] * t) - y


def grad():
    value, slope = gd.value_and_grad(lambda x: x ** 3)(2.0)
    net = nn.Linear(2, 1, dtype="f64")
    by_name = gd.grad(lambda net, x: net(x).sum())(net, gd.ones((3, 2)))
    return value.item() == 8 and slope.item() == 12 and gd.grad(lambda x: x ** 3)(2.0).dtype == "f64" and by_name["bias"].tolist() == [3]


def products():
    out, back = gd.vjp(lambda a, b: a * b, 2.0, 3.0)
    value, along = gd.jvp(lambda x: x ** 2, (gd.tensor([1.0, 2.0]),), (gd.tensor([1.0, 1.0]),))
    return out.item() == 6 and [g.item() for g in back(1.0)] == [3, 2] and value.tolist() == [1, 4] and along.tolist() == [2, 4]


def jacobians():
    f, x = lambda x: gd.stack([x[0] * x[1], x[1] ** 2]), gd.tensor([2.0, 3.0])  # noqa: E731
    return gd.jacfwd(f)(x).tolist() == gd.jacrev(f)(x).tolist() == [[3, 2], [0, 6]] and gd.hessian(lambda x: x[0] * x[1])(x).tolist() == [[0, 1], [1, 0]]


def jit():
    f = gd.jit(lambda x, n: (x * n).sin())
    return all(f(gd.tensor([0.5]), 2.0).item() == math.sin(1) for _ in range(4)) and "replayed" in f.explain()


def scan():
    carry, ys = gd.scan(lambda c, x: (c + x, c * x), 0.0, gd.arange(1.0, 7.0))
    return carry.item() == 21 and ys.tolist() == [0, 2, 9, 24, 50, 90]


def own_gradients():
    f = gd.custom_vjp(lambda x: x)
    f.defvjp(lambda x: (x, None), lambda kept, g: (g * 7,))
    w = gd.tensor(2.0, requires_grad=True)
    gd.checkpoint(lambda x: (x * w).sin())(gd.tensor(1.0)).backward()
    return gd.grad(f)(1.0).item() == 7 and w.grad.item() == math.cos(2)


def trees():
    tree = {"a": gd.tensor(1.0), "b": (gd.tensor(2.0),)}
    return gd.tree_map(lambda t: t * 2, tree)["b"][0].item() == 4 and [t.item() for t in gd.tree_leaves(tree)] == [1, 2]


def minimize():
    r = gd.minimize(rosenbrock, [1.3, 0.7, 0.8, 1.9, 1.2], method="BFGS")
    return r.success and np.allclose(r.x, 1, atol=1e-5)


def least_squares():
    with pytest.warns(gd.GradusWarning, match="x_scale"):
        r = gd.least_squares(lambda x: gd.stack([10 * (x[1] - x[0] ** 2), 1 - x[0]]), [2.0, 2.0], x_scale=[1.0, 2.0])
    return np.allclose(r.x, 1) and r.cost < 1e-12


def curve_fit():
    found = gd.curve_fit(decay, T, Y, p0=(4, 1))
    popt, pcov = found
    return np.allclose(popt, (5.0, 0.5), atol=0.01) and pcov.shape == (2, 2) and found.r2 > 0.999 and len(found.stderr) == 2


def lmfit_model():
    r = fitted()
    sets = gd.Model("a*exp(-b*t)").fit_sets([Y, 2 * Y], t=T, shared="b", a=[4, 8], b=1)
    return isinstance(r, gd.ModelResult) and abs(r.best_values["b"] - 0.5) < 0.01 and sets.params["a_2"].value > 9.9 and r.predict(0.95, t=[1.0]) is not None


def parameters():
    p = gd.create_params(a=4, b={"value": 1, "min": 0}, half={"expr": "log(2)/b"})
    p.add(gd.Parameter("c", value=2.0, vary=False))
    return isinstance(p, gd.Parameters) and abs(p["half"].value - math.log(2)) < 1e-12 and not p["c"].vary


def minimizer():
    p = gd.create_params(a=4, b=1)
    r = gd.minimize(residual, p, args=(T, Y))
    other = gd.Minimizer(residual, p, fcn_args=(T, Y)).minimize()
    return isinstance(r, gd.MinimizerResult) and abs(r.params["b"].value - other.params["b"].value) < 1e-9


def built_in():
    model = gd.models.GaussianModel() + gd.models.ConstantModel()
    shape = gd.models.lineshapes.gaussian(np.array([0.0]), 1.0, 0.0, 1.0)
    return isinstance(model, gd.models.CompositeModel) and abs(float(np.asarray(shape)[0]) - 1 / math.sqrt(2 * math.pi)) < 1e-12


def confidence():
    p = gd.create_params(a=4, b=1)
    mini = gd.Minimizer(residual, p, fcn_args=(T, Y))
    r = mini.minimize()
    ci = gd.models.conf_interval(mini, r, sigmas=[1])
    return set(ci) == {"a", "b"} and "[[Fit Statistics]]" in gd.models.fit_report(r) and gd.models.report_ci(ci) is None


class Net(gd.Module):
    def __init__(self):
        super().__init__()
        self.w = gd.tensor([1.0, 2.0], requires_grad=True)


def modules():
    own = gd.tensor([1.0, 2.0], requires_grad=True)
    net = Net()
    net.w = own
    own.assign(own.detach() * 3)
    return [name for name, _ in net.named_parameters()] == ["w"] and net.w.tolist() == [1, 2] and net.train() is net and net.eval().training is False


def layers():
    net = nn.Sequential(nn.Conv2d(2, 4, (3, 1), stride=(1, 2), groups=2), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(16, 3))
    return net(gd.ones((5, 2, 4, 4), dtype="f32")).shape == (5, 3)


def functional():
    logits, classes = gd.tensor([[1.0, 2.0], [3.0, 1.0]]), gd.tensor([1, 0])
    w = nn.init.xavier_uniform_(gd.zeros((4, 4)))
    loss = nn.functional.cross_entropy(logits, classes).item()
    return abs(loss - (math.log1p(math.exp(-1)) + math.log1p(math.exp(-2))) / 2) < 1e-12 and loss == nn.CrossEntropyLoss()(logits, classes).item() and w.abs().max().item() <= math.sqrt(6 / 8)


class Containers(gd.Module):
    def __init__(self):
        super().__init__()
        self.items, self.by_name = [nn.Linear(2, 2)], {"a": nn.Linear(2, 1)}
        self.scales, self.named = gd.TensorList([gd.ones(2).require_grad()]), gd.TensorDict({"x": gd.ones(1).require_grad()})


def containers():
    net = Containers()
    return isinstance(net.items, gd.ModuleList) and isinstance(net.by_name, gd.ModuleDict) and len(nn.Sequential(nn.ReLU())) == 1 and len(net.parameters()) == 6


def lists_of_tensors():
    net = copy.deepcopy(Containers())
    return isinstance(net.scales, nn.ParameterList) and isinstance(net.named, nn.ParameterDict) and net.named["x"].tolist() == [1]


# by the first name of the row
RUNS = {
    "jax.grad": grad, "jax.vjp": products, "jax.jacfwd": jacobians,
    "jax.vmap": lambda: gd.vmap(lambda a, b: a @ b, in_axes=(0, None))(gd.eye(9)[:, :2], gd.tensor([3.0, 4.0])).tolist() == [3, 4] + [0] * 7,
    "jax.jit": jit, "jax.lax.scan": scan, "jax.lax.stop_gradient": lambda: gd.grad(lambda x: gd.stop_gradient({"x": x})["x"] * x)(3.0).item() == 3,
    "jax.custom_vjp": own_gradients, "jax.tree.map": trees, "scipy.optimize.minimize": minimize, "scipy.optimize.least_squares": least_squares,
    "scipy.optimize.curve_fit": curve_fit, "lmfit.Model": lmfit_model, "lmfit.Parameters": parameters, "lmfit.minimize": minimizer,
    "lmfit.models": built_in, "lmfit.conf_interval": confidence, "torch.nn.Module": modules,
    "torch.nn.Module.train": lambda: [nn.Dropout().train().training, nn.Dropout().eval().training] == [True, False],
    "torch.nn.Linear": layers, "torch.nn.functional": functional, "torch.nn.Sequential": containers, "torch.nn.ParameterList": lists_of_tensors,
}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: re.sub(r"[^\w.]+", "_", row[0])[:40])
def test_a_row_of_the_table_runs(row):
    assert RUNS[re.search(r"`([\w.]+)`", row[0])[1]]()


def test_every_row_has_its_run():
    assert [re.search(r"`([\w.]+)`", row[0])[1] for row in ROWS] == list(RUNS)
