"""gradus.nn: every layer of layers.h is a class, with values and gradients as torch.nn has them (recorded, in f64)."""
import copy
import json
import math
import pickle
import re
from pathlib import Path

import numpy as np
import pytest

import gradus as gd
from gradus import nn

RECORDED = json.loads((Path(__file__).parent / "layers.json").read_text())["layers"]
HEADER = Path(__file__).resolve().parents[3] / "include" / "gradus" / "layers.h"

MAKE = {
    "Linear": lambda: nn.Linear(4, 3, dtype="f64"), "Conv1d": lambda: nn.Conv1d(2, 3, 3, stride=2, padding=1, dtype="f64"),
    "Conv2d": lambda: nn.Conv2d(in_channels=2, out_channels=3, kernel_size=3, stride=2, padding=1, dtype="f64"),
    "LayerNorm": lambda: nn.LayerNorm(4, dtype="f64"), "RMSNorm": lambda: nn.RMSNorm(4, dtype="f64"),
    "GroupNorm": lambda: nn.GroupNorm(2, 4, dtype="f64"), "BatchNorm1d": lambda: nn.BatchNorm1d(3, dtype="f64"),
    "BatchNorm2d": lambda: nn.BatchNorm2d(2, dtype="f64"), "MaxPool2d": lambda: nn.MaxPool2d(2), "AvgPool2d": lambda: nn.AvgPool2d(kernel_size=2, stride=1),
    "Flatten": nn.Flatten, "GELU": nn.GELU, "ReLU": nn.ReLU, "Softplus": nn.Softplus, "Sigmoid": nn.Sigmoid, "Tanh": nn.Tanh,
}


def numbers(shape):
    return gd.tensor((np.sin(np.arange(math.prod(shape)) * 1.3 + 0.2) * 1.5).reshape(shape))


def filled(name):
    layer = MAKE[name]()
    for i, (own, p) in enumerate(layer.named_parameters()):
        p.assign(numbers(p.shape) * 0.4 + 0.1 * i + 0.3)
    return layer


@pytest.mark.parametrize("name", RECORDED)
def test_layers_are_those_of_torch(name):
    layer, row = filled(name), RECORDED[name]
    x = numbers(row["shape"]).require_grad()
    y = layer(x)
    assert np.allclose(y.tolist(), row["y"], rtol=1e-10, atol=1e-12)
    (y * gd.tensor(np.cos(np.arange(y.size)).reshape(y.shape))).sum().backward()
    assert np.allclose(x.grad.tolist(), row["dx"], rtol=1e-8, atol=1e-10)
    for (own, p), dp in zip(layer.named_parameters(), row["dp"], strict=True):
        assert np.allclose(p.grad.tolist(), dp, rtol=1e-8, atol=1e-10), own
    if "running" in row:
        assert np.allclose([layer.running_mean.tolist(), layer.running_var.tolist()], row["running"])
        layer.eval()
        assert np.allclose(layer(x).tolist(), row["eval"])
        assert np.allclose(layer.running_mean.tolist(), row["running"][0])


CONVOLUTIONS = json.loads((Path(__file__).parent / "convolutions.json").read_text())["layers"]


@pytest.mark.parametrize("row", CONVOLUTIONS, ids=lambda row: f"{row['layer']}({row['args'][2]}, {row['settings']})")
def test_convolutions_of_pairs_groups_and_dilation_are_those_of_torch(row):
    layer = getattr(nn, row["layer"])(*row["args"], **row["settings"], dtype="f64")
    for i, (own, p) in enumerate(layer.named_parameters()):
        p.assign(numbers(p.shape) * 0.4 + 0.1 * i + 0.3)
    x = numbers(row["shape"]).require_grad()
    y = layer(x)
    assert list(y.shape) == row["size"] and np.allclose(y.flatten().tolist(), row["y"], rtol=1e-10, atol=1e-12)
    (y * gd.tensor(np.cos(np.arange(y.size)).reshape(y.shape))).sum().backward()
    assert np.allclose(x.grad.flatten().tolist(), row["dx"], rtol=1e-8, atol=1e-10)
    for p, dp in zip(layer.parameters(), row["dp"], strict=True):
        assert np.allclose(p.grad.flatten().tolist(), dp, rtol=1e-8, atol=1e-10)
    assert copy.deepcopy(layer)(x).tolist() == y.tolist() == pickle.loads(pickle.dumps(layer))(x).tolist()
    given = {k: v for k, v in row["settings"].items() if k != "bias"}
    function = getattr(nn.functional, row["layer"].lower())
    assert np.allclose(function(x, *layer.parameters(), **given).tolist(), y.tolist(), rtol=1e-12)


