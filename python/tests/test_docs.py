"""The Python of docs/python.md and README.md runs as it stands there, one block after the other."""
import os
import re
from pathlib import Path

import pytest

import gradus as gd

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("page", ["docs/python.md", "README.md"])
def test_the_blocks_of_a_page_run(page, tmp_path, monkeypatch, capsys):
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text(encoding="utf-8"), re.S | re.M)
    assert blocks
    monkeypatch.chdir(ROOT)
    names = {}
    for number, block in enumerate(blocks):
        block = block.replace("/tmp/", f"{tmp_path}{os.sep}")
        exec(compile(block, f"{page}, block {number}", "exec"), names)


def test_the_readme_s_run_comes_down(capsys):
    x = gd.tensor([-1.1, 2.5], requires_grad=True)
    optimizer = gd.Optimizer([x], gd.m.clip_norm(1) | gd.m.adam() | gd.m.lr(0.1))
    losses = [optimizer.step(lambda: (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2) for _ in range(200)]
    assert losses[-1] < losses[0] / 100
