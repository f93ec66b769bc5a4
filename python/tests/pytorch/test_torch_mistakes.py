"""gradus.torch and what users do by mistake: told, with everything as it was."""
import copy

import pytest

torch = pytest.importorskip("torch")
if not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"):
    pytest.skip("gradus.torch needs a later PyTorch", allow_module_level=True)

import gradus as gd
import gradus.torch as gt

ADAM, SEARCH = "adam | lr(0.1)", "lbfgs | strong_wolfe"


def two(chain=ADAM):
    params = [torch.nn.Parameter(torch.tensor([1.0, 2.0])), torch.nn.Parameter(torch.tensor([3.0, 4.0]))]
    optimizer = gt.Optimizer(params, chain)
    params[0].grad, params[1].grad = torch.ones(2), torch.full((2,), 5.0)
    return params, optimizer


@pytest.mark.parametrize("change", ["reverse", "take away", "put in another's place"])
def test_parameters_that_change_places_are_refused_by_steps_and_states(change):
    """State is by place: one would go on with another's moments."""
    params, optimizer = two()
    optimizer.step()
    before, list_ = copy.deepcopy(params), optimizer.param_groups[0]["params"]
    list_.reverse() if change == "reverse" else list_.pop(0) if change == "take away" else list_.__setitem__(0, params[1])
    for ask in (optimizer.step, optimizer.state_dict, lambda: optimizer.state, lambda: copy.deepcopy(optimizer)):
        with pytest.raises(gd.StateError, match="other parameters than were added, or another order"):
            ask()
    assert all(torch.equal(p, q) for p, q in zip(params, before))
    list_[:] = params
    optimizer.step()
    assert optimizer.state[params[1]]["exp_avg"].tolist() == pytest.approx([0.95, 0.95])


def test_a_new_object_in_the_place_of_a_parameter_goes_on_with_its_state():
    params, optimizer = two()
    optimizer.step()
    new = torch.nn.Parameter(torch.zeros(2))
    optimizer.param_groups[0]["params"][0], new.grad = new, torch.ones(2)
    optimizer.step()
    assert optimizer.state[new]["step"] == 2 and new.tolist() == pytest.approx([-0.1, -0.1])


@pytest.mark.parametrize("what", ["value", "products", "residuals"])
def test_memory_that_a_closure_puts_elsewhere_is_told_and_not_written_to(what):
    p = torch.nn.Parameter(torch.tensor([1.0, 2.0], dtype=torch.double))
    optimizer = gt.Optimizer([p], {"value": SEARCH, "products": "newton_cg", "residuals": "gauss_newton"}[what])
    moves = True

    def moved():
        if moves:
            p.data = p.data.clone()
        return p

    def closure(backward=True):
        loss = ((moved() if what == "value" or not backward else p) ** 4).sum()
        if backward:
            optimizer.zero_grad()
            loss.backward()
        return loss

    step = (lambda: optimizer.step(residuals=lambda: moved() ** 2)) if what == "residuals" else lambda: optimizer.step(closure)
    with pytest.raises(ValueError, match="'p0' was put elsewhere by the closure"):
        step()
    assert p.tolist() == [1, 2]
    moves = False
    step()
    assert p.tolist() != [1, 2]


@pytest.mark.parametrize("closure", [lambda p: lambda: (p**2).sum(), lambda p: lambda backward=True: (p**2).sum()])
def test_a_closure_that_leaves_no_gradients_is_told(closure):
    p = torch.nn.Parameter(torch.tensor([1.0, 2.0]))
    with pytest.raises(RuntimeError, match="left no gradients"):
        gt.Optimizer([p], SEARCH).step(closure(p))
    assert p.tolist() == [1, 2]


def test_a_loss_that_would_not_be_used_is_told():
    params, optimizer = two()
    for wrong, kind, says in ((dict(closure=lambda: torch.ones(()), loss=2.0), TypeError, "not two of them"),
                              (dict(closure=lambda: torch.ones(()), residuals=lambda: params[0]), TypeError, "not two of them"),
                              (dict(loss=torch.ones(3)), ValueError, r"one number, not a tensor of the shape \(3,\)")):
        with pytest.raises(kind, match=says):
            optimizer.step(**wrong)
    assert optimizer.steps == 0 and params[0].tolist() == [1, 2]


@pytest.mark.parametrize("chain", [ADAM, SEARCH, 'split("*", sign, adam) | lr(0.1)'])
def test_a_keyword_that_no_link_reads_is_refused(chain):
    params, optimizer = two(chain)
    closure = lambda: sum((p**2).sum() for p in params)  # noqa: E731
    for step in (lambda: optimizer.step(nonsense=1.0), lambda: optimizer.step(closure, nonsense=1.0)):
        with pytest.raises(TypeError, match="unexpected keyword argument 'nonsense'"):
            step()
    assert optimizer.steps == 0 and params[0].tolist() == [1, 2]


def test_another_chain_of_a_group_is_refused():
    p = torch.nn.Parameter(torch.ones(2))
    with pytest.raises(ValueError, match="a group has 'lion' for a chain, the optimizer 'adam . lr.0.1.'"):
        gt.Optimizer([{"params": [p], "chain": "lion"}], ADAM)
    gt.Optimizer([{"params": [p], "chain": ADAM}], ADAM)


def test_a_loss_may_be_any_number():
    numpy = pytest.importorskip("numpy")
    p = torch.nn.Parameter(torch.tensor([1.0, 2.0]))
    optimizer = gt.Optimizer([p], SEARCH)

    def closure():
        p.grad = 2 * p.detach()
        return numpy.float32((p.detach() ** 2).sum().item())

    assert optimizer.step(closure) == 5 and p.tolist() != [1, 2]


def test_an_interrupt_in_a_closure_leaves_the_parameters_and_the_next_step_goes_on():
    p = torch.nn.Parameter(torch.tensor([1.0, 2.0]))
    optimizer, calls = gt.Optimizer([p], SEARCH), []

    def closure():
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        optimizer.zero_grad()
        loss = (p**4).sum()
        loss.backward()
        return loss

    with pytest.raises(KeyboardInterrupt):
        optimizer.step(closure)
    assert p.tolist() == [1, 2]
    assert optimizer.step(closure).item() == 17 and p.tolist() != [1, 2]


def test_what_a_step_is_in_the_middle_of_is_refused_inside_a_closure():
    p = torch.nn.Parameter(torch.tensor([1.0, 2.0]))
    optimizer = gt.Optimizer([p], SEARCH)
    saved = optimizer.state_dict()
    for inside in (optimizer.step, lambda: optimizer.load_state_dict(saved),
                   lambda: optimizer.add_param_group({"params": [torch.nn.Parameter(torch.ones(1))]})):
        def closure():
            optimizer.zero_grad()
            loss = (p**2).sum()
            loss.backward()
            inside()
            return loss

        with pytest.raises(gd.StateError, match="inside a step"):
            optimizer.step(closure)
        assert p.tolist() == [1, 2] and len(optimizer.param_groups) == 1
