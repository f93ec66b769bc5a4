"""The Python of pages of docs/ that import torch runs as it stands there."""
import pytest

torch = pytest.importorskip("torch")

from checked_pages import mypy_finds, pyright_finds  # noqa: E402
from doc_pages import ROOT, WITH_TORCH, run_page  # noqa: E402


def given():
    """What docs/torch.md takes for granted."""
    model = torch.nn.Linear(4, 3)
    loader = [(torch.randn(8, 4), torch.randint(0, 3, (8,))) for _ in range(3)]
    return {"inputs": loader[0][0], "targets": torch.zeros(8, 3), "model": model, "loader": loader, "body": [model.weight], "head": [model.bias],
            "objective": lambda m: sum(torch.nn.functional.cross_entropy(m(x), y) for x, y in loader)}


@pytest.mark.parametrize("page", WITH_TORCH, ids=lambda p: str(p.relative_to(ROOT)))
def test_the_blocks_of_a_page_run(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    run_page(page, tmp_path, capsys, **(given() if page.name == "torch.md" and page.parent.name == "docs" else {}))


NAMES = [str(page.relative_to(ROOT)) for page in WITH_TORCH]


def test_mypy_accepts_the_blocks(tmp_path):
    pytest.importorskip("mypy")
    assert not mypy_finds(tmp_path, NAMES)


def test_pyright_accepts_the_blocks(tmp_path):
    assert not pyright_finds(tmp_path, NAMES)
