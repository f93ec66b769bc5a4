"""What the documents of the reference systems say of modules, functionals and virtual tensors, statement by statement."""
import gc

import pytest

import gradus as gd
from gradus import Device, Module, Tensor, VirtualTensor, no_grad_tensors


class MyObject:
    pass


# ---- modules own tensors by value ----

class Linear(Module):
    def __init__(self):
        super().__init__()
        self.weight = gd.tensor([[1.0, 2.0], [3.0, 4.0]], axes="row, col", requires_grad=True)
        self.plain = 3


def test_a_module_starts_on_the_cpu():
    assert Module().device == Device("cpu")


def test_the_attribute_stays_a_labelled_tensor_over_the_registered_parameter():
    net = Linear()
    assert isinstance(net.weight, Tensor) and net.weight.axes == ("row", "col")
    assert getattr(net, "tensor:weight").tolist() == net.weight.tolist()
    assert [name for name, _, _ in net._parameters()] == ["weight"]
    assert [registered for _, registered, _ in net._parameters()] == ["tensor:weight"]
    net.weight.assign(0)
    assert getattr(net, "tensor:weight").tolist() == [[0, 0], [0, 0]]


def test_assignment_copies():
    source = gd.ones(3).require_grad()
    net = Module()
    net.weight = source
    source.assign(7)
    assert net.weight.tolist() == [1, 1, 1]
    net.weight.assign(2)
    assert source.tolist() == [7, 7, 7]


def test_a_parameter_wants_gradients_where_its_source_did():
    net = Module()
    net.a, net.b = gd.ones(2).require_grad(), gd.ones(2)
    assert net.a.requires_grad and not net.b.requires_grad
    assert set(net.named_parameters().keys()) == {"a", "b"}


def test_history_does_not_come_along():
    x = gd.ones(2).require_grad()
    net = Module()
    net.w = x * 2
    assert net.w.is_leaf and net.w.requires_grad


@no_grad_tensors("basis", "projector")
class MyModule(Module):
    ...


def test_no_grad_tensors_are_buffers():
    net = MyModule()
    net.basis = gd.ones(3).require_grad()
    net.weight = gd.ones(3).require_grad()
    assert not net.basis.requires_grad
    assert set(net.named_buffers().keys()) == {"basis"} and set(net.named_parameters().keys()) == {"weight"}
    assert getattr(net, "buffer:basis").tolist() == [1, 1, 1]
    assert "basis" in net.state_dict()


def test_the_annotation_is_inherited_and_extends():
    @no_grad_tensors("mask")
    class Below(MyModule):
        pass

    class Further(Below):
        no_grad_tensors = {"scale"}
    assert Below.no_grad_tensors == {"basis", "projector", "mask"}
    assert MyModule.no_grad_tensors == {"basis", "projector"}
    assert Further.no_grad_tensors == {"basis", "projector", "mask", "scale"}
    net = Further()
    for name in ("basis", "mask", "scale", "free"):
        setattr(net, name, gd.ones(1))
    assert set(net.named_buffers().keys()) == {"basis", "mask", "scale"}


def test_replacing_and_deleting_remove_the_registration():
    net = Linear()
    net.weight = "not a tensor"
    assert not net.named_parameters() and net.weight == "not a tensor"
    net = Linear()
    del net.weight
    assert not net.named_parameters()
    with pytest.raises(AttributeError, match="weight"):
        net.weight
    with pytest.raises(AttributeError):
        del net.weight


def test_assigned_objects_that_have_a_device_are_moved():
    class Bounded:
        def __init__(self, device):
            self.device = device

        def to_device(self, device):
            return Bounded(device)
    net = Module()
    net.thing = Bounded("elsewhere")
    assert net.thing.device == net.device


def test_export_is_a_detached_copy():
    net = Linear()
    snapshot = net.export("weight")
    net.weight.assign(0)
    assert snapshot.tolist() == [[1, 2], [3, 4]] and snapshot.axes == ("row", "col") and not snapshot.requires_grad
    with pytest.raises(AttributeError):
        net.export("missing")
    with pytest.raises(TypeError, match="Attribute 'plain' is not a Tensor"):
        net.export("plain")


def test_export_all_has_dotted_names():
    net = Module()
    net.inner = MyModule()
    net.inner.basis = gd.ones(2)
    net.weight = gd.ones(1)
    exported = net.export_all()
    assert set(exported) == {"weight", "inner.basis"}
    net.inner.basis.assign(9)
    assert exported["inner.basis"].tolist() == [1, 1]
    assert net.export("inner.basis").tolist() == [9, 9]


