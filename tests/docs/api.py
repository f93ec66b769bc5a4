#!/usr/bin/env python3
"""api.py ROOT MADE_DIR LIBGRADUS.SO: every public name has its comment, what has none is refused by name, and every function that
the library exports has its page of the manual."""
import re
import shutil
import subprocess
import sys
import tempfile
from importlib.machinery import SourceFileLoader
from pathlib import Path

ROOT, MADE, LIBRARY = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "tools" / "docs"))
make_api = SourceFileLoader("make_api", str(ROOT / "tools" / "docs" / "make_api")).load_module()
header_docs = make_api.header_docs
failures = []

MEANINGS = ["/* Two.", " *   neg  -a */"]
LISTED = [*MEANINGS, "#define GD_LIST(X) X(neg) X(bare)", "#define GD_ONE(name) int gd_rule_##name(int a);", *MEANINGS, "GD_LIST(GD_ONE)",
          "#undef GD_ONE"]
REFUSED = [  # the name in the error, lines of a header
    ("gd_bare", ["int gd_bare(int x);"]),
    ("gd_bare", ["int gd_noted(int x); /* it */", "int gd_bare(int x);"]),
    ("gd_bare", ["/* It. */", "int gd_told(int x);", "", "int gd_bare(int x);"]),
    ("gd_bare", ["/* ---- a section ---- */", "int gd_bare(int x);"]),
    ("gd_bare", ["typedef struct gd_bare gd_bare;"]),
    ("gd_bare", ["typedef struct gd_bare {", "    int x; /* it */", "} gd_bare;"]),
    ("gd_bare", ["typedef int (*gd_bare)(int x);"]),
    ("gd_bare", ["static inline int gd_bare(void)", "{", "    return 0; /* inside */", "}"]),
    ("GD_BARE", ["#define GD_BARE 3"]),
    ("GD_BARE", ["enum { GD_BARE = 1, GD_OTHER };"]),
    ("gd_rule_bare", LISTED),
]
ACCEPTED = [
    ["/* Both. */", "int gd_one(int x);", "int gd_two(int x); /* it */"],
    ["#define GD_OWN_ 3", "#define GD_NOTED 3 /* it */"],
    ["typedef int (*gd_fn)(int x); /* it */"],
]


def undocumented(lines):
    text = "\n".join(["/* gradus/link/list.h: a header. */", "#ifndef GRADUS_LIST_H", "#define GRADUS_LIST_H", "", *lines, "#endif", ""])
    reader = header_docs.Reader(text, "list.h").read()
    return [n for _, _, names in header_docs.undocumented([header_docs.Header("list.h", "a header", reader.sections)]) for n in names]


def check_manual(folder):
    make_api.write_man(folder, [ROOT / "include", MADE])
    symbols = subprocess.run(["nm", "-D", "--defined-only", LIBRARY], capture_output=True, text=True, check=True).stdout
    functions = set(re.findall(r" T (gd_[a-z]\w*)", symbols))
    for function in sorted(functions):
        page = folder / f"{function}.3"
        text = page.read_text(encoding="utf-8") if page.exists() else ""
        while text.startswith(".so man3/"):
            text = (folder / text.split("/")[1].strip()).read_text(encoding="utf-8")
        if not re.search(rf"[ *]{function}\(", text):
            failures.append(f"{function} has no page that declares it")
    if len(functions) < 500:
        failures.append(f"only {len(functions)} functions in {LIBRARY}")
    if shutil.which("groff"):
        pages = [str(folder / f"{n}.3") for n in ("gd_sum", "gd_optimizer_step", "gd_ctx_new", "gd_link_class", "gd_adam_options")]
        said = subprocess.run(["groff", "-man", "-ww", "-Tutf8", *pages], capture_output=True, text=True, check=False).stderr
        failures.extend(line for line in said.splitlines() if "can't break line" not in line and "cannot adjust" not in line)
    return len(functions)


if make_api.check([ROOT / "include", MADE]):
    failures.append("something public has no comment")
for name, lines in REFUSED:
    if undocumented(lines)[:1] != [name]:
        failures.append(f"nobody misses a comment of {name}: {lines}: {undocumented(lines)}")
for lines in ACCEPTED:
    if undocumented(lines):
        failures.append(f"refused: {lines}")
with tempfile.TemporaryDirectory() as folder:
    count = check_manual(Path(folder) / "man3")
print("\n".join(failures) if failures else f"{count} functions with their pages")
sys.exit(1 if failures else 0)
