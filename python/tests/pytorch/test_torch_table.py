"""torch.testing's table of optimizers: their configurations agree with chains, their mistakes are refused."""
import pytest

torch = pytest.importorskip("torch")
if not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"):
    pytest.skip("gradus.torch needs a later PyTorch", allow_module_level=True)

import gradus.torch as gt
from test_torch import distance, loss_of, net, train


def torch_table():
    """torch.testing's table of optimizers and their configurations; it wants a package that is of no use here."""
    import sys
    import types
    import unittest

    sys.modules.setdefault("expecttest", types.ModuleType("expecttest"))
    if not hasattr(sys.modules["expecttest"], "TestCase"):
        sys.modules["expecttest"].TestCase = unittest.TestCase
    try:
        from torch.testing._internal.common_optimizers import optim_db
    except ImportError as e:
        pytest.skip(f"torch.testing is not whole: {e}")
    return optim_db


def chain_of(name, s):
    """The chain that is an optimizer of torch with these settings; a reason where there is none."""
    def get(key, default):
        value = s.get(key, default)
        return float(value) if isinstance(value, torch.Tensor) else value

    lr, decay = get("lr", None), get("weight_decay", 1e-2 if name == "AdamW" else 0)
    apart = name == "AdamW" or get("decoupled_weight_decay", False)
    b1, b2 = get("betas", (0.9, 0.999))
    usual = {"SGD": 1e-3, "Adadelta": 1.0, "Adagrad": 1e-2, "Adamax": 2e-3, "NAdam": 2e-3, "RMSprop": 1e-2, "Rprop": 1e-2, "ASGD": 1e-2,
             "Adafactor": 1e-2, "LBFGS": 1.0}
    lr = usual.get(name, 1e-3) if lr is None else lr
    eps = get("eps", {"Adadelta": 1e-6, "Adagrad": 1e-10}.get(name, 1e-8))
    if name in ("Adam", "AdamW"):
        own = f'adam({b1}, {b2}, eps={eps}, eps_at="corrected", amsgrad={str(get("amsgrad", False)).lower()})'
    elif name == "SGD":
        m, nag = get("momentum", 0), get("nesterov", False)
        own = f"nag({m})" if nag else f'heavy_ball({m}, dampening={get("dampening", 0)}, ema_init="first")' if m else None
    elif name == "Adadelta":
        own = f'adadelta({get("rho", 0.9)}, eps={eps})'
    elif name == "Adagrad":
        # torch divides by 1 + (t-1) d = (1-d) (1 + t d/(1-d)), ours by 1 + t lr_decay
        d = get("lr_decay", 0)
        own = f'adagrad({d / (1 - d)!r}, initial_accumulator_value={get("initial_accumulator_value", 0)}, eps={eps}, alpha={1 / (1 - d)!r})'
    elif name == "Adamax":
        own = f"adamax({b1}, {b2}, eps={eps})"
    elif name == "NAdam":
        own = f'nadam({b1}, {b2}, eps={eps}, momentum_decay={get("momentum_decay", 4e-3)})'
    elif name == "RAdam":
        own = f'radam({b1}, {b2}, eps={eps}, eps_at="raw")'
    elif name == "RMSprop":
        own = f'rmsprop({get("alpha", 0.99)}, eps={eps}, centered={str(get("centered", False)).lower()})'
        own += f' | heavy_ball({get("momentum", 0)}, ema_init="zeros")' if get("momentum", 0) else ""
    elif name == "Rprop":
        (down, up), (low, high) = get("etas", (0.5, 1.2)), get("step_sizes", (1e-6, 50))
        own, lr = f"rprop({up}, {down}, lb={low}, ub={high}, backtrack=false, alpha={lr})", 1
    elif name == "ASGD":
        own = f'asgd({lr}, {get("lambd", 1e-4)}, {get("alpha", 0.75)}, {get("t0", 1e6)})'
    elif name == "Adafactor":
        # torch takes min(lr, 1 / sqrt(t)) for lr, which is lr for the first 1 / lr^2 steps
        apart, eps = True, get("eps", (None, 1e-3))
        own = f'adafactor({-get("beta2_decay", -0.8)}, eps1={eps[0] or 0}, eps2={eps[1]}, clip={get("d", 1.0)})'
    elif name == "Muon":
        # eps: torch's least norm, ours is added to the norm, which is why it is made large; ns_coefficients have no setting
        if "ns_coefficients" in s:
            return None, "Newton-Schulz has the published coefficients 3.4445, -4.775, 2.0315 only"
        apart, decay = True, get("weight_decay", 0.1)
        own = f'nag({get("momentum", 0.95)}) | mul(1e9) | orthogonalize({get("ns_steps", 5)}, precision="full") | mul(1)'
    elif name == "LBFGS":
        if get("line_search_fn", None):
            return None, "its search interpolates and ends otherwise than strong_wolfe, after Nocedal & Wright"
        if get("maximize", False):
            return None, "uphill of a convex loss no pair has curvature: ours shortens steps until there is one, torch the first alone"
        own = f'lbfgs(history_size={get("history_size", 100)}, sy_tol=1e-10)'
    else:
        return None, "takes sparse gradients only"
    links = ["mul(-1)"] * bool(get("maximize", False)) + [f"weight_decay({decay})"] * bool(decay and not apart) + [own] * bool(own)
    links += [f"weight_decay({decay})"] * bool(decay and apart) + [f"lr({lr})"] * (name != "ASGD")
    return " | ".join(links), None


