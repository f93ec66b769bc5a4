"""Attributes of modules beyond the reference: names without gradients, properties, values that are kept."""
import pytest

import gradus as gd
from gradus import Module, VirtualTensor


def names(net):
    return set(net.named_parameters().keys()), set(net.named_buffers().keys())


def test_a_text_is_one_name_without_gradients():
    class Net(Module):
        no_grad_tensors = "mask"

    class Below(Net):
        no_grad_tensors = "scale"
    for cls, buffers in ((Net, {"mask"}), (Below, {"mask", "scale"})):
        net = cls()
        for name in ("mask", "scale", "m"):
            setattr(net, name, gd.ones(1).require_grad())
        assert names(net) == ({"mask", "scale", "m"} - buffers, buffers) and cls.no_grad_tensors == buffers


def test_names_count_when_the_attribute_is_assigned():
    class Mixin:
        no_grad_tensors = {"late"}

    class Net(Module, Mixin):
        pass
    net = Net()
    Net.no_grad_tensors = {"own"}
    Mixin.no_grad_tensors.add("later")
    Net.__mro__[1].no_grad_tensors, before = frozenset({"of_base"}), Module.no_grad_tensors
    try:
        for name in ("late", "later", "own", "of_base", "free"):
            setattr(net, name, gd.ones(1).require_grad())
    finally:
        Module.no_grad_tensors = before
    assert names(net) == ({"free"}, {"late", "later", "own", "of_base"})
    assert not net.own.requires_grad and net.free.requires_grad
    del net.own
    Net.no_grad_tensors = ()
    net.own = gd.ones(1).require_grad()
    assert names(net)[0] == {"free", "own"}


def test_names_that_would_count_nowhere_are_refused():
    with pytest.raises(TypeError, match="Net.no_grad_tensors"):
        class Net(Module):
            no_grad_tensors = {1}
    with pytest.raises(TypeError, match="belongs to the class"):
        Module().no_grad_tensors = {"mask"}


def test_a_property_with_a_setter_registers_what_it_keeps_once():
    class Net(Module):
        @property
        def weight(self):
            return self._weight

        @weight.setter
        def weight(self, value):
            self._weight = value * 2

    class Slots(Module):
        __slots__ = ("weight",)
    net = Net()
    net.weight = gd.ones(2).require_grad()
    assert names(net) == ({"_weight"}, set()) and net.weight.tolist() == [2, 2] and net.weight is net._weight
    assert len(gd.Optimizer(net, "lr(1)").parameters) == 1 and set(net.state_dict()) == {"_weight"}
    slots = Slots()
    slots.weight = gd.ones(2).require_grad()
    assert set(slots.named_parameters().keys()) == {"weight"}


def test_kept_values_are_kept_until_something_of_the_owner_changes():
    class Net(Module):
        pass
    net, calls = Net(), []
    net.w, net.below, net.factor = gd.tensor([1.0, 2.0]).require_grad(), Net(), 3.0
    net.below.mask = gd.ones(2)

    def scaled(owner, dtype, device):
        calls.append(1)
        return owner.w * owner.below.mask * owner.factor * len(owner.parameters())
    VirtualTensor.create(net, "scaled", scaled, dtype="f64", memoise=True)
    count = 0

    def reads(*values):
        nonlocal count
        for _ in range(3):
            assert net.scaled.value.tolist() == list(values)
        count += 1
        assert len(calls) == count
    reads(6, 12)
    net.factor = 1.0
    reads(2, 4)
    net.below.mask.assign(gd.tensor([1.0, 0.0]))
    reads(2, 0)
    net.below.mask = gd.ones(2)
    reads(2, 4)
    net.more = gd.ones(1)
    reads(3, 6)
    del net.more
    reads(2, 4)
    optimizer = gd.Optimizer(net, "lr(0.25)")
    optimizer.step(lambda: net.scaled.value.sum())
    assert len(calls) == count  # the step reads what is there
    reads(1, 3)
    net.below.inner = Net()
    reads(1, 3)
    net.below.inner.w = gd.ones(1)
    reads(1.5, 4.5)


# ---- functionals ----

def functional(*bases):
    return type("Scan", bases or (gd.Functional,), {})


def answer(cls, obj_type, text):
    cls.register(obj_type)(lambda functional, obj, **keywords: (text, keywords))


def test_functions_are_found_in_the_order_of_pythons_classes():
    class A: pass
    class B(A): pass
    class C(A): pass
    class D(B, C): pass
    upper = functional()
    left, right = functional(upper), functional(upper)
    both = functional(left, right)
    pairs = [(f, o) for f in (upper, left, right, both) for o in (object, A, B, C, D)]
    for f, o in pairs:
        assert not f().allows(o())
    for count, (f, o) in enumerate([pairs[i] for i in (0, 6, 13, 8, 3, 14, 16, 19)]):
        answer(f, o, count)
        table = {pair: pair[0].get_applicable_types() for pair in pairs}
        known = {(f, o): i for i, (f, o) in enumerate([pairs[i] for i in (0, 6, 13, 8, 3, 14, 16, 19)][:count + 1])}
        for called, given in pairs:
            expected = next((known[f, o] for o in given.__mro__ for f in called.__mro__ if (f, o) in known), None)
            assert called().allows(given()) == (expected is not None)
            assert expected is None or called()(given(), key=1) == (expected, {"key": 1})
            assert table[called, given] == tuple(o for f, o in known if f is called)


def test_any_class_of_python_takes_part():
    import enum
    import fractions

    class Colour(enum.Enum):
        RED = 1
    f = functional()
    for number, kind in enumerate((int, str, type(None), dict, fractions.Fraction, Colour, type, gd.Tensor)):
        answer(f, kind, number)
    found = [f()(x)[0] for x in (7, True, "x", None, {}, fractions.Fraction(1, 2), Colour.RED, int, gd.ones(1))]
    assert found == [0, 0, 1, 2, 3, 4, 5, 6, 7]
    assert f.get_applicable_types() == (int, str, type(None), dict, fractions.Fraction, Colour, type, gd.Tensor)


def test_the_same_pair_again_replaces_and_lets_go_of_the_function_before():
    import gc
    import weakref

    f = functional()

    def first(functional, obj): return "first"
    gone = weakref.ref(first)
    f.register(int)(first)
    assert f()(1) == "first"
    f.register(int)(lambda functional, obj: "second")
    del first
    gc.collect()
    assert f()(1) == "second" and f.get_applicable_types() == (int,) and gone() is None


def test_functionals_need_no_context_and_run_while_they_register():
    f = functional()

    def once(functional, obj):
        answer(type(functional), bool, "later")
        return functional(True)[0]
    f.register(int)(once)
    before = gd.current_context()
    context = gd.Context()
    context.use()
    assert f()(1) == "later"
    before.use()
    context.close()
    assert f()(True) == ("later", {})
