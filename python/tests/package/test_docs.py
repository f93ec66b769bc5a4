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


def test_the_table_of_counterparts_names_what_is_there():
    """Every row of docs/python.md that says what stands here for a class elsewhere."""
    import re

    import gradus as gd

    text = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (.+?) \| (.+?) \| (.+?) \|$", text[text.index("## Beside the classes"):].split("\n## ")[0], re.M)[1:]
    assert len(rows) > 15
    for there, here, differs in rows:
        names = re.findall(r"`gd\.([\w.]+)`", here)
        assert names, here
        for name in names:
            found = gd
            for part in name.split("."):
                found = getattr(found, part)
            assert callable(found) or isinstance(found, property), name
