"""Links and rules written in Python, against the library's own and against straight loops."""
import gc

import pytest

import gradus as gd
from gradus import m


@gd.rule(state=["velocity"])
def py_momentum(r, update, beta=0.9):
    """Momentum in Python."""
    v = beta * r.state("velocity") + update
    r.set("velocity", v)
    return v


@gd.rule(state=["exp_avg", "exp_avg_sq"])
def py_adam(r, update, beta1=0.9, beta2=0.999, eps=1e-8, debiased=True):
    average = r.average("exp_avg", update, beta1)
    square = r.average("exp_avg_sq", update * update, beta2)
    if debiased:
        average, square = average / r.bias(beta1), square / r.bias(beta2)
    return average / (r.sqrt(square) + eps)


@gd.rule
def py_clip(r, update, limit=1.0):
    norm = r.norm(update)
    return r.where(norm > limit, update * (limit / norm), update)


@gd.link(state=["average"])
class py_ema:
    """An average of updates."""

    beta = 0.9

    def update(self, t):
        for i, u in enumerate(t.tensors):
            a = t.state(i, "average")
            a.assign(a + (1 - t.setting("beta", i)) * (u - a))

    def apply(self, t):
        return [t.state(i, "average") for i in range(len(t))]


def run(chain, steps=20, dtype="f64", groups=False):
    x = gd.tensor([1.0, -2.0, 0.5], dtype=dtype, requires_grad=True)
    y = gd.tensor([[3.0]], dtype=dtype, requires_grad=True)
    params = [{"params": [x]}, {"params": [y], "beta": 0.5}] if groups else [x, y]
    optimizer = gd.Optimizer(params, chain)
    losses = [optimizer.step(lambda: (x**4).sum() + (y**2).sum() * x[0] ** 2) for _ in range(steps)]
    return losses, x.tolist(), y.tolist(), optimizer


@pytest.mark.parametrize("name", ["sin", "sigmoid", "erf", "log1p", "ceil", "rsqrt", "atan2", "mod", "relu", "lgamma"])
def test_a_rule_has_the_functions_of_tensors(name):
    x = gd.tensor([0.5, 1.25, 2.0], dtype="f64", requires_grad=True)
    two = name in ("atan2", "mod")

    @gd.rule
    def of_the_update(r, update):
        return getattr(r, name)(update, 0.75) if two else getattr(update, name)()

    gd.Optimizer([x], of_the_update() | m.lr(1.0)).step(lambda: (x**2).sum() / 2)
    start = gd.tensor([0.5, 1.25, 2.0], dtype="f64")
    expected = getattr(gd, name)(start, gd.tensor(0.75, dtype="f64")) if two else getattr(gd, name)(start)
    assert x.tolist() == (start - expected).tolist()


def test_a_rule_is_what_its_loop_says():
    _, x, _, _ = run(py_momentum(0.8) | m.lr(0.01), steps=5)
    p, v, q, w = [1.0, -2.0, 0.5], [0.0] * 3, 3.0, 0.0
    for _ in range(5):
        g = [4 * a**3 for a in p]
        g[0] += 2 * p[0] * q * q
        h = 2 * q * p[0] ** 2
        v = [0.8 * a + b for a, b in zip(v, g)]
        w = 0.8 * w + h
        p, q = [a - 0.01 * b for a, b in zip(p, v)], q - 0.01 * w
    assert x == pytest.approx(p, rel=1e-12)


@pytest.mark.parametrize("dtype", ["f64", "f32"])
def test_adam_in_python_is_the_library_s(dtype):
    ours, theirs = run(py_adam() | m.lr(0.05), dtype=dtype), run('adam(eps_at="corrected") | lr(0.05)', dtype=dtype)
    assert ours[1] == pytest.approx(theirs[1], rel=1e-10 if dtype == "f64" else 1e-5)
    assert run(py_adam(debiased=False) | m.lr(0.05))[1] == pytest.approx(run("adam(debiased=false) | lr(0.05)")[1], rel=1e-10)


