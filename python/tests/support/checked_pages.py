"""The Python blocks of documentation pages before mypy --strict and pyright."""
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import gradus as gd
from doc_pages import PAGES, ROOT

PACKAGE = Path(gd.__file__).parent

# what docs/torch.md takes for granted
TORCH = "from typing import Any\n" + "".join(f"{name}: Any = None\n" for name in "model loader body head objective inputs targets".split())
BLOCKS = {str(page.relative_to(ROOT)): "\n".join(b.text for b in blocks) for page, blocks in PAGES.items() if blocks}


def mypy(*words, cwd=None):
    run = subprocess.run([sys.executable, "-m", *words], capture_output=True, text=True, cwd=cwd,
                         env={**os.environ, "MYPYPATH": str(PACKAGE.parent)})
    return run.returncode, run.stdout + run.stderr


def written(folder, pages):
    """The blocks of each page as a file, one behind the other."""
    for page in pages:
        text = (TORCH if page == "docs/torch.md" else "") + BLOCKS[page]
        (folder / (re.sub(r"\W", "_", page) + ".py")).write_text(text, encoding="utf-8")
    return sorted(p.name for p in folder.glob("*.py"))


def mypy_finds(folder, pages):
    """--strict but for annotations that examples lack; examples use a name again for another thing.  mypy takes no notice of class decorators:
    settings given to a link of @gd.link are unknown to it (pyright knows them)."""
    found = []
    for name in written(folder, pages):
        status, said = mypy("mypy", "--strict", "--allow-untyped-defs", "--allow-incomplete-defs", "--allow-untyped-calls", "--allow-untyped-decorators",
                            "--allow-redefinition", "--local-partial-types", "--disable-error-code=no-redef", "--follow-imports=silent",
                            "--cache-dir", str(PACKAGE.parent / "mypy_cache"), name, cwd=folder)
        assert status in (0, 1), said
        links = set(re.findall(r"^@gd\.link.*\nclass (\w+)", (folder / name).read_text(encoding="utf-8"), re.M))
        found += [line for line in said.splitlines() if ": error:" in line and not any(f'"{link}"' in line for link in links)]
    return found


def pyright_finds(folder, pages):
    """Skips where pyright is not installed or cannot run."""
    pytest.importorskip("pyright")
    names = written(folder, pages)
    settings = {"extraPaths": [str(PACKAGE.parent)], "reportRedeclaration": False, "reportMissingModuleSource": False}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    run = subprocess.run([sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "--outputjson"], capture_output=True, text=True, cwd=folder)
    if not run.stdout.strip().startswith("{"):
        pytest.skip(f"pyright does not run here: {run.stderr.strip()[-200:]}")
    found = json.loads(run.stdout)
    assert found["summary"]["filesAnalyzed"] >= len(names)
    return [f"{d['file']}:{d['range']['start']['line'] + 1}: {d['message']}" for d in found["generalDiagnostics"] if d["severity"] == "error"]
