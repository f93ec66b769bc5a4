"""gradus.torch: steps in torch's memory, groups, state dicts, closures, refusals."""
import copy
import gc
import io
import math
import pickle
import warnings
import weakref

import pytest

torch = pytest.importorskip("torch")
if not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"):
    pytest.skip("gradus.torch needs a later PyTorch", allow_module_level=True)

import gradus as gd
import gradus.torch as gt

ADAM = 'adam(eps_at="corrected") | lr(1e-2)'
ADAMW = 'adam(eps_at="corrected") | weight_decay(0.1) | lr(1e-2)'


def net(dtype=torch.double, seed=1):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(10, 20), torch.nn.Tanh(), torch.nn.Linear(20, 1)).to(dtype)


torch.manual_seed(0)
X, Y = torch.randn(32, 10, dtype=torch.double), torch.randn(32, 1, dtype=torch.double)


def loss_of(model):
    p = next(model.parameters())
    return ((model(X.to(p.dtype)) - Y.to(p.dtype)) ** 2).mean()


def train(model, optimizer, steps):
    for _ in range(steps):
        optimizer.zero_grad()
        loss_of(model).backward()
        optimizer.step()
    return model


def distance(a, b):
    return max((p - q).abs().max().item() for p, q in zip(a.parameters(), b.parameters()))


def bits(model):
    return [p.detach().clone() for p in model.parameters()]


def same(a, b):
    return all(torch.equal(p, q) for p, q in zip(a, b))


# ---- the optimizers of torch ----

O = torch.optim
TORCH = [
    (O.Adam, dict(lr=1e-2), ADAM, 1e-12),
    (O.Adam, dict(lr=1e-2, weight_decay=0.1), 'weight_decay(0.1) | adam(eps_at="corrected") | lr(1e-2)', 1e-12),
    (O.Adam, dict(lr=1e-2, betas=(0.7, 0.9), amsgrad=True), 'adam(0.7, 0.9, eps_at="corrected", amsgrad=true) | lr(1e-2)', 1e-12),
    (O.AdamW, dict(lr=1e-2, weight_decay=0.1), ADAMW, 1e-12),
    (O.SGD, dict(lr=1e-2), "lr(1e-2)", 1e-12),
    (O.SGD, dict(lr=1e-2, momentum=0.9), 'heavy_ball(0.9, ema_init="zeros") | lr(1e-2)', 1e-12),
    (O.SGD, dict(lr=1e-2, momentum=0.9, dampening=0.5), 'heavy_ball(0.9, dampening=0.5, ema_init="first") | lr(1e-2)', 1e-12),
    (O.SGD, dict(lr=1e-2, momentum=0.9, weight_decay=0.1, nesterov=True), "weight_decay(0.1) | nag(0.9) | lr(1e-2)", 1e-12),
    (O.RMSprop, dict(lr=1e-2), "rmsprop(0.99) | lr(1e-2)", 1e-12),
    (O.RMSprop, dict(lr=1e-2, centered=True), "rmsprop(0.99, centered=true) | lr(1e-2)", 1e-12),
    (O.Adagrad, dict(lr=1e-2, initial_accumulator_value=0.1), "adagrad(initial_accumulator_value=0.1) | lr(1e-2)", 1e-12),
    (O.RAdam, dict(lr=1e-2), 'radam(eps_at="raw") | lr(1e-2)', 1e-12),
    (O.Adamax, dict(lr=1e-2), "adamax | lr(1e-2)", 1e-12),
    (O.Adadelta, dict(lr=1), "adadelta | lr(1)", 1e-12),
    (O.Rprop, dict(lr=1e-2), "rprop(alpha=0.01, backtrack=false) | lr(1)", 1e-12),
    (O.NAdam, dict(lr=1e-2), "nadam(momentum_decay=0.004) | lr(1e-2)", 1e-7),  # torch keeps a product of it in f32
]


@pytest.mark.parametrize("cls,settings,chain,tolerance", TORCH, ids=[f"{c.__name__}-{i}" for i, (c, *_) in enumerate(TORCH)])
def test_fifty_steps_agree_with_torch(cls, settings, chain, tolerance):
    a, b = net(), net()
    train(a, cls(a.parameters(), **settings), 50)
    train(b, gt.Optimizer(b.parameters(), chain), 50)
    assert distance(a, b) <= tolerance


def test_a_parameter_without_gradient_is_left_out_and_counts_its_own_steps():
    a, b = net(), net()
    oa, ob = O.AdamW(a.parameters(), lr=1e-2, weight_decay=0.1), gt.Optimizer(b.parameters(), ADAMW)
    for step in range(12):
        for model, optimizer in ((a, oa), (b, ob)):
            optimizer.zero_grad()
            loss_of(model).backward()
            for k, p in enumerate(model.parameters()):
                if step % (k + 1):
                    p.grad = None
            optimizer.step()
    assert distance(a, b) <= 1e-12
    assert [int(s["step"]) for s in ob.state.values()] == [12, 6, 4, 3]


def test_links_and_rules_of_ones_own_step_torchs_parameters():
    @gd.rule(state=["average"])
    def torch_signed(r, update, beta=0.9):
        return r.sign(r.average("average", update, beta))

    @gd.link
    class torch_centre:
        def apply(self, t):
            return [u - u.mean() for u in t.tensors]

    chain = torch_centre() | torch_signed(beta=0.8) | gd.m.lr(0.1)
    torch.manual_seed(5)
    start, slopes = torch.randn(4, 3), [torch.randn(4, 3) for _ in range(5)]
    p, q = torch.nn.Parameter(start.clone()), gd.tensor(start.numpy().copy()).require_grad()
    a, b = gt.Optimizer([p], chain), gd.Optimizer([q], chain)
    for slope in slopes:
        p.grad, q.grad = slope.clone(), gd.tensor(slope.numpy().copy())
        a.step(), b.step()
    assert torch.equal(p.detach(), torch.from_dlpack(q.detach())) and a.param_groups[0]["beta"] == 0.8
    assert a.state[p]["average"].shape == (4, 3)


# ---- memory ----

def test_parameters_are_changed_in_place_and_versions_raised():
    p = torch.nn.Parameter(torch.ones(3))
    where, version = p.data_ptr(), p._version
    optimizer = gt.Optimizer([p], "lr(0.5)")
    out = (p * p).sum()
    p.grad = torch.ones(3)
    optimizer.step()
    assert p.data_ptr() == where and p._version > version and torch.equal(p.detach(), torch.full((3,), 0.5))
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.backward()