def test_rules_fuse_with_their_neighbours():
    text = run(py_momentum() | py_adam() | m.lr(0.01), steps=1)[3].explain()
    assert "py_momentum" in text and "1 pass" in text


def test_a_reduction_in_a_rule():
    assert run(py_clip(0.5) | m.lr(0.1))[1] == pytest.approx(run("clip_norm(0.5) | lr(0.1)")[1], rel=1e-10)


def test_a_link_of_tensors_is_the_library_s():
    assert run(py_ema(0.7) | m.lr(0.05))[1] == pytest.approx(run("ema(0.7) | lr(0.05)")[1], rel=1e-12)


def test_groups_and_schedules_reach_python_s_links():
    for ours in (py_ema(), py_momentum()):
        _, x, y, optimizer = run(ours | m.lr(0.01), groups=True)
        plain = run(ours | m.lr(0.01))
        assert optimizer.groups == 2 and y != plain[2]
        optimizer.set("beta", "linear(0.9, 0, 10)")
        optimizer.step(lambda: sum((p**2).sum() for p in optimizer.parameters.values()))


def test_state_is_saved_and_loaded(tmp_path):
    for ours in (py_ema(0.7), py_momentum(0.7)):
        x = gd.tensor([1.0, 2.0], requires_grad=True)
        one = gd.Optimizer({"x": x}, ours | m.lr(0.1))
        one.step(lambda: (x**2).sum())
        one.save(tmp_path / "state")
        y = gd.tensor(x.tolist(), requires_grad=True)
        two = gd.Optimizer({"x": y}, ours | m.lr(0.1))
        two.load(tmp_path / "state")
        one.step(lambda: (x**2).sum()), two.step(lambda: (y**2).sum())
        assert x.tolist() == y.tolist()


def test_they_stand_in_texts_and_inside_others():
    assert str(m.multistep(py_ema(0.5) | m.lr(0.1), 3)) == "multistep([py_ema(beta=0.5) | lr(0.1)], 3)"
    assert run("py_momentum(0.8) | lr(0.01)", 3)[1] == run(py_momentum(0.8) | m.lr(0.01), 3)[1]
    assert gd.minimize(lambda x: (x**2).sum(), [1.0], py_ema(0.1) | m.lr(0.4)).success


def test_what_they_raise_comes_out_with_the_parameters_as_before():
    @gd.link
    class fails:
        def apply(self, t):
            raise LookupError("inside")

    @gd.rule
    def undecided(r, update):
        return update if update > 0 else -update

    @gd.link
    class wrong:
        def apply(self, t):
            return [1.0]

    for ours, kind, says in ((fails(), LookupError, "inside"), (undecided(), TypeError, "where"), (wrong(), TypeError, "tensors")):
        x = gd.tensor([1.0, 2.0], requires_grad=True)
        with pytest.raises(kind, match=says):
            gd.Optimizer([x], ours | m.lr(0.1)).step(lambda: (x**2).sum())
        assert x.tolist() == [1, 2]
    with pytest.raises(TypeError, match="apply"):
        gd.link(type("nothing", (), {}))
    with pytest.raises(TypeError, match="defaults"):
        gd.rule(lambda r, update, needed: update)


@pytest.mark.parametrize("where", ["update", "apply", "step"])
@pytest.mark.parametrize("what", ["sets", "appends", "appends_to_class", "deletes"])
def test_state_on_self_is_refused(where, what):
    def act(self):
        if what == "sets":
            self.count = 1 + getattr(self, "count", 0)
        elif what == "deletes":
            del self.there
        else:
            (self.kept if what == "appends" else self._kept).append(1)

    class stateful:
        _kept = []

        def __init__(self):
            self.kept, self.there, self.table = [], 1, {"constants": 2}

    def apply(self, t):
        if where == "apply":
            act(self)
    if where == "step":
        stateful.step = lambda self, var: act(self)
    else:
        stateful.apply, stateful.update = apply, lambda self, t: act(self) if where == "update" else None
    make = gd.link(stateful)
    name = {"sets": "count", "deletes": "there", "appends": "kept", "appends_to_class": "_kept"}[what]
    x = gd.tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(gd.StateError, match=f"stateful.*self.{name}.*state belongs to the optimizer"):
        gd.Optimizer([x], make() | m.lr(0.1)).step(lambda: (x**2).sum())
    assert x.tolist() == [1, 2]


