"""Settings are values: none becomes part of a chain's text.  What is set for all and for groups, and the warnings of it."""
import os
import warnings

import pytest

import gradus as gd
from gradus import m


def parameter(*values):
    return gd.tensor(list(values), requires_grad=True)


@pytest.mark.parametrize("wrong", [
    lambda: m.clip_norm("1)|lr(100"), lambda: m.lr("0.1, 5"), lambda: m.adam(beta1="0.5, beta2=0"), lambda: m.sgd("0.1), lr(5"),
    lambda: m.multistep("adam]) | lr([9", 3), lambda: m.adam(inner="lr(1)), lr(2"), lambda: m.adam(eps_at='raw") | lr(9'),
    lambda: m.adam(eps_at='raw"'), lambda: m.online("adam", "lr(1), adam"), lambda: m.box(0, "[1], lr(2"), lambda: m.adam(beta1="a\0b")])
def test_no_value_of_a_setting_is_more_than_a_value(wrong):
    with pytest.raises((ValueError, gd.Error)):
        wrong()


def test_values_may_be_of_numpy():
    np = pytest.importorskip("numpy")
    assert str(m.lr(np.float32(0.5)) | m.adam(amsgrad=np.True_)) == "lr(0.5) | adam(amsgrad=true)"
    assert m.box(0, np.array([1, 2])) == m.box(0, [1, 2]) and m.lr(np.int64(2)) == m.lr(2)


def test_texts_of_numbers_and_schedules_are_read():
    assert str(m.lr("0.5") | m.lr("1/2") | m.lr("constant(0.5)")) == "lr(0.5) | lr(0.5) | lr(constant(0.5))"
    assert str(m.add("adam") | m.add("cosine(1, 0, 9)")) == "add(adam) | add(cosine(1, 0, 9))"
    assert str(m.adamw("cosine(1, 0, 9)")) == str(gd.Chain("adamw(cosine(1, 0, 9))"))


def test_no_value_of_a_group_is_more_than_a_value():
    a, b = parameter(1.0), parameter(1.0)
    optimizer = gd.Optimizer([a, b], "adam | lr(1)")
    for settings in ({"lr": "0.1, beta1=0"}, {"eps_at": "raw, lr=4"}, {"lr=0.1, beta1": 1}, {"lr": '"1"'}, {"beta1": [1]}):
        with pytest.raises((TypeError, gd.Error)):
            optimizer.group("*", **settings)
        with pytest.raises((TypeError, gd.Error)):
            gd.Optimizer([{"params": [a], **settings}], "adam | lr(1)")
        assert optimizer.groups == 1
    optimizer.group("p0", eps_at="raw", lr="linear(1, 0, 4)", amsgrad=True)
    assert optimizer.groups == 2


@pytest.mark.parametrize("name", ['quote"', "back\\slash", "new\nline", "p | lr(3)", "*", "a.b[0]", "größe", "=,;:"])
def test_names_with_special_characters_are_names(name, tmp_path):
    def run(steps, x, load):
        optimizer = gd.Optimizer({name: x, "other": parameter(1.0)}, "heavy_ball | lr(0.1)")
        if load:
            optimizer.load(tmp_path / "state")
        for _ in range(steps):
            optimizer.step(lambda: (x**2).sum())
        optimizer.save(tmp_path / "state")
        return x.tolist()
    assert run(2, parameter(*run(3, parameter(1.0, 2.0), False)), True) == run(5, parameter(1.0, 2.0), False)


def test_groups_are_counted_from_the_first():
    a, b = parameter(1.0), parameter(1.0)
    optimizer = gd.Optimizer([{"params": [a], "lr": 0.5}, {"params": {"b": b}, "lr": 0.25}], "lr(1)")
    assert optimizer.groups == 2
    optimizer.set("lr", 3.0, group=0)
    optimizer.step(lambda: a.sum() + b.sum())
    assert (a.item(), b.item()) == (-2, 0.75)


@pytest.mark.parametrize("value", [0.5, "constant(0.5)"])
def test_what_is_set_for_all_leaves_the_groups_their_own(value):
    a, b = parameter(1.0), parameter(1.0)
    optimizer = gd.Optimizer([{"params": [a]}, {"params": {"b": b}, "lr": 0.25}], "lr(1)")
    optimizer.set("lr", value)
    optimizer.step(lambda: a.sum() + b.sum())
    assert (a.item(), b.item()) == (0.5, 0.75)
    optimizer.set("lr", 2.0, group=0)
    with pytest.raises(ValueError, match="every group has its own 'lr'"):
        optimizer.set("lr", value)


def warned(fn):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        try:
            fn()
        except gd.Error:
            pass
    return [(str(w.message), os.path.basename(w.filename)) for w in seen]


def test_two_rates_are_warned_about_when_they_meet():
    x = parameter(1.0)
    (text, file), = warned(lambda: gd.Optimizer([x], m.lr(1) | m.adam() | m.lr(2)))
    assert "2 links of the chain have a setting 'lr'" in text and file == "test_settings.py"
    assert not warned(lambda: gd.Optimizer([x], 'split("*", lr(1), lr(2))'))  # a parameter meets one


def test_warnings_come_with_the_call_that_causes_them():
    x = parameter(1.0)
    optimizer = gd.Optimizer([x], "heavy_ball | nag | lr(1)")
    (text, file), = warned(lambda: optimizer.group("*", momentum=0.5))
    assert "2 links have a setting 'momentum'" in text and file == "test_settings.py"
    (text, _), = warned(lambda: gd.Optimizer([x], "heavy_ball | nag").set("momentum", 0.5))
    assert "momentum" in text
    # a call that warns and fails does both
    seen = warned(lambda: gd.Optimizer([{"params": [x], "momentum": 0.5, "nonsense": 1}], "heavy_ball | nag"))
    assert ["momentum" in text for text, _ in seen] == [True]
    assert not warned(lambda: x.detach().copy())
