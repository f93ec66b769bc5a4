#!/usr/bin/env python3
"""samples.py [--update] ROOT GRADUS LIBGRADUS.SO MADE_INCLUDE [PAGE...]: the C and shell samples of README.md and docs/ compile, run
(parts of programs inside one that declares what they take for granted), and print what the pages show; --update writes what they print into the pages.  Python's are run by python/tests/package/test_docs.py."""
import os
import subprocess
import sys
import tempfile
import re
from importlib.machinery import SourceFileLoader
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.dont_write_bytecode = True
sys.path.insert(0, str(HERE))
import pages  # noqa: E402

fragments = SourceFileLoader("header_examples", str(HERE.parent / "install" / "header_examples.py")).load_module()

ELSEWHERE = {  # pages whose blocks other tests run
    "plugins.md": "cli/plugin",
}
INSTEAD = {"scale.md": ('"mpi"', '"self"'), "gpu.md": ('"gpu"', '"cpu"')}  # of what is not everywhere
README_WORDS, README_FIRST = 900, 60
ILLUSTRATIONS = 5  # blocks of C and shell that are not run: one more is a decision
LANGUAGES = {"sh", "c", "python", "text"}


class Runner:
    def __init__(self, root, gradus, library, made, folder):
        self.root, self.folder, self.library = root, folder, library
        self.include = [f"-I{root / 'include'}", f"-I{made}"]
        self.link = [f"-L{library.parent}", f"-Wl,-rpath,{library.parent}", "-lgradus", "-lm"]
        tools = folder / "tools"
        tools.mkdir()
        (tools / "gradus").symlink_to(gradus)
        # what is installed here is the build; several processes have tests of their own (world/), and not every machine has them
        shims = {"pkg-config": "echo " + " ".join(self.include + self.link), "mpirun": 'shift 2\nexec "$@"'}
        for name, line in shims.items():
            (tools / name).write_text(f"#!/bin/sh\n{line}\n")
            (tools / name).chmod(0o755)
        self.environment = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "HOME": str(folder), "COLUMNS": "100", "GRADUS_THREADS": "2"}
        self.compiler = os.environ.get("CC", "cc").split()

    def run(self, command, work):
        return subprocess.run(command, cwd=work, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)

    def sh(self, block, work):
        done = self.run(["bash", "-eu", "-o", "pipefail", "-c", block.text], work)
        return done.returncode, done.stdout

    def c(self, block, work, compiled_below):
        name = block.name or "sample.c"
        (work / name).write_text(block.text.replace(*INSTEAD.get(block.page.name, ("", "")), 1))
        if compiled_below:
            return 0, ""
        if "int main(" not in block.text:
            whole = "#include <gradus/" in block.text  # a file without main: a plugin, a class
            source = block.text if whole else fragments.program([line for line in block.text.split("\n") if line])
            source = source.replace(*INSTEAD.get(block.page.name, ("", "")), 1)
            return fragments.run(source, work, self.include, None if whole else self.library)
        done = self.run([*self.compiler, "-std=gnu11", "-Wall", "-Werror", *self.include, name, *self.link, "-o", "sample"], work)
        if not done.returncode:
            done = self.run(["./sample"], work)
        return done.returncode, done.stdout

    def page(self, page, found):
        """Faults, the number of samples, and [(block, what it said)] where a page shows that."""
        faults, count, said = [], 0, []
        work = self.folder / "-".join(page.relative_to(self.root).with_suffix("").parts)
        work.mkdir()
        (work / "examples").symlink_to(self.root / "examples")
        for i, block in enumerate(found):
            if block.illustration or block.language not in ("sh", "c"):
                continue
            count += 1
            below = block.name and any(b.language == "sh" and block.name in b.text for b in found[i + 1:])
            status, output = self.sh(block, work) if block.language == "sh" else self.c(block, work, below)
            if status:
                faults.append(f"{block}: exit {status}\n{block.text}{output}")
            elif block.output:
                said.append((block, output))
        return faults, count, said


INDENTED = re.compile(r"(?<=\n\n)    (?:gradus|\./dev|cmake|pip|cc|mpirun|srun|python3?|\w+=\S+ \w+) .*\n")


def check_fences(page):
    """Commands that stand indented are samples that nobody runs."""
    text = pages.FENCE.sub("", page.read_text(encoding="utf-8"))
    return [f"{page.name}: not between fences, so it is not run: {found.strip()}" for found in INDENTED.findall(text)]


