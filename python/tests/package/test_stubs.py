"""Type stubs: mypy --strict finds nothing in the package and in a program that uses it; stubtest compares them with what runs."""
import os

import pytest

import gradus as gd
from checked_pages import BLOCKS, PACKAGE, mypy, mypy_finds, pyright_finds
from doc_pages import ROOT, WITH_TORCH

pytestmark = pytest.mark.skipif("libasan" in os.environ.get("LD_PRELOAD", ""), reason="mypy runs no C of ours")
USER = '''
from typing import assert_type

import gradus as gd
from gradus import m

class Net(gd.Module):
    no_grad_tensors = {"mask"}

    def __init__(self) -> None:
        super().__init__()
        self.weight = gd.randn((3, 2)).require_grad()

x: gd.Tensor = gd.tensor([1.0, 2.0]) + 1
y: gd.Tensor = x.sum("row", keep_dims=True).exp() @ x[0, "up", ...]
z: gd.Tensor = gd.where(x > 0, x, 0.0).reshape(2, 3)
q, r = gd.qr(x)
chain: gd.Chain = m.clip_norm(1) | m.adam(beta1=0.8) | m.lr(1e-3)
loss: float | None = gd.Optimizer(Net(), chain).step(lambda: (x * x).sum())
result: gd.Result = gd.minimize(lambda x: x.sum(), [1.0], chain)
named: gd.Tensor = gd.tensor([1.0, 2.0], requires_grad=True, axes="i", labels={"i": ["a", "b"]})
typed: tuple[float, bool, str, int] = result.fun, result.success, result.message, result.nit
fitted = gd.curve_fit(lambda t, a: a * t, [1.0], [2.0])
popt, pcov = fitted
both: tuple[object, float] = popt, fitted.rss
table = gd.fit("a*t", {"t": [1.0], "y": [2.0]}, params={"a": 1})
parameters: tuple[dict[str, float], float, str] = table.params, table.r2, table.report
assert_type(fitted.rss, float)
found: gd.LeastSquares = gd.least_squares(lambda x: x - 1, [0.0], bounds=(0, 2), loss="huber")
with_names: gd.Result = gd.minimize(lambda x: x.sum(), [1.0], method="BFGS", constraints=({"type": "eq", "fun": lambda x: x[0]},), options={"maxiter": 3})
assert_type(result.fun, float)
assert_type(table.params, dict[str, float])

slope: gd.Tensor = gd.grad(lambda x: (x * x).sum())(x)
again: gd.Tensor = gd.jit(gd.hessian(lambda x: (x * x).sum()))(x)

@gd.rule(state=["v"])
def momentum(r: gd.Rule, update: gd.Value, beta: float = 0.9) -> gd.Value:
    return update * beta

@gd.rule
def same(r: gd.Rule, update: gd.Value) -> gd.Value:
    return update

assert_type(momentum(0.8) | same() | m.lr(0.1), gd.Chain)

class Ema:
    def apply(self, t: gd.Transform) -> list[gd.Tensor]:
        return t.tensors

assert_type(gd.link(Ema, state=["average"])(), gd.Chain)
try:
    pass
except (gd.ShapeError, gd.Error):
    pass
'''
WRONG = '''
import gradus as gd
gd.m.adam(beta9=1)
gd.tensor([1]).sum(keepdimension=True)
gd.nonsense
'''


def test_the_package_is_strictly_typed(tmp_path):
    status, said = mypy("mypy", "--strict", "--cache-dir", str(PACKAGE.parent / "mypy_cache"), "-p", "gradus", cwd=PACKAGE.parent)
    assert status == 0, said


def test_a_program_is_checked_against_the_stubs(tmp_path):
    (tmp_path / "user.py").write_text(USER)
    (tmp_path / "wrong.py").write_text(WRONG)
    cache = ("--cache-dir", str(PACKAGE.parent / "mypy_cache"))
    status, said = mypy("mypy", "--strict", *cache, "user.py", cwd=tmp_path)
    assert status == 0, said
    status, said = mypy("mypy", "--strict", *cache, "wrong.py", cwd=tmp_path)
    for line in (3, 4, 5):
        assert f"wrong.py:{line}: error" in said


def test_the_stubs_are_what_runs(tmp_path):
    status, said = mypy("mypy.stubtest", "--concise", "gradus._core", "gradus.m", cwd=tmp_path)
    assert status == 0, said


def test_every_link_of_the_table_is_typed():
    text = (PACKAGE / "m.pyi").read_text()
    for name in gd.link_names():
        assert f"def {name}(" in text


WITHOUT_TORCH = [page for page in BLOCKS if ROOT / page not in WITH_TORCH]  # those with: pytorch/test_torch_docs.py


def test_mypy_accepts_the_blocks_of_the_documentation(tmp_path):
    assert len(WITHOUT_TORCH) >= 8
    assert not mypy_finds(tmp_path, WITHOUT_TORCH)


def test_pyright_accepts_the_blocks_of_the_documentation(tmp_path):
    assert not pyright_finds(tmp_path, WITHOUT_TORCH)
