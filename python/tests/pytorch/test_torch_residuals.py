"""step(residuals=...): least squares over parameters of torch, beside the same chain on tensors of the library."""
import pytest

torch = pytest.importorskip("torch")
if not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"):
    pytest.skip("gradus.torch needs a later PyTorch", allow_module_level=True)

import gradus as gd
import gradus.torch as gt

LEAST_SQUARES = ["gauss_newton | lr(0.5)", "levenberg_marquardt(gauss_newton)", "levenberg_marquardt(gauss_newton, y=1)",
                 "natural_gradient(reg=0.1) | lr(0.01)", "trust_cg(gauss_newton)"]
OTHERS = ["adam | lr(0.05)", "lbfgs | strong_wolfe", "newton | backtracking"]


def parameters(*values):
    return [torch.nn.Parameter(torch.tensor(v, dtype=torch.double)) for v in values]


@pytest.mark.parametrize("rows", [4, 40])  # fewer than twice the parameters: by rows; more: by columns
@pytest.mark.parametrize("chain", LEAST_SQUARES + OTHERS)
def test_residuals_step_like_those_of_gradus_tensors(chain, rows):
    t = torch.linspace(0, 3, rows, dtype=torch.double)
    y = 2 * torch.exp(-1.3 * t) + 0.5 + 0.1 * torch.sin(5 * t)
    a, b = parameters([1.0, 1.0], 0.0)
    optimizer = gt.Optimizer([a, b], chain)
    here = [optimizer.step(residuals=lambda: a[0] * torch.exp(-a[1] * t) + b - y).item() for _ in range(12)]
    p, q = gd.tensor([1.0, 1.0]).require_grad(), gd.tensor(0.0).require_grad()
    s, z = gd.tensor(t.numpy()), gd.tensor(y.numpy())
    other = gd.Optimizer([p, q], gt._with_lr(chain))
    there = [other.step(residuals=lambda: p[0] * (-p[1] * s).exp() + q - z) for _ in range(12)]
    assert here == pytest.approx(there, rel=1e-7, abs=1e-12) and here[-1] < here[0] or "natural" in chain
    if "newton |" not in chain:  # there products with the Hessian evaluate
        assert optimizer.evaluations == other.evaluations
    if chain in LEAST_SQUARES:
        assert torch.cat([a.detach(), b.detach()[None]]).tolist() == pytest.approx([*p.tolist(), q.item()], rel=1e-7)


class Once(torch.autograd.Function):
    """x^2 of which torch knows one derivative only, and no way to have many at once."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, g):
        assert type(g.sum().item()) is float  # not under vmap
        return 2 * ctx.saved_tensors[0] * g


@pytest.mark.parametrize("rows", [2, 30])
def test_what_can_be_differentiated_once_only_has_a_jacobian(rows):
    (a,) = parameters([1.0, 2.0])
    x = torch.linspace(1, 2, rows, dtype=torch.double)
    optimizer = gt.Optimizer([a], "gauss_newton")
    for _ in range(20):
        loss = optimizer.step(residuals=lambda: Once.apply(a)[0] * x + Once.apply(a[1]) - 3 * x - 0.25)
    assert loss.item() < 1e-12 and not loss.requires_grad
    assert a.tolist() == pytest.approx([3**0.5, 0.5], rel=1e-6)


@pytest.mark.parametrize("rows", [1, 30])
def test_complex_frozen_and_unused_parameters_have_their_columns(rows):
    z = torch.nn.Parameter(torch.tensor([1 + 1j, 0.5j], dtype=torch.cdouble))
    still, unused = parameters([3.0], [[7.0, 8.0]])
    still.requires_grad_(False)
    empty = torch.nn.Parameter(torch.zeros(0, 3, dtype=torch.double))
    w = torch.linspace(1, 2, rows, dtype=torch.double)[:, None] * torch.tensor([1, 1j])
    optimizer = gt.Optimizer([still, z, empty, unused], "gauss_newton")
    for _ in range(2):  # linear: once is enough
        loss = optimizer.step(residuals=lambda: w * (z * still - torch.tensor([2 - 1j, 4 + 3j])))
    assert loss.item() < 1e-12 and still.tolist() == [3.0] and unused.tolist() == [[7.0, 8.0]]
    assert torch.allclose(z.detach() * 3, torch.tensor([2 - 1j, 4 + 3j], dtype=torch.cdouble), atol=1e-6)


def test_channels_last_and_narrow_parameters_have_their_columns():
    torch.manual_seed(3)
    start = torch.randn(2, 3, 2, 2)
    p = torch.nn.Parameter(start.clone().to(memory_format=torch.channels_last))
    want, scale = torch.randn(2, 3, 2, 2), torch.rand(2, 3, 2, 2) + 0.5
    gt.Optimizer([p], "gauss_newton").step(residuals=lambda: (p - want) * scale)
    assert torch.allclose(p.detach(), want, atol=1e-5)


def test_mistakes_with_residuals_are_told_and_change_nothing():
    (a,) = parameters([1.0, 2.0])
    calls = []

    def fails():
        calls.append(1)
        if len(calls) == 3:
            raise KeyError("mine")
        return a**3 - 5

    optimizer = gt.Optimizer([a], "levenberg_marquardt(gauss_newton)")
    for wrong, kind, says in ((lambda: 1.0, TypeError, "residuals are a tensor, not 1.0"),
                              (lambda: a.detach(), ValueError, "residuals depend on no parameter"),
                              (lambda: 1 / 0, ZeroDivisionError, "division")):
        with pytest.raises(kind, match=says):
            optimizer.step(residuals=wrong)
        assert a.tolist() == [1, 2]
    with pytest.raises(TypeError, match="not two of them"):
        optimizer.step(lambda: a.sum(), residuals=lambda: a)
    with pytest.raises(KeyError, match="mine"):  # at the second trial
        optimizer.step(residuals=fails)
    assert a.tolist() == [1, 2]
    optimizer.step(residuals=fails)
    assert a.tolist() != [1, 2]
    with pytest.raises(gd.Error, match="residuals"):  # a closure of one number has none
        optimizer.step(lambda backward=True: (a**2).sum())


def test_hooks_see_a_step_of_residuals():
    (a,) = parameters([1.0, 2.0])
    optimizer, seen = gt.Optimizer([a], "gauss_newton"), []
    optimizer.register_step_post_hook(lambda *args: seen.append(a.tolist()))
    assert optimizer.step(residuals=lambda: 2 * a - 4).item() == 4
    assert seen == [pytest.approx([2, 2])]
