#!/usr/bin/env python3
"""site.py ROOT GRADUS: what the site is made of refuses what nobody describes, without Sphinx: names of Python, options of the program,
links that lead nowhere, names that the search does not know."""
import sys
import tempfile
from importlib.machinery import SourceFileLoader
from pathlib import Path

ROOT, GRADUS = Path(sys.argv[1]), sys.argv[2]
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "tools" / "docs"))
make_site = SourceFileLoader("make_site", str(ROOT / "tools" / "docs" / "make_site")).load_module()
failures = []


def expect(what, said, wanted):
    if said != wanted:
        failures.append(f"{what}: {said} instead of {wanted}")


PACKAGE = '''"""A package."""
from . import m
def told(x=1):
    "It."
def bare(): pass
class Thing:
    "It."
    def told(self, y):
        "It."
    def bare(self): pass
    def _own(self): pass
class Error(Exception):
    "It."
'''
TORCH = '''"""In torch."""
import torch
from torch.optim import optimizer
__all__ = ["Optimizer"]
class Optimizer(torch.optim.Optimizer):
    "It."
    def step(self): pass
'''
HELP = '''usage: gradus try [OPTIONS]

Tries it.

options:
  --told N                a number, said
                          in two lines
  --told-at-length A|B|C|D|E|F|G
                          one of them
  --bare
  --also-bare N
  --last                  the last

examples:
  gradus try --told 3
'''


def check_python(folder):
    package = folder / "gradus"
    package.mkdir()
    for name, text in (("__init__", PACKAGE), ("m", '"Links."\ndef adam(beta=0.9):\n    "It."\n'), ("torch", TORCH)):
        (package / f"{name}.py").write_text(text)
    pages = make_site.PythonPages(folder, lambda text: text)
    expect("Python without docstrings", sorted(pages.write(folder / "pages")),
           ["gradus.torch: Optimizer.step has no docstring", "gradus: Thing.bare has no docstring", "gradus: bare has no docstring"])
    expect("names of Python", sorted(pages.names), ["gradus.Error", "gradus.Thing", "gradus.Thing.bare", "gradus.Thing.told", "gradus.bare",
                                                    "gradus.told", "gradus.torch.Optimizer", "gradus.torch.Optimizer.step"])
    expect("a link in Python", pages.link("adam"), "gradus.m.adam(beta=0.9)")


def check_options():
    expect("options", list(make_site.options_of(HELP)),
           [("--told", "N", "a number, said in two lines"), ("--told-at-length", "A|B|C|D|E|F|G", "one of them"), ("--bare", "", ""),
            ("--also-bare", "N", ""), ("--last", "", "the last")])
    faults = []
    _, options = make_site.manual_page(GRADUS, faults)
    expect("options without a word", faults, [])
    if len(options) < 150 or "gradus-fit.--absolute-sigma" not in options:
        failures.append(f"only {len(options)} options: {options[:5]}")


def check_links(folder):
    (folder / "api").mkdir()
    (folder / "index.html").write_text('<a href="api/a.html#there">a</a><a href="#top">b</a><p id="top"><a href="https://x.invalid/y">')
    (folder / "api" / "a.html").write_text('<dt id="there"><a href="../index.html?q=1#top">c</a><img src="%C3%A4.svg">')
    (folder / "api" / "ä.svg").write_text("<svg/>")
    expect("good links", list(make_site.check_links(folder)), [])
    (folder / "index.html").write_text('<a href="api/a.html#gone">a</a><a href="lost.html">b</a><a href="#top">c</a>')
    expect("bad links", sorted(make_site.check_links(folder)),
           ["api/a.html: no such place: ../index.html?q=1#top", "index.html: no such file: lost.html", "index.html: no such place: #top",
            "index.html: no such place: api/a.html#gone"])


def check_search():
    index = {"objects": {"": [[0, 0, 1, "-", "gd_sum"]], "gradus.Tensor": [[1, 0, 1, "-", "sum"]]}, "alltitles": {"adam": [[2, "adam"]]}}
    expect("the search", make_site.check_search(index, ["gd_sum", "gradus.Tensor.sum", "gd_lost"], ["adam", "lost"]), ["gd_lost", "lost"])


check_options()
check_search()
for check in (check_python, check_links):
    with tempfile.TemporaryDirectory() as folder:
        check(Path(folder))
print("\n".join(failures) if failures else "all refused")
sys.exit(1 if failures else 0)
