"""The Python blocks of README.md and docs/: which pages have them, and running those of one page."""
import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests" / "docs"))
import pages  # noqa: E402

PAGES = {p: [b for b in pages.blocks(p) if b.language == "python" and not b.illustration] for p in pages.pages(ROOT)}
WITH_TORCH = [p for p, blocks in PAGES.items() if any("import torch" in b.text for b in blocks)]  # pytorch/test_torch_docs.py
WITHOUT = [p for p, blocks in PAGES.items() if blocks and p not in WITH_TORCH]  # package/test_docs.py


def run_page(page, tmp_path, capsys, **names):
    for block in PAGES[page]:
        text = block.text.replace("/tmp/", f"{tmp_path}{os.sep}")
        capsys.readouterr()
        exec(compile("\n" * block.line + text, str(page), "exec"), names)
        said = capsys.readouterr().out
        if block.output and not pages.same(block.output.text, said):
            if os.environ.get("GD_DOCS_UPDATE"):
                pages.replace_outputs(page, [(next(b for b in pages.blocks(page) if b.line == block.line), said)])
                PAGES[page] = [b for b in pages.blocks(page) if b.language == "python" and not b.illustration]
                return run_page(page, tmp_path, capsys)
            pytest.fail(f"{block} prints\n{said}")