def test_wrong_settings_of_convolutions_are_named():
    with pytest.raises(ValueError, match="2 groups do not divide 4 inputs and 3 outputs"):
        nn.Conv2d(4, 3, 3, groups=2)
    with pytest.raises(ValueError, match="same keeps the size"):
        nn.Conv2d(4, 3, 3, stride=2, padding="same")
    with pytest.raises(ValueError, match="'padding' is one size|stride is a whole number"):
        nn.functional.conv2d(gd.ones((1, 1, 4, 4)), gd.ones((1, 1, 2, 2)), stride=(1, 2, 3))
    with pytest.raises(ValueError, match="padding='same' keeps the size"):
        nn.functional.conv1d(gd.ones((1, 1, 4)), gd.ones((1, 1, 2)), stride=2, padding="same")
    assert repr(nn.Conv2d(1, 2, (2, 3), dilation=(1, 2))) == "Conv2d(1, 2, 2, kernel_across=3, dilation_across=2)"


def test_every_layer_of_the_header_is_there():
    made = set(re.findall(r"^gd_module \*gd_(\w+)_new\(", HEADER.read_text(), re.M))
    flat = lambda name: name.replace("_layer", "").replace("_", "").lower() if name != "layer_norm" else "layernorm"  # noqa: E731
    assert {flat(n) for n in made} <= {n.lower() for n in dir(nn)}


def test_dropout_goes_by_the_mode():
    gd.current_context()
    layer = nn.Dropout(0.25)
    x = gd.ones(4000)
    y = layer(x)
    assert set(np.round(y.tolist(), 6)) == {0.0, round(1 / 0.75, 6)} and abs(y.mean().item() - 1) < 0.1
    assert layer.eval()(x).tolist() == x.tolist()
    assert nn.Dropout().train()(x).max().item() == 2
    with pytest.raises(ValueError, match="p is 1"):
        nn.Dropout(1.0)


def test_attention_embedding_and_mlp():
    attention = nn.Attention(8, num_heads=2, causal=True)
    x = gd.randn((2, 5, 8), dtype="f32")
    y = attention(x)
    assert y.shape == (2, 5, 8) and list(attention.named_parameters().keys()) == ["qkv.weight", "qkv.bias", "out.weight", "out.bias"]
    assert attention(x, causal=False).tolist() != y.tolist()
    table = nn.Embedding(10, 4)
    assert table(gd.tensor([1, 2, 1])).shape == (3, 4)
    mlp = nn.MLP([4, 8, 3], activation="tanh")
    assert mlp(gd.ones((2, 4), dtype="f32")).shape == (2, 3)


@pytest.mark.parametrize("how", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))], ids=["deepcopy", "pickle"])
def test_layers_are_copied_and_pickled(how):
    net = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Dropout(0.5), nn.Attention(6, 2), nn.Linear(6, 2, bias=False))
    net[0].freeze()
    net.to("f64")
    x = numbers((3, 4))
    net[1](net[0](x))
    net.eval()
    other = how(net)
    assert other(x).tolist() == net(x).tolist() and list(other.state_dict()) == list(net.state_dict())
    assert [p.requires_grad for p in other.parameters()] == [p.requires_grad for p in net.parameters()]
    assert not other.training and not other[3].training and other[0].weight.dtype == "f64"
    other[0].weight.assign(other[0].weight * 0)
    assert net[0].weight.abs().sum().item() > 0
    assert repr(other) == repr(net) and "Linear(4, 6)" in repr(net) and "bias=False" in repr(net)


def test_layers_train_and_tie():
    class Autoencoder(gd.Module):
        def __init__(self):
            super().__init__()
            self.enter, self.leave = nn.Linear(3, 3, dtype="f64"), nn.Linear(3, 3, dtype="f64")
            self.leave.weight = self.enter.weight

        def forward(self, x):
            return self.leave(self.enter(x).tanh())

    net = Autoencoder()
    x = numbers((8, 3))
    loss = lambda: (net(x) - x).square().mean()  # noqa: E731
    before = loss().item()
    optimizer = gd.Optimizer(net, "adam | lr(0.05)")
    for _ in range(100):
        optimizer.step(loss)
    assert loss().item() < 0.5 * before and net.leave.weight.tolist() == net.enter.weight.tolist() and len(net.parameters()) == 3
    value, grads = gd.value_and_grad(lambda m: (m(x) - x).square().mean())(net)
    assert value.item() == loss().item() and set(grads) == {"enter.weight", "enter.bias", "leave.bias"}


def test_what_is_no_setting_is_named():
    with pytest.raises(TypeError, match="no setting 'strde', did you mean 'stride'"):
        nn.Conv2d(1, 1, 3, strde=2)
    with pytest.raises(TypeError, match="'outputs' is needed"):
        nn.Linear(3)
    with pytest.raises(TypeError, match="given twice"):
        nn.Linear(3, 4, in_features=3)
    with pytest.raises(ValueError, match="groups do not divide"):
        nn.GroupNorm(3, 4)
    with pytest.raises(gd.ShapeError, match="second axis has 4 channels, expected 3"):
        nn.BatchNorm1d(3)(gd.ones((2, 4), dtype="f32"))
    with pytest.raises(ValueError, match="no variance"):
        nn.BatchNorm1d(3)(gd.ones((1, 3), dtype="f32"))
    with pytest.raises(AttributeError):
        nn.Nothing
    import inspect
    assert str(inspect.signature(nn.Linear)) == "(inputs, outputs, bias=True, dtype='f32', input=None, output=None)"