def test_state_of_a_link_belongs_to_each_optimizer():
    def run(*optimizers_of):
        out = [gd.tensor([1.0, 2.0], requires_grad=True) for _ in optimizers_of]
        optimizers = [gd.Optimizer([x], py_ema() | m.lr(0.1)) for x in out]
        for _ in range(3):
            for x, o in zip(out, optimizers):
                o.step(lambda x=x: (x**2).sum())
        return [x.tolist() for x in out]
    assert run(0, 1) == run(0) * 2


def test_values_and_transforms_do_not_outlive_their_call():
    kept = []

    @gd.rule
    def keeps(r, update):
        kept.append(update)
        return update

    @gd.link
    class keeps_too:
        def apply(self, t):
            kept.append(t)
            return None
    x = gd.tensor([1.0], requires_grad=True)
    gd.Optimizer([x], keeps() | keeps_too() | m.lr(0.1)).step(lambda: (x**2).sum())
    with pytest.raises(gd.StateError):
        kept[0] + 1
    with pytest.raises(gd.StateError):
        kept[-1].state(0, "any")


def test_a_name_defined_again_is_another_link():
    first = gd.rule(lambda r, update: update * 2)
    second = gd.rule(lambda r, update: update * 3)
    assert str(first()) != str(second())


def test_steps_of_python_s_links_keep_no_memory():
    x = gd.tensor([1.0, 2.0], requires_grad=True)
    optimizer = gd.Optimizer([x], py_ema() | py_momentum() | m.lr(0.01))
    optimizer.step(lambda: (x**2).sum())
    gc.collect()
    before = gd.current_context().live
    for _ in range(50):
        optimizer.step(lambda: (x**2).sum())
    gc.collect()
    assert gd.current_context().live == before


def test_a_mask_of_signs_is_one_where_the_sign_stays_and_zero_where_it_turned():
    slopes = [[1.0, 2.0], [3.0, -1.0], [-2.0, -4.0], [0.0, 5.0], [-1.0, 6.0]]
    for chain, wanted in (("sign_consistency_mask | lr(1)", [[1, 1], [1, 0], [0, 1], [1, 0], [1, 1]]),
                          ("mul(sign_consistency_mask) | lr(1)", [[1, 2], [3, 0], [0, -4], [0, 0], [-1, 6]])):
        x = gd.tensor([0.0, 0.0], requires_grad=True)
        optimizer = gd.Optimizer([x], chain)
        for slope, want in zip(slopes, wanted):
            before = x.tolist()
            optimizer.step(lambda: (x * gd.tensor(slope)).sum())
            assert [a - b for a, b in zip(before, x.tolist())] == want


def test_centralize_takes_one_mean_of_all_tensors():
    x, y = gd.tensor([1.0, 2.0, 6.0], requires_grad=True), gd.tensor([[10.0, 20.0], [30.0, 40.0]], requires_grad=True)
    gd.Optimizer([x, y], 'centralize(dim="global") | lr(1)').step(lambda: (x**2).sum() / 2 + (y**2).sum() / 2)
    mean = 109 / 7
    assert x.tolist() == pytest.approx([mean] * 3) and sum(y.tolist(), []) == pytest.approx([mean] * 4)
    gd.Optimizer([x, y], 'centralize(dim="global", min_size=8) | lr(1)').step(lambda: (x**2).sum() / 2 + (y**2).sum() / 2)
    assert x.tolist() == pytest.approx([0, 0, 0], abs=1e-12)
