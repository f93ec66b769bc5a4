"""Closures of gradus.torch: each is called as often, and when, as the links ask; steps are those of gradus.Optimizer, bit for bit."""
import math
import warnings

import pytest

torch = pytest.importorskip("torch")
if not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"):
    pytest.skip("gradus.torch needs a later PyTorch", allow_module_level=True)

import gradus as gd
import gradus.torch as gt

# of gradients alone, or with products of the Hessian: the argument that says so is the closure's
PRODUCTS = ["newton", "newton | backtracking", "newton_cg", "newton_cg | strong_wolfe", "newton_cg_steihaug",
            "trust_cg(newton)", "levenberg_marquardt(newton)", "subspace_newton(5)", "nystrom_pcg(10)", "two_point_newton", "inm",
            "inverse_free_newton | lr(1)", "random_hvp | lr(0.01)", "adahessian | lr(0.1)", "sophia_h | lr(0.1)", "esgd | lr(0.1)",
            "matrix_momentum(0.01)", "psgd_kron_newton | lr(0.1)", "sixth_order_3p", "clip_norm(1) | newton"]
ONCE_A_STEP = {c for c in PRODUCTS if "|" not in c or c.split(" | ")[1][:2] in ("lr", "ne")} - {
    "newton_cg_steihaug", "trust_cg(newton)", "levenberg_marquardt(newton)", "two_point_newton", "sixth_order_3p"}


@pytest.mark.parametrize("chain", PRODUCTS)
def test_gradient_and_products_are_of_one_evaluation(chain):
    """The loss is different in each call: every call is counted, BatchNorm sees one batch per call, and Newton is right at once."""
    torch.manual_seed(0)
    p, calls, steps = torch.nn.Parameter(torch.tensor([1.0, 2.0, 4.0], dtype=torch.double)), [], 20
    norm, optimizer = torch.nn.BatchNorm1d(3).double(), gt.Optimizer([p], chain)

    def closure(backward=True):
        calls.append(backward)
        norm(torch.randn(4, 3, dtype=torch.double))
        loss = ((0.5 + 4 * torch.rand(3, dtype=torch.double)) * (p - 3) ** 2).sum()
        if backward:
            optimizer.zero_grad()
            loss.backward()
        return loss

    optimizer.step(closure)
    if chain == "newton":
        assert p.tolist() == [3, 3, 3]
    for _ in range(steps - 1):
        optimizer.step(closure)
    assert optimizer.evaluations == len(calls) == norm.num_batches_tracked
    if chain in ONCE_A_STEP:
        assert len(calls) == steps


def test_a_search_there_and_back_leaves_the_graph_of_products_good():
    """Trials raise the versions of parameters, and products after them are of what autograd kept before."""
    p = torch.nn.Parameter(torch.tensor([1.5, -2.0], dtype=torch.double))
    graph = gt.Evaluations(lambda backward: (p**4).sum(), [p], True, lambda v, p: v, False)
    graph.kept()
    with torch.no_grad():
        p.add_(1)
    v = torch.ones(2, dtype=torch.double)
    with pytest.raises(RuntimeError, match="elsewhere"):
        graph.products([v])
    with torch.no_grad():
        p.sub_(1)
    version = p._version
    assert graph.products([v])[0].tolist() == [12 * 1.5**2, 48.0] and p._version == version


def f(x, y, w):
    """Two elements and one: sums of two terms have one order."""
    d = x - w
    return (d * d).sum() + (y * y).sum() + ((x * x) * y).sum()


X, Y, W = [1.5, -2.0], [0.75], [1.0, 2.0]


def native(chain, steps):
    gd.seed(3)
    x, y, w = (gd.tensor(v, dtype="f64", requires_grad=v is not W) for v in (X, Y, W))
    optimizer, calls = gd.Optimizer([x, y], chain), []
    for _ in range(steps):
        optimizer.step(lambda: calls.append(1) or f(x, y, w))
    return x.tolist() + y.tolist(), len(calls), optimizer.evaluations


