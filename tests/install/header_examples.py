#!/usr/bin/env python3
"""header_examples.py INCLUDE_DIR [LIBGRADUS.SO [MADE_INCLUDE]]: every example in a comment of a public header compiles as it stands there, and with
the library those that are more than functions run without an error.

An example is a run of lines indented by five characters after the star.  Remarks to the right of a line (three blanks and
more) are not part of it.  What an example takes for granted, a context say, is declared here.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

FOUR = "gd_require_grad(gd_from_f64(ctx, GD_F32, 1, (int64_t[]){4}, (double[]){0.5, -1, 2, 0.25}))"
GIVEN = {  # name: its declaration, and what that needs
    "ctx": "gd_ctx *ctx = gd_ctx_new(NULL);",
    "opt": 'gd_optimizer *opt = gd_optimizer_new(ctx, gd_chain(ctx, "adam | lr(0.1)"));',
    "t": f"gd_tensor *t = {FOUR};",
    "x": f"gd_tensor *x = {FOUR};",
    "d": f"gd_tensor *d = {FOUR};",
    "w": f"gd_tensor *w = {FOUR};",
    "p": "gd_tensor *p = gd_require_grad(gd_full(ctx, GD_F64, 1, (int64_t[]){256}, -1.2));",
    "m": "gd_module *m = gd_module_new(gd_class_module(ctx));",
    "weight": f"gd_tensor *weight = {FOUR};",
    "params": "gd_tensor *params[3];\nfor (int i = 0; i < 3; i++) params[i] = gd_require_grad(gd_ones(ctx, GD_F64, 1, (int64_t[]){1}));",
    "errors": "double errors[3];",
    "result": "gd_solve_result result;",
    "step": "int64_t step = 0;",
    "user": "void *user = params;",
    "my_struct": "int my_struct = 0;",
}
GIVEN_FUNCTIONS = {
    "loss": """static gd_tensor *loss(void *user)
{
    return gd_sum(gd_square(gd_add_scalar(user, -1)), NULL, false);
}""",
    "residuals": """static gd_tensor *residuals(void *user)
{
    gd_tensor **p = user;
    gd_tensor *rows[] = {gd_add_scalar(p[0], -3), gd_add_scalar(p[1], 2), gd_sub(p[2], p[0]), gd_add(p[1], p[2]), gd_add(p[0], p[1])};
    return gd_cat(rows, 5, "0");
}""",
    "area_of_shape": """static gd_object *area_of_shape(gd_object *f, gd_object *x, const gd_kwargs *kwargs, void *user)
{
    return (void)f, (void)kwargs, (void)user, x;
}""",
    "outer_product": """static gd_tensor *outer_product(gd_module *m, gd_dtype dtype, gd_device *device, void *user)
{
    (void)device, (void)user;
    return gd_zeros(gd_module_ctx(m), dtype, 1, (int64_t[]){2});
}""",
}
NEEDED_BY = {"user": ["params"]}


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


def mentions(name, body, outside):
    return (re.search(rf"\b{name}\b", body)
            and not re.search(rf"^(?!return|\s).*?\b\w+ \*?(?:\w+[^;]*, \*)?{name}(\[\])?( =|;)", body, re.M)
            and not re.search(rf"^static .*\b{name}\(", "\n".join(outside), re.M))


def is_run(source):
    """Is there more in it than functions, and are there no other processes to wait for?"""
    return "{\n\nreturn 0;" not in source and '"mpi"' not in source


def program(code):
    """An example as a program: 1 where it leaves an error in its context."""
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
    functions = [text for name, text in GIVEN_FUNCTIONS.items() if mentions(name, body, outside)]
    wanted = {name for name in GIVEN if mentions(name, body, outside)}
    wanted |= {other for name in wanted for other in NEEDED_BY.get(name, [])}
    declared = [text for name, text in GIVEN.items() if name in wanted]
    own = re.search(r"^gd_ctx \*ctx = ", body, re.M)
    if not own and any(re.search(r"\bctx\b", text) for text in declared) and GIVEN["ctx"] not in declared:
        declared.insert(0, GIVEN["ctx"])
    leaves = "return 0;" if own or not any("gd_ctx *ctx" in text for text in declared) else (
        "if (gd_error(ctx)) puts(gd_error_text(ctx));\nint failed = gd_error(ctx) != GD_OK;\ngd_ctx_free(ctx);\nreturn failed;")
    return "\n".join(
        ["#include <gradus/gradus.h>", "#include <math.h>", "#include <stdio.h>", "#include <string.h>", *functions, *outside]
        + ["int main(void)", "{", *declared, body, leaves, "}", ""]
    )


FLAGS = ["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-Wno-unused-variable", "-Wno-unused-but-set-variable", "-Wno-unused-function",
         "-Wno-unused-const-variable", "-Wno-unused-result", "-Wno-unused-parameter"]


def run(source, work, include, library):
    """(exit status, what was said): compiled, and run where there is a library and something to run."""
    compiler = os.environ.get("CC", "cc").split()
    (work / "example.c").write_text(source)
    runs = library and is_run(source)
    to = ["example.c", f"-L{library.parent}", f"-Wl,-rpath,{library.parent}", "-lgradus", "-lm", "-o", "example"] if runs else ["-fsyntax-only", "example.c"]
    done = subprocess.run([*compiler, *FLAGS, *include, *to], cwd=work, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if runs and not done.returncode:
        done = subprocess.run(["./example"], cwd=work, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)
    return done.returncode, done.stdout


def main():
    include, library = Path(sys.argv[1]), Path(sys.argv[2]).resolve() if len(sys.argv) > 2 else None
    failed = count = ran = 0
    with tempfile.TemporaryDirectory() as work:
        for table in (include.parent / "examples" / "data").glob("*.csv"):
            shutil.copy(table, work)
        for header in sorted((include / "gradus").rglob("*.h")):
            for code in blocks(header.read_text()):
                source = program(code)
                status, said = run(source, Path(work), [f"-I{include.resolve()}", *(f"-I{Path(p).resolve()}" for p in sys.argv[3:])], library)
                count += 1
                ran += bool(library and is_run(source))
                if status:
                    failed += 1
                    print(f"{header.name}: an example fails\n{source}\n{said}")
    print(f"{count} examples, {ran} of them run, {failed} fail")
    return 1 if failed or count < 12 or (library and ran < 12) else 0


if __name__ == "__main__":
    sys.exit(main())