def test_freeze_and_unfreeze_are_recursive_and_leave_buffers_alone():
    net = Module()
    net.inner = MyModule()
    net.inner.basis, net.inner.weight = gd.ones(2), gd.ones(2).require_grad()
    net.weight = gd.ones(1).require_grad()
    assert net.freeze() is net
    assert not net.weight.requires_grad and not net.inner.weight.requires_grad
    assert net.unfreeze() is net
    assert net.weight.requires_grad and net.inner.weight.requires_grad and not net.inner.basis.requires_grad


def test_moving_gives_the_module_back_or_says_why_not():
    net = Linear()
    assert net.to_device(Device("cpu")) is net and net.cpu() is net
    if not gd.gpu_count():
        with pytest.raises(gd.DeviceError):
            net.gpu()
        with pytest.raises(gd.DeviceError):
            net.gpu(0)
        assert net.device == "cpu"
    assert net.to("f32") is net and net.weight.dtype == "f32"


def test_a_module_that_would_hold_itself_is_refused():
    net = Module()
    net.child = Module()
    with pytest.raises(gd.CycleError):
        net.child.parent = net
    assert not hasattr(net.child, "parent")


def test_an_optimizer_changes_the_module_s_tensors():
    net = Linear()
    optimizer = gd.Optimizer(net, "lr(0.5)")
    assert set(optimizer.parameters) == {"weight"}
    optimizer.step(lambda: (net.weight**2).sum() / 2)
    assert net.weight.tolist() == [[0.5, 1], [1.5, 2]]
    net.weight = gd.ones((2, 2)).rename("row, col").detach().require_grad()  # another tensor: the optimizer still has the old one
    with pytest.warns(gd.GradusWarning, match="'weight' has replaced or deleted it"):
        optimizer.step(lambda: (net.weight**2).sum())
    assert optimizer.info["detached_params"] == 1 and net.weight.tolist() == [[1, 1], [1, 1]]
    optimizer.rebind(net)
    optimizer.step(lambda: (net.weight**2).sum() / 2)
    assert net.weight.tolist() == [[0.5, 0.5], [0.5, 0.5]]


def test_state_goes_to_disk_and_back(tmp_path):
    net, other = Linear(), Linear()
    net.weight.assign(5)
    net.save(tmp_path / "net.safetensors")
    report = other.load(tmp_path / "net.safetensors")
    assert other.weight.tolist() == [[5, 5], [5, 5]] and report.loaded == 1
    with pytest.raises(gd.MismatchError, match="missing"):
        other.load_state_dict({})
    assert other.load_state_dict({}, strict=False).missing == ["weight"]
    assert other.load_state_dict(net.state_dict()).loaded == 1
    with pytest.raises(OSError):
        net.load(tmp_path / "nothing.safetensors")
    assert gd.load(tmp_path / "net.safetensors")["weight"].axes == ("row", "col")


# ---- functionals ----

class MyFunctional(gd.Functional):
    pass


class Below(MyFunctional):
    pass


@MyFunctional.register(MyObject)
def _(functional: MyFunctional, obj: MyObject, scale=1):
    return ("base", scale)


def test_dispatch_by_both_classes():
    class Special(MyObject):
        pass
    assert MyFunctional()(MyObject()) == ("base", 1)
    assert Below().invoke(Special(), scale=3) == ("base", 3)
    assert Below().allows(Special()) and not Below().allows(3)

    @Below.register(Special)
    def _(functional, obj):
        return "special"
    assert Below()(Special()) == "special" and MyFunctional()(Special()) == ("base", 1)
    # the object's order is searched first, and for each of its classes the functional's
    assert MyFunctional.get_applicable_types() == (MyObject,) and Below.get_applicable_types() == (Special,)
    with pytest.raises(NotImplementedError, match="No function registered for int with Below"):
        Below()(3)


def test_modules_are_functionals():
    @gd.register(Linear, Tensor)
    def _(net, x):
        return x @ net.weight
    assert Linear()(gd.ones(2)).tolist() == [4, 6]
    assert Linear().allows(gd.ones(2)) and not Linear().allows("text")


# ---- virtual tensors ----

class Owner(Module):
    def __init__(self):
        super().__init__()
        self.weight = gd.tensor([1.0, 2.0], requires_grad=True)
        self.number = 3

    def doubled(self, dtype, device):
        return (self.weight * 2).to(dtype)