def torched(chain, steps, convention):
    gd.seed(3)
    x, y = (torch.nn.Parameter(torch.tensor(v, dtype=torch.double)) for v in (X, Y))
    w, optimizer, calls = torch.tensor(W, dtype=torch.double), gt.Optimizer([x, y], chain), []

    def closure(backward=True):
        calls.append(1)
        loss = f(x, y, w)
        if backward:
            optimizer.zero_grad()
            loss.backward()
        return loss

    for _ in range(steps):
        optimizer.step(closure if convention == "backward" else lambda: closure())
    return optimizer.chain, (x.tolist() + y.tolist(), len(calls), optimizer.evaluations)


def same(a, b):
    return a[1:] == b[1:] and all(u == v or math.isnan(u) and math.isnan(v) for u, v in zip(a[0], b[0]))


CHAINS = [row["example"] for name in gd.link_names() if (row := gd.link_table(name)) and row["example"] and not name.startswith("print")]
# behind "params_difference" nobody asks for a gradient: gradus evaluates nothing then, torch's convention is to call a closure once
TARGETS = [f'clip_norm(0.5, target="{target}") | lr(0.1)' for target in ("update", "grad", "closure", "params_direct", "update_difference")]
FIRST = ["direct_weight_decay(0.1) | lr(0.1)", "lr(0.1) | direct_weight_decay(0.1)", "loss_scale | heavy_ball | lr(0.1)",
         "random_reinitialize(1, 0.5, seed=1) | lr(0.1)", "box(-1, 1) | adam | lr(0.1)", "heavy_ball | grad_to_none | grad | lr(0.1)",
         "mul([direct_weight_decay(0.1) | ones]) | lr(0.1)"]
# by derivatives of all orders natively, by differences of gradients where the objective has no graph
OTHERWISE = {"higher_order_newton(3)"}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("convention", ["backward", "plain"])
def test_every_link_with_a_closure_steps_as_gradus_does(convention):
    compared, near = 0, []
    usual = gd._core.current_context()
    gd.Context(threads=1).use()  # a second thread for three numbers only waits
    for chain in CHAINS + PRODUCTS + TARGETS + FIRST:
        # without a graph products are differences, and nlp's second derivatives a model
        if chain in OTHERWISE or (convention == "plain" and any(name in chain for name in ("steihaug", "nlp"))):
            continue
        try:
            whole, ours = torched(chain, 4, convention)
        except gd.Error:
            with pytest.raises(gd.Error):  # residuals and constraints
                native(chain, 4)
            continue
        theirs = native(whole, 4)
        if convention == "plain" and ours[2] > theirs[2]:  # products are differences of gradients; several steps may diverge
            one, other = torched(chain, 1, convention)[1][0], native(whole, 1)[0]
            assert all(math.isclose(a, b, rel_tol=1e-4, abs_tol=1e-5) for a, b in zip(one, other)), (chain, one, other)
            near.append(chain)
            continue
        assert same(ours, theirs), (chain, ours, theirs)
        compared += 1
    usual.use()
    assert compared > 250 and len(near) < 50, (compared, len(near))


def test_what_acts_before_the_evaluation_does_so_here():
    p = torch.nn.Parameter(torch.tensor([1.0, 2.0], dtype=torch.double))
    optimizer = gt.Optimizer([p], "direct_weight_decay(0.1) | lr(0.1)")

    def closure():
        optimizer.zero_grad()
        loss = (p**2).sum()
        loss.backward()
        return loss

    assert optimizer.step(closure) == 0.81 + 4 * 0.81
    optimizer.step(closure)
    assert p.tolist() == pytest.approx([0.5184, 1.0368], rel=1e-15)


def test_a_target_that_needs_a_closure_says_so_without_one():
    p = torch.nn.Parameter(torch.ones(2))
    p.grad = torch.ones(2)
    with pytest.raises(gd.StateError, match='target "closure" needs a step with an objective'):
        gt.Optimizer([p], 'clip_norm(1, target="closure") | lr(0.1)').step()