def test_a_parameter_that_is_left_out_keeps_its_version():
    p, q = torch.nn.Parameter(torch.ones(3)), torch.nn.Parameter(torch.ones(3))
    optimizer = gt.Optimizer([p, q], "lr(0.5)")
    p.grad, version = torch.ones(3), q._version
    optimizer.step()
    assert q._version == version


def test_gradients_are_not_held():
    p = torch.nn.Parameter(torch.ones(3))
    optimizer = gt.Optimizer([p], ADAM)
    g = torch.ones(3)
    p.grad, dead = g, weakref.ref(g)
    optimizer.step()
    del g
    optimizer.zero_grad(set_to_none=True)
    gc.collect()
    assert dead() is None


@pytest.mark.parametrize("make", [
    lambda g: g.contiguous(memory_format=torch.channels_last),
    lambda g: g.contiguous(),
    lambda g: torch.stack([g, g], -1)[..., 0],
    lambda g: torch.cat([torch.zeros(1), g.flatten()])[1:].view(g.shape),
], ids=["channels_last", "rows", "gaps", "odd_address"])
def test_gradients_may_lie_in_any_way(make):
    torch.manual_seed(2)
    start, slope = torch.randn(4, 3, 5, 2), torch.randn(4, 3, 5, 2)
    p = torch.nn.Parameter(start.clone().contiguous(memory_format=torch.channels_last))
    q = torch.nn.Parameter(start.clone())
    where = p.data_ptr()
    a, b = gt.Optimizer([p], ADAM), gt.Optimizer([q], ADAM)
    for _ in range(5):
        p.grad, q.grad = make(slope), slope.clone()
        a.step(), b.step()
    assert torch.equal(p.detach(), q.detach()) and p.data_ptr() == where
    assert p.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(a.state[p]["exp_avg"], b.state[q]["exp_avg"])


def test_an_expanded_gradient_is_read():
    p = torch.nn.Parameter(torch.zeros(2, 3))
    optimizer = gt.Optimizer([p], "lr(1)")
    p.sum().backward()
    p.grad = torch.ones(1, 1).expand(2, 3)
    optimizer.step()
    assert torch.equal(p.detach(), -torch.ones(2, 3))


def test_a_wide_gradient_of_a_narrow_parameter():
    p = torch.nn.Parameter(torch.ones(4, dtype=torch.bfloat16))
    try:
        p.grad_dtype = torch.float32
    except (AttributeError, RuntimeError):
        pytest.skip("this torch has gradients of the parameter's dtype only")
    optimizer = gt.Optimizer([p], ADAM)
    p.grad = torch.full((4,), 0.5)
    optimizer.step()
    assert optimizer.state[p]["exp_avg"].dtype == torch.float32 and p.dtype == torch.bfloat16


def test_complex_parameters_are_pairs():
    torch.manual_seed(4)
    start = torch.randn(3, dtype=torch.complex128)
    a, b = torch.nn.Parameter(start.clone()), torch.nn.Parameter(start.clone())
    oa, ob = O.Adam([a], lr=1e-2), gt.Optimizer([b], ADAM)
    for _ in range(10):
        for p, o in ((a, oa), (b, ob)):
            o.zero_grad()
            (p * p.conj()).real.sum().backward()
            o.step()
    assert (a - b).abs().max() <= 1e-12
    assert ob.state[b]["exp_avg"].dtype == torch.complex128


def test_conjugate_and_negative_gradients_are_what_they_stand_for():
    z, r = torch.nn.Parameter(torch.ones(2, dtype=torch.complex64)), torch.nn.Parameter(torch.ones(2))
    optimizer = gt.Optimizer([z, r], "lr(0.5)")
    slope = torch.tensor([1 + 1j, 2 - 4j])
    z.grad, r.grad = slope.conj(), slope.conj().imag
    assert z.grad.is_conj() and r.grad.is_neg()
    optimizer.step()
    assert torch.equal(z.detach(), 1 - 0.5 * slope.conj().resolve_conj())
    assert torch.equal(r.detach(), 1 - 0.5 * torch.tensor([-1.0, 4.0]))
    with pytest.raises(ValueError, match="'p0' is a conjugate or negative view"):
        gt.Optimizer([torch.ones(2, dtype=torch.complex64).conj().requires_grad_()], "lr(1)")


def test_gradients_that_lie_like_the_last_one_are_still_looked_at():
    """Another address, another dtype, none, a negative view with the strides of the last: each at its step, and each is let go."""
    p = torch.nn.Parameter(torch.zeros(2))
    optimizer = gt.Optimizer([p], "lr(1)")
    plain, gaps = torch.tensor([1.0, 2.0]), torch.tensor([[1.0, 9.0], [2.0, 9.0]])[:, 0]
    negative = torch.complex(torch.zeros(2), torch.tensor([4.0, 8.0])).conj().imag
    assert negative.is_neg() and negative.stride() == gaps.stride() == (2,)
    total = torch.zeros(2)
    for slope in (plain, plain.clone(), None, gaps, gaps.clone(), gaps, negative, gaps, plain, 3 * plain):
        p.grad = slope
        optimizer.step()
        total -= 0 if slope is None else slope.resolve_neg()
        assert torch.equal(p.detach(), total)
    here, p.grad = weakref.ref(slope), None
    del slope
    gc.collect()
    assert here() is None
    with pytest.raises(ValueError, match="'p0' has a gradient whose memory cannot be looked at"):
        p.grad = torch.sparse_coo_tensor([[0]], [1.0], (2,))
        optimizer.step()
    p.grad = plain
    optimizer.step()
    assert torch.equal(p.detach(), total - plain)


def test_an_attribute_grad_of_a_class_of_ones_own_is_asked():
    class Mine(torch.nn.Parameter):
        @property
        def grad(self):
            return torch.full((2,), 3.0)

    p, q = Mine(torch.zeros(2)), torch.nn.Parameter(torch.zeros(2))
    q.grad = torch.ones(2)
    optimizer = gt.Optimizer([q, p], "lr(1)")
    optimizer.step()
    assert torch.equal(p.detach(), torch.full((2,), -3.0)) and torch.equal(q.detach(), -torch.ones(2))


def test_parameters_may_move_and_change_their_dtype():
    model = net(torch.float)
    optimizer = gt.Optimizer(model.parameters(), ADAM)
    train(model, optimizer, 3)
    model.double()  # other memory behind the same parameters
    train(model, optimizer, 3)
    assert all(int(s["step"]) == 6 and s["exp_avg"].dtype == torch.float64 for s in optimizer.state.values())
    for group in optimizer.param_groups:  # other parameters in their place, as wrappers do
        group["params"] = [torch.nn.Parameter(p.detach().clone()) for p in group["params"]]
        for p in group["params"]:
            p.grad = torch.ones_like(p)
    before = [p.detach().clone() for p in optimizer.param_groups[0]["params"]]
    optimizer.step()
    assert not same(before, [p.detach() for p in optimizer.param_groups[0]["params"]])


