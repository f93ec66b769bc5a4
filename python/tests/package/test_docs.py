"""The Python of README.md and docs/ runs as it stands there, one block after the other, and prints what the pages show."""
import pytest

from doc_pages import PAGES, ROOT, WITHOUT, WITH_TORCH, pages, run_page


@pytest.mark.parametrize("page", WITHOUT, ids=lambda p: str(p.relative_to(ROOT)))
def test_the_blocks_of_a_page_run(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    run_page(page, tmp_path, capsys)


def test_pages_with_samples_are_found():
    assert len(WITHOUT) >= 8 and len(WITH_TORCH) >= 2
    assert sum(b.illustration != "" and b.language == "python" for p in PAGES for b in pages.blocks(p)) == 0