def test_states_of_torchs_batch_norms_load():
    net = nn.Sequential(nn.BatchNorm1d(2), nn.Linear(2, 1))
    state = {name: np.full(t.shape, 0.5, np.float32) for name, t in net.state_dict().items()}
    assert net.load_state_dict({**state, "0.num_batches_tracked": np.array(7)}).unexpected == []
    assert net[1].weight.tolist() == [[0.5, 0.5]]
    with pytest.raises(gd.MismatchError, match="unexpected '1.num_batches_tracked'"):
        net.load_state_dict({**state, "1.num_batches_tracked": np.array(7)})


def test_functions_and_losses_have_torchs_names():
    F = nn.functional
    logits, classes = gd.tensor([[1.0, 2.0, 0.5], [0.0, 0.0, 0.0]]), gd.tensor([1, 2])
    exact = [math.log(sum(math.exp(v - row[c]) for v in row)) for row, c in (([1.0, 2.0, 0.5], 1), ([0.0] * 3, 2))]
    assert F.cross_entropy(logits, classes, reduction="none").tolist() == pytest.approx(exact)
    assert nn.CrossEntropyLoss()(logits, classes).item() == pytest.approx(sum(exact) / 2)
    assert F.cross_entropy(logits, F.one_hot(classes, 3).to("f64")).item() == pytest.approx(sum(exact) / 2)
    smooth = [0.9 * e + 0.1 * sum(math.log(sum(map(math.exp, row))) - v for v in row) / 3 for e, row in zip(exact, logits.tolist())]
    assert F.cross_entropy(logits, classes, reduction="none", label_smoothing=0.1).tolist() == pytest.approx(smooth)
    x, y = gd.tensor([1.0, -2.0]), gd.tensor([0.5, 1.0])
    assert nn.MSELoss()(x, y).item() == pytest.approx((0.25 + 9) / 2) and F.l1_loss(x, y, reduction="sum").item() == 3.5
    assert F.huber_loss(x, y, reduction="none").tolist() == pytest.approx([0.125, 2.5])
    assert F.smooth_l1_loss(x, y, reduction="none", beta=0.25).tolist() == pytest.approx([0.375, 2.875])
    assert F.binary_cross_entropy_with_logits(x, y, "none").tolist() == pytest.approx([math.log1p(math.e) - 0.5, math.log1p(math.exp(-2)) + 2])
    assert F.binary_cross_entropy(gd.tensor([0.25]), gd.tensor([1.0])).item() == pytest.approx(math.log(4))
    assert nn.SiLU()(x).tolist() == pytest.approx([v / (1 + math.exp(-v)) for v in (1.0, -2.0)])
    assert nn.LeakyReLU(0.1)(x).tolist() == pytest.approx([1, -0.2]) and nn.ELU()(x).tolist() == pytest.approx([1, math.expm1(-2)])
    assert nn.Softmax(dim=0)(x).sum().item() == pytest.approx(1) and F.normalize(gd.tensor([[3.0, 4.0]])).tolist() == [[0.6, 0.8]]
    net = nn.Sequential(nn.Linear(2, 3), nn.Softmax(dim=1))
    assert net(gd.ones((4, 2), dtype="f32")).shape == (4, 3) and "Softmax(dim=1)" in str(net)
    with pytest.raises(gd.ShapeError, match="mse_loss: the input has the shape"):
        F.mse_loss(x, gd.ones(3))


def test_first_values():
    w = nn.Linear(30, 20).weight
    nn.init.xavier_uniform_(w)
    assert abs(w.detach().abs().max().item() - math.sqrt(6 / 50)) < 0.02 and w.requires_grad
    nn.init.kaiming_normal_(w, nonlinearity="relu")
    assert w.detach().std().item() == pytest.approx(math.sqrt(2 / 30), rel=0.2)
    q = nn.init.orthogonal_(w).detach().to("f64")
    assert np.allclose((q @ q.T).numpy(), np.eye(20), atol=1e-6) and nn.init.zeros_(w).detach().sum().item() == 0


def test_sizes_of_equal_axes_are_one_size():
    assert nn.Conv2d(1, 2, (3, 3), padding=(1, 1))(gd.ones((1, 1, 5, 5), dtype="f32")).shape == (1, 2, 5, 5)
    assert nn.LayerNorm((4,))(gd.ones((2, 4), dtype="f32")).shape == (2, 4)
    for wrong, says in ((lambda: nn.MaxPool2d((3, 5)), "'size' is one size"), (lambda: nn.LayerNorm((4, 4)), "of the last axis")):
        with pytest.raises(ValueError, match=says):
            wrong()


def test_modules_are_found_by_name():
    net = nn.Sequential(nn.Linear(2, 3), nn.Sequential(nn.Linear(3, 1)))
    assert [n for n, _ in net.named_children()] == ["0", "1"] and net.get_submodule("1.0") is net[1][0]
    assert net.get_parameter("1.0.bias").shape == (1,)
    with pytest.raises(AttributeError, match="'1.7'"):
        net.get_submodule("1.7")
