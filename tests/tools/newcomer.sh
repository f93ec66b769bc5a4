#!/usr/bin/env bash
# newcomer.sh ROOT: the exercise of CONTRIBUTING.md in a copy of the tree.  A link is two files, an operator two places, a
# command two files.  All code that uses their tables then compiles and links, and the compiler or the linker reports what is
# left out.
set -u
root=$1
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
cp -r "$root/src" "$root/include" "$copy/" || exit 1
cc=${CC:-cc}
failures=0
cd "$copy" || exit 1
git init -q . && git add -A && git -c user.name=x -c user.email=x@x commit -qm tree || exit 1

wrong() { echo "$1"; failures=$((failures + 1)); }

# compile FILE...: objects under $copy/o
compile()
{
    local file
    mkdir -p o
    for file; do
        "$cc" -std=gnu11 -O0 -Wall -Wextra -Werror -Wno-unused-function -DGD_ISA=base -Isrc -Iinclude -c "$file" \
            -o "o/$(tr / _ <<<"$file").o" 2>o/said || return 1
    done
}

# nobody LIKE NAME: of the symbols like LIKE that objects name and none defines, those that are NAME
nobody()
{
    nm o/*.o | awk -v like="$1" 'NF < 2 { next } $(NF-1) == "U" && $NF ~ like { named[$NF] = 1 } $(NF-1) ~ /[TRD]/ { made[$NF] = 1 }
        END { for (s in named) if (!(s in made)) print s }' | grep -x "$2"
}

# touched N WHAT: the exercise changed or added N files
touched()
{
    local n
    n=$(git add -A -- src include && git diff --cached --name-only | wc -l)
    echo "$2: $n files, $(git diff --cached --numstat | awk '{ n += $1 } END { print n }') lines"
    [[ $n -le $1 ]] || wrong "$2: $n files, not $1: $(git diff --cached --name-only | tr '\n' ' ')"
    git reset -q --hard
    rm -rf o
}

# ---- an operator: gd_cube ----
users=(src/tensor/node.c src/tensor/elementwise.c src/tensor/cpu/device.c src/tensor/cpu/vec/kernels.c src/autograd/backward.c
    src/autograd/batch_rules.c src/autograd/rules_math.c src/program/program.c src/program/vec/blocks.c src/optim/rule/rule.c src/expr/expr_calls.c src/expr/expr_elements.c)
row()
{
    sed -i 's/^ELEMENT (square,.*/ELEMENT (cube, 1, 0, MAP, A, FLOATS, slope,\n         a * a * a, NONE, SLOPE(gd_mul(gd_mul_scalar(G, 3), gd_square(X))),\n         FUNCTION("x * x * x", CALL("pow($, 3.0)"), FORM("$**3", POWER, ATOM, 0), FORM("{$}^{3}", POWER, ATOM, 0)))\n&/' \
        src/tensor/ops.def
}
public() { sed -i '0,/X(square)/s//X(square) X(cube)/' include/gradus/tensor.h; }
row && public
compile "${users[@]}" || wrong "an operator: $(cat o/said)"
nobody '^gd_(_grad|_batch|rule)?_cube' '.*' && wrong "something of the operator is missing"
has() { nm "o/$1.o" | grep -q " [Tt] $2$" || wrong "there is no $2"; }
has src_tensor_elementwise.c gd_cube
has src_autograd_rules_math.c gd__grad_cube
has src_tensor_cpu_vec_kernels.c cube_f64
has src_optim_rule_rule.c gd_rule_cube
nm o/src_expr_expr_elements.c.o | grep -q ' U gd_cube$' || wrong "expressions do not know gd_cube"
grep -q 'x \* x \* x' o/src_expr_expr_calls.c.o || wrong "expressions do not explain cube"
touched 2 "an operator"

# ---- an element-wise link ----
cat >src/optim/links/misc/newcomer.c <<'END'
/* Takes half of the update. */
#include "gradus/link.h"

static gd_value newcomer_rule(gd_rule *r, gd_value u) { return gd_rule_mul(r, u, gd_rule_const(r, 0.5)); }

GD_LINK(misc, newcomer, .summary = "halves the update", .formula = "u / 2", .rule = newcomer_rule);
END
sed -i '0,/^LINK(/s//LINK(newcomer)\nLINK(/' src/optim/links.def
compile src/optim/link/classes.c || wrong "a link: $(cat o/said)"
nobody '^gd_link_newcomer$' gd_link_newcomer >/dev/null || wrong "the linker does not miss a link of the table"
compile src/optim/links/misc/newcomer.c || wrong "a link: $(cat o/said)"
nobody '^gd_link_newcomer$' '.*' && wrong "the link is missing"
touched 2 "a link"

# ---- a command ----
cat >src/cli/commands/cmd_newcomer.c <<'END'
/* gradus newcomer: says hello. */
#include "cli/cli.h"

static int run_newcomer(gd_cli *cli, const gd_args *args)
{
    (void)args;
    gd__text_add(&cli->out, "hello\n");
    return gd__cli_code(cli, GD_OK);
}

const gd_command gd__command_newcomer = {.name = "newcomer", .summary = "Say hello.", .run = run_newcomer};
END
sed -i '0,/X(help)/s//X(newcomer) X(help)/' src/cli/cli.h
compile src/cli/commands/commands.c || wrong "a command: $(cat o/said)"
nobody '^gd__command_newcomer$' gd__command_newcomer >/dev/null || wrong "the linker does not miss a command of the table"
compile src/cli/commands/cmd_newcomer.c || wrong "a command: $(cat o/said)"
nobody '^gd__command_newcomer$' '.*' && wrong "the command is missing"
touched 2 "a command"

# ---- facts of operators are columns of their table ----
grep -rn 'case GD_OP_' src && wrong "a fact of an operator is a column of ops.def, not a case"
exit $((failures > 0))