def test_empty_and_scalar_parameters():
    p, q = torch.nn.Parameter(torch.zeros(0, 3)), torch.nn.Parameter(torch.tensor(2.0))
    optimizer = gt.Optimizer([p, q], ADAM)
    p.grad, q.grad = torch.zeros(0, 3), torch.tensor(1.0)
    optimizer.step()
    assert q.item() < 2


# ---- groups ----

def test_groups_have_their_own_numbers_and_are_read_every_step():
    p, q = torch.nn.Parameter(torch.zeros(1)), torch.nn.Parameter(torch.zeros(1))
    optimizer = gt.Optimizer([{"params": [p]}, {"params": [q], "lr": 0.5}], "lr(0.1)")
    for group, lr in zip(optimizer.param_groups, (None, 2.0)):
        if lr:
            group["lr"] = lr
    p.grad = q.grad = torch.ones(1)
    optimizer.step()
    assert (p.item(), q.item()) == (pytest.approx(-0.1), -2.0)


def test_lr_scales_the_update_where_the_chain_has_none():
    p = torch.nn.Parameter(torch.zeros(1))
    optimizer = gt.Optimizer([p], "clip_value(0.5)")
    assert optimizer.param_groups[0]["lr"] == 1
    optimizer.param_groups[0]["lr"] = 0.1
    p.grad = torch.ones(1)
    optimizer.step()
    assert p.item() == pytest.approx(-0.05)


def test_betas_and_momentum_are_there_for_schedulers():
    p = torch.nn.Parameter(torch.zeros(1))
    assert gt.Optimizer([p], "adam(0.8, 0.9) | lr(0.1)").defaults["betas"] == (0.8, 0.9)
    assert gt.Optimizer([p], "heavy_ball(0.7) | lr(0.1)").defaults["momentum"] == 0.7
    assert gt.Optimizer([p], ADAM, lr=0.5, betas=(0.5, 0.6)).param_groups[0]["betas"] == (0.5, 0.6)


def test_settings_of_groups_are_those_of_the_chain():
    a, b = net(), net()
    train(a, gt.Optimizer(a.parameters(), 'adam(0.5, 0.6, eps_at="corrected") | lr(0.1)'), 5)
    train(b, gt.Optimizer(b.parameters(), ADAM, lr=0.1, betas=(0.5, 0.6)), 5)
    assert same(bits(a), bits(b))


def test_only_what_changed_goes_to_the_links(monkeypatch):
    model, sent = net(), []
    optimizer = gt.Optimizer([{"params": [p]} for p in model.parameters()], ADAMW)
    usual = gt.Optimizer._set
    monkeypatch.setattr(gt.Optimizer, "_set", lambda self, *what: (sent.append(what), usual(self, *what)))
    train(model, optimizer, 3)
    assert sent == []
    optimizer.param_groups[1]["lr"] = 0.5
    train(model, optimizer, 3)
    assert sent == [(1, "lr", (0.5,))]
    betas = optimizer.param_groups[2]["betas"] = [0.5, 0.6]
    train(model, optimizer, 2)
    betas[0] = 0.7  # in place
    train(model, optimizer, 2)
    assert sent[1:] == [(2, "betas", (0.5, 0.6)), (2, "betas", (0.7, 0.6))]
    rate = optimizer.param_groups[0]["lr"] = torch.tensor(0.25)
    train(model, optimizer, 2)
    rate.fill_(0.125)
    train(model, optimizer, 2)
    assert sent[3:] == [(0, "lr", (0.25,)), (0, "lr", (0.125,))]


@pytest.mark.parametrize("key, value", [("lr", None), ("lr", "fast"), ("lr", [1, 2]), ("lr", math.nan), ("betas", 0.9), ("betas", (0.9,)),
                                        ("betas", (0.9, 2.0)), ("eps", -1.0)])
def test_what_is_no_number_for_a_setting_is_told(key, value):
    p = torch.nn.Parameter(torch.ones(2))
    optimizer = gt.Optimizer([p], ADAM)
    p.grad, optimizer.param_groups[0][key] = torch.ones(2), value
    with pytest.raises(ValueError, match=key if key != "betas" else "bet"):
        optimizer.step()
    assert p.tolist() == [1, 1]


@pytest.mark.parametrize("key", ["maximize", "capturable", "differentiable"])
def test_what_torchs_groups_may_ask_for_and_we_do_not_is_refused(key):
    p = torch.nn.Parameter(torch.ones(2))
    with pytest.raises(ValueError, match=f"'{key}' is not possible"):
        gt.Optimizer([{"params": [p], key: True}], ADAM)
    with pytest.raises(ValueError, match=f"'{key}' is not possible"):
        gt.Optimizer([p], ADAM, **{key: True})
    gt.Optimizer([{"params": [p], key: False}], ADAM, **{key: False})
    there = O.Adam([torch.nn.Parameter(torch.ones(2))])
    saved = there.state_dict()
    saved["param_groups"][0][key] = True
    with pytest.raises(ValueError, match=f"'{key}' is not possible"):
        gt.Optimizer([p], ADAM).load_state_dict(saved)


def test_a_module_gives_its_parameters_with_their_names():
    model = net()
    optimizer = gt.Optimizer(model, ADAM)
    assert optimizer.param_groups[0]["param_names"] == [name for name, _ in model.named_parameters()]
    train(model, optimizer, 1)


def test_a_name_that_several_links_share_needs_the_link():
    p = torch.nn.Parameter(torch.zeros(1))
    chain = "rmsprop | adam | lr(0.1)"
    optimizer = gt.Optimizer([p], chain, **{"adam.eps": 1e-3})
    assert optimizer.param_groups[0]["adam.eps"] == 1e-3 and "rmsprop.eps" in optimizer.param_groups[0]
    with pytest.raises(ValueError, match="several links have 'eps'.*rmsprop.eps"):
        gt.Optimizer([p], chain, eps=1)
    with pytest.raises(TypeError, match="has no setting 'nonsense'"):
        gt.Optimizer([p], chain, nonsense=1)


