"""What is handed out: the files of an sdist, and of an installation."""
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile

import gradus as gd
import pytest

pytestmark = pytest.mark.skipif("libasan" in os.environ.get("LD_PRELOAD", ""), reason="files are the same without it")

SOURCES = pathlib.Path(__file__).resolve().parents[3]
BUILD = pathlib.Path(gd.__file__).parents[2]
NOT_BUILT_FROM = (".ci/", "tests/", "python/tests/", "docs/pictures/")


def test_an_sdist_has_every_file_that_git_knows_but_tests(tmp_path, monkeypatch):
    build = pytest.importorskip("scikit_build_core.build")
    if not (SOURCES / ".git").exists() or not shutil.which("git"):
        pytest.skip("no clone of git")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=SOURCES, capture_output=True, text=True, check=True).stdout.split("\0")
    wanted = {f for f in listed if f and not f.startswith(NOT_BUILT_FROM) and (SOURCES / f).is_file()}
    monkeypatch.chdir(SOURCES)
    with tarfile.open(tmp_path / build.build_sdist(str(tmp_path))) as archive:
        names = [m.name.partition("/")[2] for m in archive.getmembers() if m.isfile()]
        assert wanted - set(names) == set()
        assert not [n for n in names if n.startswith(("build/", ".git/"))]
        archive.extractall(tmp_path)
    # Every input of the package's build is in it, or made by it: ninja looks for them before it would run anything.
    root, made = next(tmp_path.glob("gradus-*/")), tmp_path / "made"
    settings = ["-DGD_TESTS=OFF", "-DCMAKE_BUILD_TYPE=Release", f"-DPython_EXECUTABLE={sys.executable}"]
    for command in (["cmake", "-G", "Ninja", "-S", root, "-B", made, *settings],
                    ["ninja", "-n", "-C", made, "gradus_python", "gradus_cli"]):
        run = subprocess.run(command, capture_output=True, text=True)
        assert run.returncode == 0, run.stdout[-2000:] + run.stderr


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """What pip puts into site-packages: the component `python` of the build."""
    folder = tmp_path_factory.mktemp("site-packages")
    subprocess.run(["cmake", "--install", BUILD, "--component", "python", "--prefix", folder], check=True, capture_output=True)
    return folder


def run_in(folder, *words, **more):
    """A Python that has nothing but that folder, and a machine without a compiler."""
    empty = folder / "empty"
    empty.mkdir(exist_ok=True)
    env = {"PYTHONPATH": str(folder), "PATH": str(empty), "HOME": str(empty), "XDG_CACHE_HOME": str(empty), **more}
    if "LD_LIBRARY_PATH" in os.environ:
        env["LD_LIBRARY_PATH"] = os.environ["LD_LIBRARY_PATH"]
    return subprocess.run([sys.executable, "-S", *words], cwd=empty, env=env, capture_output=True, text=True, timeout=120)


def test_an_installation_has_extension_program_types_and_plugin(installed):
    package = installed / "gradus"
    names = {str(f.relative_to(package)) for f in package.rglob("*") if f.is_file()}
    assert {"_core.abi3.so", "bin/gradus", "py.typed", "_core.pyi", "m.pyi", "__init__.py", "torch.py"} <= names
    assert {f.name for f in (SOURCES / "python/gradus").glob("*.py")} <= names
    assert ("libgradus_cuda.so" in names) == (BUILD / "libgradus_cuda.so").exists()
    run = run_in(installed, "-m", "gradus", "--version")
    assert run.stdout.strip() == f"gradus {gd.__version__}", run.stderr


NO_COMPILER = """
import gradus as gd
assert "site-packages" in gd.__file__
for chain, how in (("clip_norm(1) | adam | lr(0.5)", "built in"), ("clip_value(9) | adan | sign | lr(0.5)", "interpreted")):
    x = gd.tensor([1.0, 2.0]).require_grad()
    x.grad = gd.ones(2)
    optimizer = gd.Optimizer([x], chain)
    optimizer.step()
    assert how in optimizer.explain(), optimizer.explain()
    print([round(v, 4) for v in x.tolist()])
"""


def test_steps_need_no_compiler(installed):
    run = run_in(installed, "-c", NO_COMPILER)
    assert run.stdout.splitlines() == ["[0.5, 1.5]", "[0.5, 1.5]"], run.stdout + run.stderr