def test_a_virtual_tensor_is_computed_from_its_owner():
    module = Owner()
    module.name = VirtualTensor(module, "name", "doubled", dtype="f64")
    assert module.name.value.tolist() == [2, 4]
    module.weight.assign(5)
    assert module.name.value.tolist() == [10, 10]
    assert module.name.name == "name" and module.name.owner is module
    assert module.name.attributes.ref == "_name_ref" and module.name.attributes == VirtualTensor.LinkedAttributes("_name_ref")


def test_create_is_the_same():
    module = Owner()
    VirtualTensor.create(module, "name", lambda owner, dtype, device: owner.weight + owner.number)
    assert module.name.value.tolist() == [4, 5]


def test_materializers_are_checked_where_they_are_given():
    module = Owner()
    with pytest.raises(AttributeError):
        VirtualTensor(module, "name", "missing")
    with pytest.raises(TypeError):
        VirtualTensor(module, "name", "number")
    with pytest.raises(TypeError):
        VirtualTensor(module, "name", 3)
    with pytest.raises(gd.ArgumentError):
        VirtualTensor(module, "weight", "doubled")
    assert not hasattr(module, "_name_ref")


def test_dtype_and_device_follow_the_reference():
    module = Owner()
    VirtualTensor.create(module, "name", lambda owner, dtype, device: owner.weight)
    assert module.name.dtype == "f32" and module.name.value.dtype == "f32"  # cast, whatever the function returned
    module.to("f64")
    assert module.name.dtype == "f64" and module.name.value.dtype == "f64"
    module.name.dtype = "f16"
    assert module.name.value.dtype == "f16"
    module.name.to("f32")
    module.name.to(device="cpu")
    assert module.name.dtype == "f32" and module.name.device == "cpu"


def test_the_reference_is_saved_only_with_persist():
    module = Owner()
    VirtualTensor.create(module, "transient", "doubled")
    VirtualTensor.create(module, "kept", "doubled", persist=True)
    assert set(module.state_dict()) == {"weight", "_kept_ref"}


def test_gradients_flow_through():
    module = Owner()
    VirtualTensor.create(module, "name", "doubled", dtype="f64")
    (module.name**2).sum().backward()
    assert module.weight.grad.tolist() == [8, 16]
    assert (module.name + 1).tolist() == [3, 5] and module.name.sum().item() == 6 and module.name[1].item() == 4
    assert gd.exp(module.name).shape == (2,) and (gd.ones(2) - module.name).tolist() == [-1, -3]


def test_the_owner_is_held_weakly():
    module = Owner()
    virtual = VirtualTensor(module, "name", "doubled")
    del module
    gc.collect()
    assert virtual.owner is None
    with pytest.raises(gd.StateError):
        virtual.value


def test_its_end_removes_what_it_added():
    module = Owner()
    virtual = VirtualTensor(module, "name", "doubled")
    assert hasattr(module, "_name_ref")
    del virtual
    gc.collect()
    assert not hasattr(module, "_name_ref")
    VirtualTensor.create(module, "name", "doubled")
    del module.name
    gc.collect()
    assert not hasattr(module, "_name_ref")
    VirtualTensor.create(module, "name", "doubled")


def test_what_a_materializer_raises_comes_out():
    module = Owner()

    def fails(owner, dtype, device):
        raise LookupError("inside")
    VirtualTensor.create(module, "name", fails)
    with pytest.raises(LookupError, match="inside"):
        module.name.value
    VirtualTensor.create(module, "other", lambda *_: 3)
    with pytest.raises(TypeError, match="Tensor"):
        module.other.value
    assert module.weight.tolist() == [1, 2]


def test_memoised_values_are_computed_again_only_when_something_changed():
    module, calls = Owner(), []

    def counted(owner, dtype, device):
        calls.append(1)
        return owner.weight * 2
    VirtualTensor.create(module, "name", counted, dtype="f64", memoise=True)
    with gd.no_grad():
        assert module.name.value.tolist() == [2, 4] == module.name.value.tolist()
        first = len(calls)
        module.weight.assign(1)
        assert module.name.value.tolist() == [2, 2] and len(calls) > first


def test_reprs_show_the_tree():
    module = Owner()
    VirtualTensor.create(module, "name", "doubled")
    module.inner = MyModule()
    module.inner.basis = gd.ones((2, 3)).rename("a, b")
    text = repr(module)
    assert text.splitlines()[0] == "Owner" and "weight: f64[2] parameter" in text and "basis: f64[a=2, b=3] buffer" in text
    assert "name: virtual f32" in text and "<pre>" in module._repr_html_()