def commands_of(blocks):
    """The commands of lines that install."""
    lines = (line.partition(" #")[0] for b in blocks if b.illustration.startswith("it installs;") for line in b.text.splitlines())
    return {command.strip() for line in lines for command in line.split("&&")}


def check_readme(root):
    """The first page: short, the three languages with what they print, and install lines that other tests run."""
    readme = root / "README.md"
    blocks, words = pages.blocks(readme), len(readme.read_text(encoding="utf-8").split())
    if words > README_WORDS:
        yield f"README.md has {words} words, at most {README_WORDS} are wanted"
    shown = [b.language for b in blocks if b.line < README_FIRST and (b.output or b.name) and b.language != "text"]
    if shown != ["sh", "python", "c"]:
        yield f"the README's first screens do not show shell, Python and C: {shown}"
    tried = commands_of(b for name in ("c", "python") for b in pages.blocks(root / "docs" / "start" / f"{name}.md"))
    for command in sorted(commands_of(blocks) - tried):
        yield f"README.md: '{command}' installs, and docs/start, whose lines are run, does not say it"


SPAN = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
CHAIN = re.compile(r"[a-z_0-9]+(\([^|]*\))?( \| [a-z_0-9]+(\([^|]*\))?)+")


def public_names(folders):
    sys.path.insert(0, str(folders[0].parent / "tools" / "docs"))
    import header_docs
    found = {n for folder in folders for h in header_docs.read_all(folder) for e in h.entries for n in e.names}
    return found | set(re.findall(r"\bGD_\w+", "".join(h.read_text(encoding="utf-8") for f in folders for h in (f / "gradus").rglob("*.h"))))


def check_names(page, public, runner):
    """What the text between the samples names is there: functions of the library, and chains, which must parse."""
    text, faults, count = pages.FENCE.sub("", page.read_text(encoding="utf-8")), [], 0
    for span in set(SPAN.findall(text)):
        span = span.replace("\\|", "|")
        for name in re.findall(r"\b(gd_(?!py_)[a-z]\w*)(?![\w.]*\.)", span):  # gd_py_: of the package's extension
            count += 1
            if name not in public and name not in ("gd_plugin_links", "gd_cube"):
                faults.append(f"{page.name}: there is no {name}")
        if CHAIN.fullmatch(span) and "..." not in span:
            count += 1
            done = runner.run(["gradus", "explain", re.sub(r"\| lr$", "| lr(1)", span)], runner.folder)
            if done.returncode:
                faults.append(f"{page.name}: {span}: {done.stdout}")
    return faults, count


def main(arguments):
    update = arguments[:1] == ["--update"]
    root, gradus, library, made, *only = [Path(a).resolve() for a in arguments[update:]]
    faults, illustrations, count, shown, names = [], [], 0, 0, 0
    public = public_names([root / "include", made])
    with tempfile.TemporaryDirectory() as folder:
        runner = Runner(root, gradus, library, made, Path(folder))
        for page in only or pages.pages(root):
            found = pages.blocks(page)
            faults += [f"{b}: ```{b.language}: no language that samples are run in; mark it as an illustration"
                       for b in found if b.language not in LANGUAGES and not b.language.startswith("{") and not b.illustration]
            inside = {n for h in (root / "src").rglob("*.h") for n in re.findall(r"\bgd_\w+", h.read_text(encoding="utf-8"))} \
                if page.name == "architecture.md" else set()
            more, named = check_names(page, public | inside, runner)
            faults += more
            names += named
            illustrations += [b for b in found if b.illustration and b.language in ("c", "sh")]
            elsewhere = page.name in ELSEWHERE and page.parent == root / "docs"
            faults += [] if elsewhere else check_fences(page)
            more, samples, said = runner.page(page, [b for b in found if b.beside or not elsewhere])
            faults += more
            count += samples
            shown += len(said)
            wrong = [(b, text) for b, text in said if not pages.same(b.output.text, text)]
            if update and wrong:
                pages.replace_outputs(page, wrong)
            else:
                faults += [f"{b.output}: it prints\n{text}" for b, text in wrong]
    if not only:
        faults += check_readme(root)
    if not only and len(illustrations) != ILLUSTRATIONS:
        faults.append(f"{len(illustrations)} blocks are not run, ILLUSTRATIONS says {ILLUSTRATIONS}: {', '.join(map(str, illustrations))}")
    print("\n".join(faults) if faults else f"{count} samples, {shown} with what they print, {len(illustrations)} illustrations, {names} names and chains in the text")
    return 1 if faults or not count else 0


sys.exit(main(sys.argv[1:]))