# ---- the loss alone ----

def test_the_loss_alone_is_evaluated_without_autograd():
    p, modes = torch.nn.Parameter(torch.tensor([-1.2, 1.0], dtype=torch.double)), []
    optimizer = gt.Optimizer([p], "lbfgs | backtracking")

    def closure(backward=True):
        modes.append((backward, torch.is_grad_enabled()))
        loss = (1 - p[0]) ** 2 + 100 * (p[1] - p[0] ** 2) ** 2
        if backward:
            optimizer.zero_grad()
            loss.backward()
        return loss

    for _ in range(5):
        optimizer.step(closure)
    assert set(modes) == {(True, True), (False, False)}


@pytest.mark.parametrize("convention", ["plain", "backward", "residuals"])
def test_closures_that_differentiate_get_autograd(convention):
    """One that calls backward() whatever it is asked, a loss with a slope in it, and residuals with one."""
    p = torch.nn.Parameter(torch.tensor([0.3, 0.2], dtype=torch.double))
    t, modes = torch.linspace(0, 1, 5, dtype=torch.double), []
    optimizer = gt.Optimizer([p], "lbfgs | backtracking")

    def misfit():  # of u' = -u, u(0) = 1, where u = 1 + p0 t + p1 t^2
        modes.append(torch.is_grad_enabled())
        x = t.clone().requires_grad_()
        u = 1 + p[0] * x + p[1] * x**2
        return torch.autograd.grad(u.sum(), x, create_graph=True)[0] + u

    def plain():
        optimizer.zero_grad()
        loss = (misfit() ** 2).sum()
        loss.backward()
        return loss

    def wide(backward=True):
        loss = (misfit() ** 2).sum()
        if backward:
            optimizer.zero_grad()
            loss.backward()
        return loss

    for _ in range(20):
        if convention == "residuals":
            optimizer.step(residuals=misfit)
        else:
            optimizer.step(plain if convention == "plain" else wide)
    assert (misfit() ** 2).sum() < 0.02
    assert modes.count(False) == (0 if convention == "plain" else 1)  # found out once


def test_what_a_closure_raises_without_autograd_is_its_own():
    p, calls = torch.nn.Parameter(torch.ones(2)), []

    def closure(backward=True):
        calls.append(backward)
        if not backward:
            raise RuntimeError("mine")
        loss = (p**2).sum()
        loss.backward()
        return loss

    with pytest.raises(RuntimeError, match="mine"):
        gt.Optimizer([p], "lbfgs | backtracking").step(closure)
    assert calls.count(False) == 1 and p.tolist() == [1, 1]


def test_a_closure_that_leaves_no_gradients_is_warned_about_once():
    p = torch.nn.Parameter(torch.tensor([1.0, 2.0]))
    opt = gt.Optimizer([p], "adam | lr(0.1)")
    with pytest.warns(UserWarning, match="the closure left no gradients on the parameters") as seen:
        opt.step(lambda: (p * p).sum())
    assert seen[0].filename == __file__ and p.tolist() == [1, 2]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        opt.step(lambda: (p * p).sum())


@pytest.mark.parametrize("chain", ["adam | lr(0.1)", "lbfgs | strong_wolfe"])
def test_a_closure_that_returns_a_vector_is_refused(chain):
    p = torch.nn.Parameter(torch.tensor([1.0, 2.0]))

    def closure():
        p.grad = None
        loss = p * p
        loss.sum().backward()
        return loss

    with pytest.raises(ValueError, match=r"one number, not a tensor of the shape \(2,\)"):
        gt.Optimizer([p], chain).step(closure)
    assert p.tolist() == [1, 2]


def test_a_learning_rate_below_0_is_warned_about():
    p = torch.nn.Parameter(torch.tensor([1.0, 2.0]))
    opt = gt.Optimizer([p], "adam", lr=-0.1)
    (p * p).sum().backward()
    with pytest.warns(gd.GradusWarning, match="below 0: steps go uphill"):
        opt.step()