def test_the_number_of_one_link_of_several_reaches_it_alone():
    a, b = net(), net()
    train(a, gt.Optimizer(a.parameters(), "rmsprop(eps=1e-8) | adam(eps=1e-2) | lr(0.1)"), 5)
    train(b, gt.Optimizer(b.parameters(), "rmsprop(eps=1e-8) | adam | lr(0.1)", **{"adam.eps": 1e-2}), 5)
    assert same(bits(a), bits(b))


def test_unknown_keys_are_kept_and_warned_about_once():
    p = torch.nn.Parameter(torch.zeros(1))
    with pytest.warns(UserWarning, match="has 'colour'"):
        optimizer = gt.Optimizer([{"params": [p], "colour": 3, "initial_lr": 1}], "lr(0.1)")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        p.grad = torch.ones(1)
        optimizer.step()
    assert optimizer.param_groups[0]["colour"] == 3


S = torch.optim.lr_scheduler
SCHEDULERS = {
    "step": lambda o: S.StepLR(o, 2), "multi": lambda o: S.MultiStepLR(o, [2, 4]), "constant": lambda o: S.ConstantLR(o),
    "linear": lambda o: S.LinearLR(o), "exponential": lambda o: S.ExponentialLR(o, 0.9), "cosine": lambda o: S.CosineAnnealingLR(o, 5),
    "restarts": lambda o: S.CosineAnnealingWarmRestarts(o, 3), "polynomial": lambda o: S.PolynomialLR(o, 5),
    "one_cycle": lambda o: S.OneCycleLR(o, 0.1, total_steps=20), "cyclic": lambda o: S.CyclicLR(o, 0.01, 0.1, 3, cycle_momentum=True),
    "lambda": lambda o: S.LambdaLR(o, lambda e: 0.9 ** e), "times": lambda o: S.MultiplicativeLR(o, lambda e: 0.9),
    "sequence": lambda o: S.SequentialLR(o, [S.ConstantLR(o), S.ExponentialLR(o, 0.9)], [3]),
    "chained": lambda o: S.ChainedScheduler([S.ConstantLR(o), S.ExponentialLR(o, 0.9)], optimizer=o),
}


def test_every_scheduler_of_torch_is_tried():
    tried = {type(make(gt.Optimizer([torch.nn.Parameter(torch.ones(1))], ADAM))).__name__ for make in SCHEDULERS.values()}
    assert set(S.__all__) - tried == {"LRScheduler", "ReduceLROnPlateau"}  # the base, and test_a_plateau_ends


@pytest.mark.parametrize("name", SCHEDULERS)
def test_schedulers_of_torch_work(name):
    a, b = net(), net()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for model, optimizer in ((a, O.Adam(a.parameters(), lr=1e-2)), (b, gt.Optimizer(b.parameters(), ADAM))):
            scheduler = SCHEDULERS[name](optimizer)
            for _ in range(10):
                train(model, optimizer, 1)
                scheduler.step()
    assert distance(a, b) <= 1e-12


def test_a_plateau_ends():
    model = net()
    optimizer = gt.Optimizer(model.parameters(), ADAM)
    scheduler = S.ReduceLROnPlateau(optimizer, patience=0)
    for _ in range(4):
        train(model, optimizer, 1)
        scheduler.step(1.0)
    assert optimizer.param_groups[0]["lr"] < 1e-2


LINKS = [name if not any(f[2] for f in row["fields"]) else row["example"]
         for name in gd.link_names() if (row := gd.link_table(name)) and not name.startswith("print")]
NOT_ALONE = {"alternate", "maximum_modules", "mean", "minimum_modules", "online", "prod", "sum", "terminate_all", "terminate_any", "chain",
             "sum_of_squares"}  # of residuals only


def test_with_lr_0_and_no_slope_every_link_leaves_parameters_alone():
    """Also those that stand behind lr, jump, divide by the gradient, or evaluate: torch's checkpoints step so, without a closure."""
    values, refused, usual = [[1.0, -2.0], [0.5, 3.0]], set(), gd._core.current_context()
    gd.Context(threads=1).use()  # a second thread for four numbers only waits
    for link in LINKS:
        p = torch.nn.Parameter(torch.tensor(values))
        p.grad = torch.zeros_like(p)
        try:
            optimizer = gt.Optimizer([p], link, lr=0.0)
            optimizer.step()
            if not optimizer._needs_closure:
                optimizer.step(loss=torch.zeros(()))
        except gd.Error as e:
            assert "needs '" in str(e) or "it needs a vector of residuals" in str(e) or link == "chain", (link, e)
            refused.add(link)
        assert p.tolist() == values, link
    usual.use()
    assert refused <= NOT_ALONE


def test_lr_0_of_a_group_holds_that_group():
    p, q = torch.nn.Parameter(torch.ones(2)), torch.nn.Parameter(torch.ones(2))
    optimizer = gt.Optimizer([{"params": [p], "lr": 0.0}, {"params": [q]}], "lr(0.5) | direct_weight_decay(0.25)")
    p.grad = q.grad = torch.ones(2)
    optimizer.step()
    assert p.tolist() == [1, 1] and q.tolist() == [0.25, 0.25]


def test_groups_can_be_added():
    model = net()
    params = list(model.parameters())
    optimizer = gt.Optimizer(params[:2], ADAM)
    train(model, optimizer, 3)
    optimizer.add_param_group({"params": params[2:], "lr": 0.5})
    train(model, optimizer, 2)
    assert [int(s["step"]) for s in optimizer.state.values()] == [5, 5, 2, 2]
    assert len(optimizer.param_groups) == 2


# ---- state ----

CHAINS = [ADAM, ADAMW, 'heavy_ball(0.9) | lr(0.01)', "adam | adam | lr(0.01)", "lbfgs(history_size=3) | lr(0.01)", "adafactor | lr(0.01)",
          "nadam | lr(0.01)", "clip_norm(1) | soap | lr(0.01)", "prodigy | lr(1)", 'adam(state="bf16") | lr(0.01)']


