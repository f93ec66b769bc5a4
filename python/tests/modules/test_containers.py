"""Copies and pickles of modules, lists and dicts of them, tied tensors, and what users of torch.nn write."""
import copy
import gc
import pickle

import pytest

import gradus as gd


class Linear(gd.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.weight = gd.rand((outputs, inputs)).require_grad()
        self.bias = gd.zeros((outputs,)).require_grad()

    def forward(self, x, scale=1.0):
        return scale * (x @ self.weight.T + self.bias)


class Net(gd.Module):
    no_grad_tensors = {"mean"}

    def __init__(self):
        super().__init__()
        self.layers = [Linear(3, 4), Linear(4, 3)]
        self.heads = {"a": Linear(3, 1), "b": Linear(3, 1)}
        self.mean = gd.tensor([1.0, 2.0, 3.0])
        self.size, self.note = 3, ["plain"]
        gd.VirtualTensor.create(self, "twofold", "twice")

    def twice(self, dtype, device):
        return self.mean * 2

    def forward(self, x):
        for layer in self.layers:
            x = layer(x).tanh()
        return self.heads["a"](x) + self.heads["b"](x)


class Tied(gd.Module):
    def __init__(self):
        super().__init__()
        self.enter, self.leave = Linear(3, 3), Linear(3, 3)
        self.leave.weight = self.enter.weight

    def forward(self, x):
        return self.leave(self.enter(x))


X = [[0.1, 0.2, 0.3]]


@pytest.mark.parametrize("how", [copy.deepcopy, copy.copy, lambda net: pickle.loads(pickle.dumps(net))], ids=["deepcopy", "copy", "pickle"])
def test_a_copy_is_a_module_of_its_own(how):
    net = Net().freeze("layers.0")
    net.eval()
    x = gd.tensor(X)
    other = how(net)
    assert type(other) is Net and other(x).tolist() == net(x).tolist() and other.size == 3 and other.note == ["plain"]
    assert list(other.named_parameters().keys()) == list(net.named_parameters().keys()) and set(other.named_buffers().keys()) == {"mean", "_twofold_ref"}
    assert [p.requires_grad for p in other.parameters()] == [p.requires_grad for p in net.parameters()]
    assert not other.training and other.twofold.value.tolist() == [2, 4, 6]
    if how is not copy.copy:
        before = net(x).tolist()
        for p in other.parameters():
            p.assign(p * 0)
        other.mean.assign(other.mean * 0)
        assert net(x).tolist() == before and other.twofold.value.tolist() == [0, 0, 0] and net.twofold.value.tolist() == [2, 4, 6]


def test_copies_of_what_refers_to_itself():
    net = Net()
    net.note.append(net)
    other = copy.deepcopy(net)
    assert other.note[1] is other
    del other
    gc.collect()


def test_forward_is_what_a_module_does_to_a_tensor():
    layer = Linear(3, 2)
    x = gd.tensor(X)
    assert layer(x, scale=2.0).tolist() == (2 * layer(x)).tolist() and layer.allows(x)
    with pytest.raises(NotImplementedError, match="str with Linear"):
        layer("text")

    class Other(Linear):
        def forward(self, x):
            return x

    assert Other(3, 2)(x).tolist() == x.tolist()


def test_lists_and_dicts_are_registered():
    net = Net()
    assert isinstance(net.layers, gd.ModuleList) and isinstance(net.heads, gd.ModuleDict) and len(net.layers) == 2
    assert "layers.1.weight" in net.named_parameters() and "heads.b.bias" in net.named_parameters()
    net.layers.append(Linear(3, 3))
    assert len(list(net.layers)) == 3 and net.layers[-1].weight.shape == (3, 3) and len(net.layers[1:]) == 2
    net.layers.insert(0, Linear(3, 3))
    assert [m.weight.shape for m in net.layers] == [(3, 3), (4, 3), (3, 4), (3, 3)]
    del net.layers[0]
    assert [m.weight.shape for m in net.layers] == [(4, 3), (3, 4), (3, 3)] and "layers.3.weight" not in net.named_parameters()
    net.heads["c"] = Linear(3, 1)
    assert list(net.heads) == ["a", "b", "c"] and "c" in net.heads and [k for k, _ in net.heads.items()] == ["a", "b", "c"]
    del net.heads["a"]
    assert len(net.heads) == 2
    net.scales = [gd.ones(2).require_grad(), gd.ones(3).require_grad()]
    assert isinstance(net.scales, gd.TensorList) and net.scales[1].shape == (3,) and "scales.1" in net.named_parameters()
    with pytest.warns(gd.GradusWarning, match="not registered"):
        net.mixed = [Linear(1, 1), "text"]
    with pytest.raises(TypeError, match="ModuleList: a Module is needed"):
        net.layers.append("text")
    with pytest.raises(IndexError):
        net.layers[7]
    assert net.note == ["plain"]


def test_a_tied_tensor_is_one_parameter(tmp_path):
    net = Tied()
    assert list(net.named_parameters().keys()) == ["enter.weight", "enter.bias", "leave.bias"] == list(net.state_dict())
    gd.Optimizer(net, "lr(0.1)").step(lambda: net(gd.tensor(X)).square().sum())
    assert net.leave.weight.tolist() == net.enter.weight.tolist()
    net.to("f32")
    assert net.leave.weight.dtype == "f32" and net.leave.weight.tolist() == net.enter.weight.tolist()
    net.save(tmp_path / "net.safetensors")
    other = Tied()
    other.to("f32").load(tmp_path / "net.safetensors")
    assert other.leave.weight.tolist() == net.enter.weight.tolist()
    state = net.state_dict()
    other.load_state_dict({**state, "leave.weight": state["enter.weight"]})  # as torch writes it
    for again in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        again.enter.weight.assign(again.enter.weight * 0 + 7)
        assert again.leave.weight.tolist() == [[7] * 3] * 3 and net.enter.weight[0, 0].item() != 7
        assert len(again.named_parameters()) == 3
    net.leave.weight = net.enter.weight.detach()  # a copy
    assert len(net.named_parameters()) == 4


def test_named_parameters_iterate_over_pairs():
    net = Linear(3, 2)
    assert [name for name, p in net.named_parameters()] == ["weight", "bias"]
    assert net.named_parameters()["bias"].shape == (2,) and dict(net.named_parameters()).keys() == {"weight", "bias"}
    assert sum(p.size for p in net.parameters()) == 8 and "weight" in net.named_parameters()


def test_freezing_by_name_and_moving_by_keyword():
    net = Net()
    net.freeze("layers", "heads.a.weight")
    assert [n for n, p in net.named_parameters() if p.requires_grad] == ["heads.a.bias", "heads.b.weight", "heads.b.bias"]
    net.unfreeze("layers.*.bias")
    assert net.layers[0].bias.requires_grad and not net.layers[0].weight.requires_grad
    with pytest.raises(AttributeError, match="no parameter of 'Net' is called 'layer'"):
        net.freeze("layer")
    net.requires_grad_(True)
    assert all(p.requires_grad for p in net.parameters())
    assert net.to(dtype="f32", device="cpu").mean.dtype == "f32" and net.double().layers[0].bias.dtype == "f64"


def test_the_mode_reaches_the_tree():
    net = Net()
    assert net.training and net.layers[0].training
    net.eval()
    assert not net.training and not net.layers[0].training
    net.layers[0].train()
    assert net.layers[0].training and not net.training
    net.train()
    assert net.heads["a"].training