def steps_with_torch(model, optimizer):
    """Fifty steps; how many of ours they are."""
    if not isinstance(optimizer, torch.optim.LBFGS):
        train(model, optimizer, 50)
        return 50

    def closure():
        optimizer.zero_grad()
        loss = loss_of(model)
        loss.backward()
        return loss

    for _ in range(3):  # each is up to twenty
        optimizer.step(closure)
    return optimizer.state[next(model.parameters())]["n_iter"]


def unrounded(monkeypatch):
    """torch's Newton-Schulz rounds to bf16 in all dtypes: the same function without that."""
    import inspect

    muon = torch.optim._muon
    text = inspect.getsource(muon._zeropower_via_newtonschulz)
    wide = text.replace("torch.bfloat16", "grad.dtype").replace("grad.bfloat16()", "grad.clone()")  # torch 2.15 and 2.11
    assert "bfloat16" in text and "bfloat16" not in wide
    exec(wide, own := dict(vars(muon)))
    monkeypatch.setattr(muon, "_zeropower_via_newtonschulz", own["_zeropower_via_newtonschulz"])


def optimizer_of(model, name, chain, settings):
    """The chain; for Muon, which takes matrices alone, with the factor that it gives each by its shape."""
    if name != "Muon":
        return gt.Optimizer(model.parameters(), chain)
    by_shape = {None: lambda a, b: max(1, a / b) ** 0.5, "match_rms_adamw": lambda a, b: 0.2 * max(a, b) ** 0.5,
                "spectral_unclamped": lambda a, b: (a / b) ** 0.5}[settings.get("adjust_lr_fn")]
    key = next(k for k in gt.Optimizer(model.parameters(), chain).defaults if k.startswith("3:mul."))
    return gt.Optimizer([{"params": [p], key: by_shape(*p.shape)} for p in model.parameters()], chain)


def model_for(name):
    if name != "Muon":
        return net()
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(10, 20, bias=False), torch.nn.Tanh(), torch.nn.Linear(20, 1, bias=False)).double()


def test_torchs_table_of_optimizers_agrees(monkeypatch):
    compared, left_out = 0, {}
    unrounded(monkeypatch)
    for info in torch_table():
        name = info.optim_cls.__name__
        for row in info.optim_inputs_func(device="cpu", dtype=torch.float64):
            chain, why = chain_of(name, row.kwargs)
            if chain is None:
                left_out.setdefault(name, []).append(why)
                continue
            a, b = model_for(name), model_for(name)
            train(b, optimizer_of(b, name, chain, row.kwargs), steps_with_torch(a, info.optim_cls(a.parameters(), **row.kwargs)))
            # torch keeps the product of nadam's momenta and the step size of asgd in f32, and multiplies there with muon's lr where that
            # is a tensor
            most = max(p.abs().max().item() for p in a.parameters())  # uphill they grow
            tolerance = (1e-7 if name in ("NAdam", "ASGD") else 1e-6 if name == "Muon" and "Tensor lr" in row.desc else 1e-12) * max(1, most)
            assert distance(a, b) <= tolerance, (name, row.kwargs, chain)
            compared += 1
    left_out.pop("SparseAdam")
    assert all(len(why) <= {"LBFGS": 3, "Muon": 1}[name] for name, why in left_out.items()), left_out
    newest = tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 15)  # tables of before have fewer rows
    assert compared >= (86 if newest else 70), (compared, left_out)


def test_what_torchs_table_refuses_is_refused():
    """The mistakes of torch's table: those about parameters as torch answers them, settings by the ranges of the links."""
    answered, accepted = 0, set()
    for info in torch_table():
        name = info.optim_cls.__name__
        if chain_of(name, {})[0] is None:
            continue
        for row in info.optim_error_inputs_func(device="cpu", dtype=torch.float64):
            kind, params, kwargs = row.error_type, row.optimizer_error_input.params, row.optimizer_error_input.kwargs
            many = [v for v in kwargs.values() if isinstance(v, torch.Tensor) and v.numel() > 1]
            if "complex" in row.error_regex or "2D" in row.error_regex or "adjust_lr_fn" in kwargs:
                continue  # chains take complex numbers as pairs, and tensors of any number of axes; adjust_lr_fn is torch's word
            if params is not None:
                with (pytest.warns if issubclass(kind, Warning) else pytest.raises)(kind, match=row.error_regex):
                    gt.Optimizer(params, "adam | lr(1e-3)")
                answered += 1
            elif many:
                optimizer = gt.Optimizer([torch.nn.Parameter(torch.ones(2))], "adam | lr(1e-3)")
                optimizer.param_groups[0]["lr"] = many[0]
                with pytest.raises(ValueError, match="'lr' of group 0 is a tensor of 2 numbers"):
                    optimizer.step()
                answered += 1
            elif chain_of(name, kwargs)[0]:
                try:
                    gt.Optimizer([torch.nn.Parameter(torch.ones(2))], chain_of(name, kwargs)[0])
                    accepted.add(", ".join(k for k in kwargs if k != "lr"))
                except ValueError:
                    answered += 1
    # links take more: a factor of 1 keeps a mean as it is, momentum below 0 and decay below 0 push the other way, rprop's factors may be
    # any; tensors as settings are numbers here
    assert answered > 60 and accepted <= {"betas", "etas", "momentum", "weight_decay", "foreach", "betas, foreach"}, (answered, accepted)
