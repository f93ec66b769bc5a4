"""Type stubs: mypy --strict finds nothing in the package and in a program that uses it; stubtest compares them with what runs."""
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import gradus as gd
from doc_pages import PAGES, ROOT, WITH_TORCH

PACKAGE = Path(gd.__file__).parent
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


def mypy(*words, cwd=None):
    run = subprocess.run([sys.executable, "-m", *words], capture_output=True, text=True, cwd=cwd,
                         env={**os.environ, "MYPYPATH": str(PACKAGE.parent)})
    return run.returncode, run.stdout + run.stderr


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


# what docs/torch.md takes for granted
TORCH = """from typing import Any
model: Any
loader: Any
body: Any
head: Any
objective: Any
inputs: Any
targets: Any
"""
BLOCKS = {str(page.relative_to(ROOT)): "\n".join(b.text for b in blocks) for page, blocks in PAGES.items() if blocks}


def written(folder, pages):
    """The blocks of each page as a file, one behind the other."""
    for page in pages:
        text = (TORCH if page == "docs/torch.md" else "") + BLOCKS[page]
        (folder / (re.sub(r"\W", "_", page) + ".py")).write_text(text, encoding="utf-8")
    return sorted(p.name for p in folder.glob("*.py"))


def test_mypy_accepts_the_blocks_of_the_documentation(tmp_path):
    """--strict but for annotations that examples lack; examples use a name again for another thing.  mypy takes no notice of class decorators:
    settings given to a link of @gd.link are unknown to it (pyright knows them)."""
    without = [page for page in BLOCKS if ROOT / page not in WITH_TORCH]
    names = written(tmp_path, without)
    failed = []
    for name in names:
        status, said = mypy("mypy", "--strict", "--allow-untyped-defs", "--allow-incomplete-defs", "--allow-untyped-calls", "--allow-untyped-decorators",
                            "--allow-redefinition", "--local-partial-types", "--disable-error-code=no-redef", "--follow-imports=silent",
                            "--cache-dir", str(PACKAGE.parent / "mypy_cache"), name, cwd=tmp_path)
        links = set(re.findall(r"^@gd\.link.*\nclass (\w+)", (tmp_path / name).read_text(encoding="utf-8"), re.M))
        failed += [line for line in said.splitlines() if ": error:" in line and not any(f'"{link}"' in line for link in links)]
    assert not failed, "\n".join(failed)


def test_pyright_accepts_the_blocks_of_the_documentation(tmp_path):
    pytest.importorskip("pyright")
    written(tmp_path, [page for page in BLOCKS if ROOT / page not in WITH_TORCH])
    settings = {"extraPaths": [str(PACKAGE.parent)], "reportRedeclaration": False, "reportMissingModuleSource": False}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    run = subprocess.run([sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "--outputjson"], capture_output=True, text=True, cwd=tmp_path)
    if not run.stdout.strip().startswith("{"):
        pytest.skip(f"pyright does not run here: {run.stderr.strip()[-200:]}")
    found = json.loads(run.stdout)
    assert found["summary"]["filesAnalyzed"] >= 8
    assert not [f"{d['file']}:{d['range']['start']['line'] + 1}: {d['message']}" for d in found["generalDiagnostics"] if d["severity"] == "error"]
