#!/usr/bin/env python3
"""header_examples.py INCLUDE_DIR: every example in a comment of a public header compiles as it stands there.

An example is a run of lines indented by five characters after the star.  Remarks to the right of a line (three blanks and
more) are not part of it.  What an example takes for granted, a context say, is declared here.
"""
import os
import re
import subprocess
import sys
from pathlib import Path

GIVEN = {  # name: its declaration
    "ctx": "gd_ctx *ctx = NULL;",
    "opt": "gd_optimizer *opt = NULL;",
    "t": "gd_tensor *t = NULL;",
    "x": "gd_tensor *x = NULL;",
    "d": "gd_tensor *d = NULL;",
    "w": "gd_tensor *w = NULL;",
    "p": "gd_tensor *p = NULL;",
    "m": "gd_module *m = NULL;",
    "weight": "gd_tensor *weight = NULL;",
    "params": "gd_tensor *params[3] = {NULL};",
    "errors": "double errors[3];",
    "result": "gd_solve_result result;",
    "step": "int64_t step = 0;",
    "user": "void *user = NULL;",
    "my_struct": "int my_struct = 0;",
    "loss": "gd_tensor *loss(void *);",
    "residuals": "gd_tensor *residuals(void *);",
    "area_of_shape": "gd_object *area_of_shape(gd_object *, gd_object *, const gd_kwargs *, void *);",
    "outer_product": "gd_tensor *outer_product(gd_module *, gd_dtype, gd_device *, void *);",
}


def blocks(text):
    """Runs of example lines that are C, not chains or pictures."""
    run = []
    for line in text.splitlines() + [""]:
        found = re.match(r" \*     (\s*\S.*)$", line)
        if found and (run or not found.group(1).startswith(" ")):
            run.append(found.group(1).removesuffix("*/").rstrip())
        elif run and line.strip() == "*":
            run.append("")
        elif run:
            yield from split(run)
            run = []


def split(run):
    code = [line for line in run if line]
    if any(re.search(r"[;{]($|\s{3})", line) for line in code):
        yield code


def without_remark(line):
    code = re.match(r"(.*?[;{}),])\s{3,}\S", line)
    return code.group(1) if code else line


def program(code):
    outside, inside = [], []
    function = False  # inside one that stands on several lines
    for line in map(without_remark, code):
        if function or re.match(r"static .*\)$", line):
            outside.append(line)
            function = line != "}"
            continue
        if not re.search(r"[;{}|,&]$|\)\s*\|\|$|\)$", line) or re.fullmatch(r"\w+\([^()]*\)", line):
            line += ";"
        (outside if re.match(r"(static|const) ", line) else inside).append(line)
    body = "\n".join(inside)
    declared = [
        declaration
        for name, declaration in GIVEN.items()
        if re.search(rf"\b{name}\b", body)
        and not re.search(rf"^(?!return|\s).*?\b\w+ \*?(?:\w+[^;]*, \*)?{name}( =|;)", body, re.M)
        and not re.search(rf"^static .*\b{name}\(", "\n".join(outside), re.M)
    ]
    return "\n".join(
        ["#include <gradus/gradus.h>", "#include <math.h>", "#include <stdio.h>", "#include <string.h>", *outside, "void example(void);"]
        + ["void example(void)", "{", *declared, body, "}", ""]
    )


def main():
    include = Path(sys.argv[1])
    compiler = os.environ.get("CC", "cc").split()
    flags = ["-std=gnu11", "-x", "c", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-Wno-unused-variable"]
    flags += ["-Wno-unused-but-set-variable", f"-I{include}", "-"]
    failed = count = 0
    for header in sorted((include / "gradus").glob("*.h")):
        for code in blocks(header.read_text()):
            source = program(code)
            done = subprocess.run(compiler + flags, input=source, text=True, capture_output=True)
            count += 1
            if done.returncode:
                failed += 1
                print(f"{header.name}: an example does not compile\n{source}\n{done.stderr}")
    print(f"{count} examples, {failed} do not compile")
    return 1 if failed or count < 12 else 0


if __name__ == "__main__":
    sys.exit(main())
