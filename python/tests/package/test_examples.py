"""The programs of examples/python run and find what they should."""
import importlib.util
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[3] / "examples" / "python"


def run(name, capsys):
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    result = module.main()
    return result, capsys.readouterr().out


def test_modules(capsys):
    (slope, offset), said = run("modules", capsys)
    assert (slope, offset) == (pytest.approx(1.94, abs=1e-6), pytest.approx(1.09, abs=1e-6))  # the normal equations by hand
    assert "wednesday: 4.9700" in said and "values: virtual f64" in said


def test_fitting(capsys):
    (table, function), said = run("fitting", capsys)
    assert function == pytest.approx(table, rel=1e-7) and "halflife" in said


def test_own_links(capsys):
    losses, said = run("own_links", capsys)
    assert losses[-1] < losses[0] and "signed_average" in said


def test_every_example_is_run():
    tested = {name.removeprefix("test_") for name in globals() if name.startswith("test_")}
    own = {path.stem for path in FOLDER.glob("*.py") if not path.stem.startswith("torch")}  # those run where torch is
    assert own - tested == set()