def carried(optimizer, how):
    saved = optimizer.state_dict()
    if how == "deepcopy":
        return copy.deepcopy(saved)
    file = io.BytesIO()
    torch.save(saved, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


@pytest.mark.parametrize("how", ["deepcopy", "file"])
@pytest.mark.parametrize("chain", CHAINS)
def test_a_run_goes_on_from_its_state_dict(chain, how):
    a, b = net(), net()
    oa, ob = gt.Optimizer(a.parameters(), chain), gt.Optimizer(b.parameters(), chain)
    train(a, oa, 4)
    saved = carried(oa, how)
    b.load_state_dict(a.state_dict())
    ob.load_state_dict(saved)
    train(a, oa, 4), train(b, ob, 4)
    assert same(bits(a), bits(b))


def test_torch_loads_our_adam_and_we_load_its():
    a, b, c = net(), net(), net()
    oa, ob = gt.Optimizer(a.parameters(), ADAMW), O.AdamW(b.parameters(), lr=1e-2, weight_decay=0.1)
    train(a, oa, 5), train(b, ob, 5)
    from_us, from_torch = copy.deepcopy(oa.state_dict()), copy.deepcopy(ob.state_dict())
    after_us, after_torch = O.AdamW(c.parameters()), gt.Optimizer(a.parameters(), ADAMW, lr=0.5)
    c.load_state_dict(a.state_dict())
    after_us.load_state_dict(from_us)  # as it is: rates and decay come along
    with pytest.warns(UserWarning, match="has 'decoupled_weight_decay'") as told:
        after_torch.load_state_dict(from_torch)
    assert len(told) == 1
    train(a, after_torch, 5), train(b, ob, 5), train(c, after_us, 5)
    assert distance(a, b) <= 1e-12 and distance(c, b) <= 1e-12


@pytest.mark.parametrize("chain", [ADAM, ADAMW, 'adam(0.8, 0.9, eps_at="corrected", amsgrad=true) | lr(1e-2)',
                                   'weight_decay(0.1) | adam(eps_at="corrected") | lr(1e-2)', 'mul(-1) | adam(eps_at="corrected") | lr(1e-2)'])
@pytest.mark.parametrize("steps", [0, 5])
@pytest.mark.parametrize("cls", [O.Adam, O.AdamW])
def test_what_torchs_adam_loads_from_us_steps_there(chain, steps, cls):
    """Every key its step reads is in the groups, and says what the chain does; AdamW makes one of them what its name says."""
    if cls is O.AdamW and chain.startswith("weight_decay"):
        pytest.skip("AdamW decays apart from the gradient whatever it loads")
    a, b = net(), net()
    ours, theirs = gt.Optimizer(a.parameters(), chain), cls(b.parameters())
    train(a, ours, steps)
    b.load_state_dict(a.state_dict())
    theirs.load_state_dict(copy.deepcopy(ours.state_dict()))
    train(a, ours, 5), train(b, theirs, 5)
    assert distance(a, b) <= 1e-12
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = gt.Optimizer(net().parameters(), chain)
        again.load_state_dict(ours.state_dict())  # and nothing of it is left over here
    assert not {"amsgrad", "maximize", "decoupled_weight_decay"} & again.param_groups[0].keys()


def test_moments_of_narrow_parameters_stay_wide():
    model, other = net(torch.bfloat16), net(torch.bfloat16)
    oa, ob = gt.Optimizer(model.parameters(), ADAM), gt.Optimizer(other.parameters(), ADAM)
    train(model, oa, 3)
    other.load_state_dict(model.state_dict())
    ob.load_state_dict(copy.deepcopy(oa.state_dict()))
    for s, t in zip(oa.state.values(), ob.state.values()):
        assert s["exp_avg"].dtype == torch.float32 and torch.equal(s["exp_avg"], t["exp_avg"])


def test_states_are_matched_by_names_where_both_have_them():
    model = net()
    named = list(model.named_parameters())
    one, two = gt.Optimizer(named, ADAM), gt.Optimizer(named[::-1], ADAM)
    train(model, one, 3)
    two.load_state_dict(copy.deepcopy(one.state_dict()))
    for p in model.parameters():
        assert torch.equal(one.state[p]["exp_avg"], two.state[p]["exp_avg"])


def test_a_state_of_another_chain_is_refused_and_changes_nothing():
    a, b = net(), net()
    oa, ob = gt.Optimizer(a.parameters(), "heavy_ball(0.9) | lr(0.5)"), gt.Optimizer(b.parameters(), ADAM)
    train(a, oa, 2), train(b, ob, 2)
    with pytest.raises(gd.MismatchError):
        ob.load_state_dict(copy.deepcopy(oa.state_dict()))
    assert ob.param_groups[0]["lr"] == 1e-2 and all(int(s["step"]) == 2 for s in ob.state.values())
    train(b, ob, 1)


@pytest.mark.parametrize("how", [copy.deepcopy, lambda o: pickle.loads(pickle.dumps(o))], ids=["deepcopy", "pickle"])
def test_copies_of_an_optimizer_go_on(how):
    model = net()
    optimizer = gt.Optimizer(model.parameters(), ADAM)
    optimizer.param_groups[0]["lr"] = 0.03
    train(model, optimizer, 3)
    other = how(optimizer)
    for p, q in zip(model.parameters(), other.param_groups[0]["params"]):
        assert torch.equal(p, q) and p is not q
        p.grad, q.grad = torch.ones_like(p), torch.ones_like(q)
    optimizer.step(), other.step()
    assert same(bits(model), [p.detach() for p in other.param_groups[0]["params"]])


def test_a_copy_does_not_warn_again():
    p = torch.nn.Parameter(torch.ones(1))
    with pytest.warns(UserWarning, match="colour"):
        optimizer = gt.Optimizer([{"params": [p], "colour": 3}], ADAM)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert copy.deepcopy(optimizer).param_groups[0]["colour"] == 3
        pickle.loads(pickle.dumps(optimizer))


def test_state_that_is_set_is_taken():
    model = net()
    optimizer, p = gt.Optimizer(model.parameters(), ADAM), next(model.parameters())
    train(model, optimizer, 2)
    kept = {k: v.clone() for k, v in optimizer.state[p].items()}
    optimizer.state.clear()
    assert not optimizer.state and optimizer.state[p] == {}
    train(model, optimizer, 1)
    optimizer.state[p] = kept
    assert torch.equal(optimizer.state[p]["exp_avg"], kept["exp_avg"]) and optimizer.state[p]["step"] == 2
    optimizer.state = {p: {"step": torch.tensor(5.0), "exp_avg": kept["exp_avg"], "exp_avg_sq": kept["exp_avg_sq"]}}
    assert len(optimizer.state) == 1 and optimizer.state[p]["step"] == 5
    with pytest.raises(KeyError):
        optimizer.state[torch.ones(1)] = kept
    with pytest.raises(TypeError):
        optimizer.state.pop(p)
    copy.deepcopy(optimizer.state)


def test_a_state_of_torch_takes_the_place_of_what_there_is():
    model = net()
    optimizer = gt.Optimizer(model.parameters(), ADAM)
    train(model, optimizer, 2)
    before = copy.deepcopy(optimizer.state_dict())
    wrong = O.Adam([torch.nn.Parameter(torch.ones(3, 3)) for _ in range(4)], lr=1e-2)
    for p in wrong.param_groups[0]["params"]:
        p.grad = torch.ones_like(p)
    wrong.step()
    with pytest.raises(gd.Error, match="parameter 'p0'"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        optimizer.load_state_dict(wrong.state_dict())
    for (i, kept), now in zip(before["state"].items(), optimizer.state.values()):
        assert all(torch.equal(kept[k], now[k]) for k in kept)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        optimizer.load_state_dict(O.Adam(net().parameters(), lr=1e-2).state_dict())  # made, not stepped
    assert not optimizer.state


def test_hooks_of_state_dicts_see_all_of_it():
    model = net()
    optimizer, seen = gt.Optimizer(model.parameters(), "prodigy"), []
    train(model, optimizer, 2)
    optimizer.register_state_dict_pre_hook(lambda o: seen.append("saving"))
    optimizer.register_state_dict_post_hook(lambda o, saved: {**saved, "mine": "gradus" in saved["param_groups"][0]})
    saved = copy.deepcopy(optimizer.state_dict())
    assert saved["mine"] is True and seen == ["saving"]

    def halve(o, given):
        seen.append(len(given["state"]))
        given["state"] = {i: {k: v / 2 if k == "exp_avg" else v for k, v in kept.items()} for i, kept in given["state"].items()}
        return given

    before = [s["exp_avg"].clone() for s in optimizer.state.values()]
    optimizer.register_load_state_dict_pre_hook(halve)
    optimizer.register_load_state_dict_post_hook(lambda o: seen.append([s["exp_avg"].clone() for s in o.state.values()]))
    optimizer.load_state_dict(saved)
    assert seen[1] == 4 and all(torch.equal(a / 2, b) for a, b in zip(before, seen[2])) and len(seen) == 3


DISTRIBUTED = ["adam | lr(0.1)", "prodigy", "lbfgs(history_size=3) | lr(0.1)", "clip_norm(1) | soap | lr(0.01)", "adam | adam | lr(0.1)",
               "lbfgs | strong_wolfe", "adafactor | lr(0.01)", "adam | lr(0.1) | direct_weight_decay(0.01)", "lr(0.1)"]


@pytest.mark.filterwarnings("ignore:torch.distributed")
@pytest.mark.parametrize("chain", DISTRIBUTED)
def test_distributed_checkpoints_carry_every_kind_of_state(chain, tmp_path):
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

    def step(model, optimizer):
        def closure():
            optimizer.zero_grad()
            loss = loss_of(model)
            loss.backward()
            return loss
        optimizer.step(closure)

    a, b = net(seed=1), net(seed=2)
    oa, ob = gt.Optimizer(a.parameters(), chain), gt.Optimizer(b.parameters(), chain)
    for _ in range(4):
        step(a, oa)
    weights, state = get_state_dict(a, oa)
    dcp.save({"model": weights, "optimizer": state}, checkpoint_id=tmp_path)
    start = bits(b)
    weights, state = get_state_dict(b, ob)
    assert same(start, bits(b))  # which makes a step to have state to load into
    saved = {"model": weights, "optimizer": state}
    dcp.load(saved, checkpoint_id=tmp_path)
    set_state_dict(b, ob, model_state_dict=saved["model"], optim_state_dict=saved["optimizer"])
    for _ in range(4):
        step(a, oa), step(b, ob)
    assert same(bits(a), bits(b))


# ---- closures ----

def rosenbrock(p):
    return (1 - p[0]) ** 2 + 100 * (p[1] - p[0] ** 2) ** 2


@pytest.mark.parametrize("chain", ["lbfgs | strong_wolfe", 'newton_cg(hvp_method="forward") | backtracking', "polak_ribiere | strong_wolfe",
                                   ADAM, "sam | lr(1e-4)", "polyak_step_size"])
@pytest.mark.parametrize("convention", ["plain", "backward"])
def test_closures_in_both_conventions(chain, convention):
    p = torch.nn.Parameter(torch.tensor([-1.2, 1.0], dtype=torch.double))
    optimizer = gt.Optimizer([p], chain)
    calls = []

    def plain():
        optimizer.zero_grad()
        loss = rosenbrock(p)
        loss.backward()
        calls.append(loss)
        return loss

    def with_backward(backward=True):
        loss = rosenbrock(p)
        if backward:
            optimizer.zero_grad()
            loss.backward()
        calls.append(loss)
        return loss

    first = rosenbrock(p).item()
    for step in range(15):
        calls.clear()
        with torch.no_grad():
            loss = optimizer.step(plain if convention == "plain" else with_backward)
        assert loss is calls[0]
        if step == 0:
            assert loss.item() == first
    assert rosenbrock(p).item() < first


def test_a_newton_step_takes_torchs_products():
    p = torch.nn.Parameter(torch.tensor([3.0, -2.0], dtype=torch.double))
    optimizer = gt.Optimizer([p], "newton_cg")

    def closure(backward=True):
        loss = (p[0] ** 2 + 10 * p[1] ** 2 + p[0] * p[1]).sum()
        if backward:
            optimizer.zero_grad()
            loss.backward()
        return loss

    optimizer.step(closure=closure)
    assert p.detach().abs().max() < 1e-6


def test_what_a_closure_raises_comes_out_and_parameters_are_as_before():
    p = torch.nn.Parameter(torch.tensor([-1.2, 1.0], dtype=torch.double))
    optimizer = gt.Optimizer([p], "lbfgs | strong_wolfe")
    calls = []

    def closure():
        calls.append(1)
        if len(calls) == 3:
            raise KeyError("mine")
        optimizer.zero_grad()
        loss = rosenbrock(p)
        loss.backward()
        return loss

    before = p.detach().clone()
    with pytest.raises(KeyError, match="mine"):
        for _ in range(3):
            before = p.detach().clone()
            optimizer.step(closure)
    assert torch.equal(p.detach(), before)
    optimizer.step(closure)


def test_products_are_differences_of_gradients_if_the_closure_does_not_take_backward():
    ended = []
    for takes in (True, False):
        p, calls = torch.nn.Parameter(torch.tensor([1.0, 2.0], dtype=torch.double)), []
        optimizer = gt.Optimizer([p], "newton_cg")

        def closure(backward=True):
            calls.append(1)
            loss = (p**4).sum()
            if backward:
                optimizer.zero_grad()
                loss.backward()
            return loss

        optimizer.step(closure if takes else lambda: closure())
        ended.append((p.detach().clone(), len(calls)))
    # one step of Newton on x^4 goes to 2 x / 3
    assert torch.allclose(ended[0][0], torch.tensor([2 / 3, 4 / 3], dtype=torch.double), atol=1e-3)
    assert torch.allclose(ended[0][0], ended[1][0], atol=1e-5) and ended[1][1] > ended[0][1]


def test_the_convention_is_that_of_the_closure_given():
    """Two functions in one wrapper, objects without a hash, partial functions: each by its own signature, and none is kept."""
    import functools

    p = torch.nn.Parameter(torch.tensor([-1.2, 1.0], dtype=torch.double))
    optimizer, asked = gt.Optimizer([p], "lbfgs | strong_wolfe"), []

    def logged(fn):
        @functools.wraps(fn)
        def inner(*args, **kwargs):
            asked.append(kwargs)
            return fn(*args, **kwargs)
        return inner

    @logged
    def plain():
        optimizer.zero_grad()
        loss = rosenbrock(p)
        loss.backward()
        return loss

    @logged
    def wide(backward=True):
        return plain() if backward else rosenbrock(p)

    class Callable:
        __hash__ = None

        def __call__(self, backward=True):
            return wide(backward=backward)

    for closure in (plain, wide, plain, Callable(), functools.partial(wide), lambda: plain()):
        optimizer.step(closure)
    assert {} in asked and {"backward": False} not in asked[:1] and len(optimizer._conventions) <= 1
    last, batch = functools.partial(wide), weakref.ref(wide)
    optimizer.step(last)
    del last, wide, closure, Callable
    gc.collect()
    assert batch() is None  # nothing of a closure stays


@pytest.mark.parametrize("wrong, kind", [(None, TypeError), (torch.ones(2), ValueError)])
def test_what_is_no_loss_is_told(wrong, kind):
    p = torch.nn.Parameter(torch.ones(2))
    with pytest.raises(kind, match="a closure returns"):
        gt.Optimizer([p], "lbfgs | strong_wolfe").step(lambda: wrong)
    assert p.tolist() == [1, 1]


def test_links_are_told_the_loss():
    p = torch.nn.Parameter(torch.tensor([3.0]))
    optimizer = gt.Optimizer([p], "save_best | terminate_on_loss_reached(4) | lr(0.25)")

    def closure():
        optimizer.zero_grad()
        loss = (p**2).sum()
        loss.backward()
        return loss

    assert optimizer.attr("best_loss") is None
    optimizer.step(closure)
    assert optimizer.attr("best_loss") == 9 and not optimizer.should_terminate
    loss = closure()
    optimizer.step(loss=loss)  # or with the gradients that are there
    assert optimizer.attr("best_loss") == 2.25 and optimizer.should_terminate and optimizer.steps == 2
    assert [t.tolist() for t in optimizer.attr("best_params").values()] == [[1.5]]
    assert optimizer.chain.startswith("save_best") and "pass" in optimizer.explain()


def test_averages_are_evaluated_with_and_taken_back():
    p, seen = torch.nn.Parameter(torch.tensor([4.0])), []
    optimizer = gt.Optimizer([p], "lr(0.5) | ema_weights(0.5)" if "ema_weights" in gd.link_names() else "lr(0.5) | swa")
    for _ in range(4):
        p.grad = p.detach().clone()
        optimizer.step()
        seen.append(p.item())
    version = p._version
    optimizer.evaluate(True)
    mean, raised = p.item(), p._version
    optimizer.evaluate(False)
    assert p.item() == seen[-1] and min(seen) < mean < max(seen) and version < raised < p._version


def test_a_chain_that_evaluates_needs_a_closure():
    p = torch.nn.Parameter(torch.zeros(2))
    p.grad = torch.ones(2)
    with pytest.raises(gd.StateError, match="needs a step with an objective"):
        gt.Optimizer([p], "lbfgs | strong_wolfe").step()


# ---- refusals ----

def test_what_cannot_be_is_refused_by_name():
    good = torch.nn.Parameter(torch.ones(2))
    with pytest.raises(ValueError, match="'weird' has no floating dtype"):
        gt.Optimizer([("weird", torch.ones(2, dtype=torch.int64))], ADAM)
    with pytest.raises(ValueError, match="'p0' .*"):
        gt.Optimizer([torch.nn.Parameter(torch.ones(2, device="meta"))], ADAM)
    with pytest.raises(ValueError, match="'gaps' has gaps in its memory"):
        gt.Optimizer([("gaps", torch.ones(4, 4)[:, ::2].requires_grad_())], ADAM)
    with pytest.raises(ValueError, match="empty parameter list"):
        gt.Optimizer([], ADAM)
    with pytest.raises(gd.ParseError):
        gt.Optimizer([good], "no_such_link")
    gt.Optimizer([good], ADAM, foreach=True, fused=True)


def test_a_sparse_gradient_is_refused_and_nothing_changes():
    model = torch.nn.Embedding(4, 2, sparse=True)
    optimizer = gt.Optimizer(model.parameters(), ADAM)
    model(torch.tensor([1])).sum().backward()
    before = bits(model)
    with pytest.raises(ValueError, match="'p0' has a gradient whose memory cannot be looked at"):
        optimizer.step()
    assert same(before, bits(model)) and not optimizer.state


def test_a_fake_tensor_is_refused():
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        p = torch.nn.Parameter(torch.ones(3))
    with pytest.raises(ValueError, match="'p0' has"):
        gt.Optimizer([p], ADAM)


def test_a_graph_that_somebody_records_is_refused(monkeypatch):
    """Without a GPU: as torch would say it there; test_a_recorded_graph_is_refused records one."""
    p = torch.nn.Parameter(torch.ones(2))
    optimizer = gt.Optimizer([p], ADAM)
    p.grad, optimizer._on_gpu = torch.ones(2), True
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    with pytest.raises(RuntimeError, match="cannot hold a step"):
        optimizer.step()
    assert p.tolist() == [1, 1]


def test_parameters_that_went_are_missed():
    p, q = torch.nn.Parameter(torch.ones(2)), torch.nn.Parameter(torch.ones(2))
    optimizer = gt.Optimizer([p, q], ADAM)
    optimizer.param_groups[0]["params"].pop()
    with pytest.raises(gd.StateError, match="other parameters than were added"):
        optimizer.step()


def test_parameters_put_into_a_list_by_hand_are_not_passed_over():
    p, q = torch.nn.Parameter(torch.ones(2)), torch.nn.Parameter(torch.ones(2))
    optimizer = gt.Optimizer([p], ADAM)
    optimizer.param_groups[0]["params"].append(q)
    p.grad, q.grad = torch.ones(2), torch.ones(2)
    with pytest.raises(gd.StateError, match="add_param_group adds some"):
        optimizer.step()
    assert torch.equal(p.detach(), torch.ones(2))


# ---- what surrounds a step ----

def test_hooks_run():
    model = net()
    optimizer = gt.Optimizer(model.parameters(), ADAM)
    seen = []
    optimizer.register_step_pre_hook(lambda o, args, kwargs: seen.append("before"))
    optimizer.register_step_post_hook(lambda o, args, kwargs: seen.append("after"))
    train(model, optimizer, 1)
    assert seen == ["before", "after"]
    from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

    handles = [register_optimizer_step_pre_hook(lambda o, args, kwargs: seen.append("all before")),
               register_optimizer_step_post_hook(lambda o, args, kwargs: seen.append("all after"))]
    train(model, optimizer, 1)
    for handle in handles:
        handle.remove()
    assert sorted(seen[2:]) == ["after", "all after", "all before", "before"]
    with torch.profiler.profile() as profile:
        train(model, optimizer, 1)
    assert any("Optimizer.step" in e.key for e in profile.key_averages())


def test_a_compiled_function_breaks_its_graph_at_a_step():
    """backend "eager": what is looked at is the tracing, which needs no compiler."""
    a, b = net(), net()
    oa, ob = gt.Optimizer(a.parameters(), ADAM), gt.Optimizer(b.parameters(), ADAM)

    @torch.compile(backend="eager")
    def compiled():
        oa.zero_grad()
        loss_of(a).backward()
        oa.step()

    torch._dynamo.utils.counters.clear()
    for _ in range(4):
        compiled()
    train(b, ob, 4)
    assert same(bits(a), bits(b)) and torch._dynamo.utils.counters["graph_break"]
    with pytest.raises(torch._dynamo.exc.Unsupported):
        torch.compile(lambda: oa.step(), backend="eager", fullgraph=True)()


def test_a_scaler_unscales_and_skips():
    model = net(torch.float)
    optimizer = gt.Optimizer(model.parameters(), ADAM)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    before = bits(model)
    scaler.scale(loss_of(model)).backward()
    next(model.parameters()).grad[0, 0] = math.inf
    scaler.step(optimizer)
    scaler.update()
    assert same(before, bits(model))
    optimizer.zero_grad()
    scaler.scale(loss_of(model)).backward()
    scaler.step(optimizer)
    assert not same(before, bits(model))


def test_memory_is_flat():
    model = net(torch.float)
    optimizer = gt.Optimizer(model.parameters(), ADAMW)
    train(model, optimizer, 20)
    live = optimizer._core.context.live
    train(model, optimizer, 200)
    assert optimizer._core.context.live == live
    ref = weakref.ref(optimizer)
    del optimizer
    gc.collect()
    assert ref() is None


def test_threads_take_turns():
    import threading

    model = [net(torch.float, seed) for seed in range(4)]
    optimizers = [gt.Optimizer(m.parameters(), ADAM) for m in model]
    threads = [threading.Thread(target=train, args=(m, o, 30)) for m, o in zip(model, optimizers)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for seed, m in enumerate(model):
        other = net(torch.float, seed)
        train(other, gt.Optimizer(other.parameters(), ADAM), 30)
        assert distance(m, other) <= 1e-6


# ---- GPUs ----

gpu = pytest.mark.skipif(not torch.cuda.is_available() or not gd._core.gpu_count(), reason="no GPU")


def on_gpu(model):
    return model.cuda()


def gpu_loss(model):
    p = next(model.parameters())
    return ((model(X.to(p)) - Y.to(p)) ** 2).mean()


def gpu_train(model, optimizer, steps):
    for _ in range(steps):
        optimizer.zero_grad()
        gpu_loss(model).backward()
        optimizer.step()


@gpu
@pytest.mark.parametrize("stream", [False, True], ids=["default stream", "a stream of its own"])
def test_steps_on_a_gpu_agree_with_torch(stream):
    a, b = on_gpu(net()), on_gpu(net())
    with torch.cuda.stream(torch.cuda.Stream() if stream else torch.cuda.default_stream()):
        torch.cuda.current_stream().wait_stream(torch.cuda.default_stream())
        gpu_train(a, O.AdamW(a.parameters(), lr=1e-2, weight_decay=0.1), 20)
        gpu_train(b, gt.Optimizer(b.parameters(), ADAMW), 20)
        torch.cuda.synchronize()
    assert distance(a, b) <= 1e-12


@gpu
def test_a_parameter_without_gradient_on_a_gpu_counts_its_own_steps():
    a, b = on_gpu(net()), on_gpu(net())
    oa, ob = O.AdamW(a.parameters(), lr=1e-2, weight_decay=0.1), gt.Optimizer(b.parameters(), ADAMW)
    for step in range(12):
        for model, optimizer in ((a, oa), (b, ob)):
            optimizer.zero_grad()
            gpu_loss(model).backward()
            for k, p in enumerate(model.parameters()):
                if step % (k + 1):
                    p.grad = None
            optimizer.step()
    assert distance(a, b) <= 1e-12


@gpu
def test_state_goes_to_a_gpu_and_back():
    model = net()
    optimizer = gt.Optimizer(model.parameters(), ADAM)
    train(model, optimizer, 3)
    other = on_gpu(net())
    other.load_state_dict(model.state_dict())
    there = gt.Optimizer(other.parameters(), ADAM)
    there.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    gpu_train(other, there, 3), train(model, optimizer, 3)
    assert distance(model, other.cpu()) <= 1e-12
    gpu_train(other, there, 1)  # and its state has followed it


@gpu
def test_no_step_waits_for_the_gpu():
    model = on_gpu(net(torch.float))
    optimizer = gt.Optimizer(model.parameters(), "clip_norm(1) | adam | lr(1e-3)")
    gpu_train(model, optimizer, 3)
    for p in model.parameters():
        p.grad = torch.ones_like(p)
    torch.cuda.synchronize()
    torch.cuda._sleep(1 << 28)  # the GPU is busy for a while
    import time

    begin = time.perf_counter()
    for _ in range(20):
        optimizer.step()
    queued = time.perf_counter() - begin
    torch.cuda.synchronize()
    assert queued < 0.5 * (time.perf_counter() - begin)


@gpu
def test_a_recorded_graph_is_refused():
    model = on_gpu(net(torch.float))
    optimizer = gt.Optimizer(model.parameters(), ADAM)
    gpu_train(model, optimizer, 1)
    for p in model.parameters():
        p.grad = torch.ones_like(p)
    with pytest.raises(RuntimeError, match="cannot hold a step"):
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            optimizer.step()
