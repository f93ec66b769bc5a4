#!/usr/bin/env bash
# checks.sh ROOT: the checks of the tree refuse what they are there to refuse.
set -u
root=$1
command -v python3 >/dev/null || { echo "SKIPPED: no python3"; exit 77; }
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
cp -r "$root/src" "$root/include" "$root/backends" "$copy/" || exit 1
failures=0

# refuses CHECK FILE LINE: with LINE at the end of FILE, CHECK fails and names FILE; without it, it passes
refuses()
{
    local file=$copy/$2 said
    "$root/tools/$1" "$copy" >/dev/null || { echo "$1 fails on the tree as it is"; failures=$((failures + 1)); return; }
    cp "$file" "$copy/before"
    echo "$3" >>"$file"
    said=$("$root/tools/$1" "$copy") && { echo "$1 accepts '$3' in $2"; failures=$((failures + 1)); }
    grep -q "^$2" <<<"$said" || { echo "$1 does not name $2: $said"; failures=$((failures + 1)); }
    mv "$copy/before" "$file"
}

refuses check_layers src/tensor/shape.c '#include "optim/link/link_internal.h"'
refuses check_layers src/program/program.c '#include "optim/rule/build.h"'
refuses check_layers src/program/program.c '#include "file/file_internal.h"'
refuses check_layers src/optim/plan/plan.c '#include "optim/step/var_internal.h"'
refuses check_layers src/optim/ranks/share.c '#include "optim/plan/plan.h"'
refuses check_layers src/optim/link/link_state.c '#include "optim/ranks/share.h"'
refuses check_layers src/optim/vector/layout.c '#include "optim/link/owner.h"'
refuses check_layers src/optim/methods/line.c '#include "optim/solve/solve_internal.h"'
refuses check_layers src/optim/links/step_size/lr.c 'static const gd_link_class other = { .family = "misc" };'
refuses check_layers src/optim/links/step_size/lr.c 'GD_LINK(misc, other, .rule = lr_rule);'
refuses check_layers src/optim/links/step_size/lr.c '#include "optim/link/link_internal.h"'
refuses check_layers src/optim/links/line_search/backtracking.c '#include "base/ctx.h"'
refuses check_layers src/plot/plot.c '#include "table/csv.h"'
refuses check_layers src/table/csv.c '#include "train/data/dataset.h"'
refuses check_layers src/file/gzip.c '#include "table/csv.h"'
refuses check_layers src/train/model/measure.c '#include "fit/fit_job.h"'
refuses check_layers src/train/data/dataset.c '#include "train/model/recipe.h"'
refuses check_layers src/train/model/checkpoint.c '#include "train/run/trainer.h"'
refuses check_layers src/fit/fit_model.c '#include "cli/cli.h"'
refuses check_layers src/problem/problem.c '#include "cli/args.h"'
refuses check_layers src/problem/problem.c '#include "train/run/trainer.h"'
refuses check_layers backends/plain/plain.c '#include "program/program.h"'
refuses check_backends src/tensor/shape.c 'static const char *const plugin = "libgradus_cuda.so";'
refuses check_backends src/program/emit.c 'int cuda;'
refuses check_backends src/world/world.c '#include <mpi.h>'
refuses check_layers src/world/world.c '#include "module/module_internal.h"'
refuses check_layers backends/mpi/mpi.c '#include "world/world_internal.h"'
refuses check_portable src/tensor/shape.c 'static void *end(const char *s) { return strchrnul(s, 0); }'
refuses check_portable src/table/csv.c '#include <endian.h>'
refuses check_portable include/gradus/tensor.h '#define WHO program_invocation_name'
refuses check_portable src/program/program.c 'static long at(const struct stat *s) { return s->st_mtim.tv_nsec; }'
refuses_name()
{
    local i
    for i in base/number tensor/shape module/glob autograd/leaf program/program file/npy; do
        printf 'static int lone_name(void)\n{\n    return 0;\n}\n' >>"$copy/src/$i.c"
    done
    "$root/tools/check_names" "$copy" | grep -q 'lone_name is the name of a function in 6 files' ||
        { echo "check_names accepts a name in six files"; failures=$((failures + 1)); }
}


# check_layers refuses a symbol of a higher room, whatever header declares it, but for the table of classes
objects=$copy/objects/one.dir/src
mkdir -p "$objects/optim/links/step_size" "$objects/optim/link"
compiled() { echo "$1" | "${CC:-cc}" -x c -c -w -o "$objects/$2.o" - || failures=$((failures + 1)); }
compiled 'int gd_link_lr = 1; int gd__solve_it(void) { return 0; }' optim/links/step_size/lr.c
compiled 'extern int gd_link_lr; int gd__class_at(void) { return gd_link_lr; }' optim/link/classes.c
"$root/tools/check_layers" "$copy" --objects "$copy/objects" >/dev/null || { echo "check_layers refuses the table of classes"; failures=$((failures + 1)); }
compiled 'int gd__solve_it(void); int gd__class_at(void) { return gd__solve_it(); }' optim/link/classes.c
"$root/tools/check_layers" "$copy" --objects "$copy/objects" | grep -q '^src/optim/link/classes.c: may not use gd__solve_it of src/optim/links/step_size/lr.c' ||
    { echo "check_layers accepts a function of a higher room"; failures=$((failures + 1)); }
rm -r "$copy/objects"

# check_layers refuses a folder of many files
mkdir -p "$copy/bench/many" && touch "$copy"/bench/many/{a..z}.c
"$root/tools/check_layers" "$copy" >/dev/null || { echo "check_layers refuses 26 files"; failures=$((failures + 1)); }
: >"$copy/bench/many/zz.py"
"$root/tools/check_layers" "$copy" | grep -q '^bench/many: 27 files' || { echo "check_layers accepts 27 files"; failures=$((failures + 1)); }
rm -r "$copy/bench"
mkdir "$copy/tools" && touch "$copy"/tools/gen_{a..z} "$copy/tools/more"
"$root/tools/check_layers" "$copy" | grep -q '^tools: 27 files' || { echo "check_layers accepts 27 tools"; failures=$((failures + 1)); }
rm -r "$copy/tools"
# check_layers --lines counts code, not blanks and comments
total() { "$root/tools/check_layers" "$copy" --lines | awk '$2 == "src" {print $1}'; }
before=$(total)
printf '\n/* a comment\n   of two lines */\nconst char *text = "/* no comment */"; // one\n' >>"$copy/src/base/text/number.c"
[[ $(total) -eq $((before + 1)) ]] || { echo "check_layers --lines counts $(($(total) - before)) lines for 1"; failures=$((failures + 1)); }
cp "$root/src/base/text/number.c" "$copy/src/base/text/number.c"
# check_names refuses a second file of the same name
mkdir "$copy/src/base/double" && : >"$copy/src/base/double/shape.c"
"$root/tools/check_names" "$copy" | grep -q '2 files are called shape.c' ||
    { echo "check_names accepts two files of one name"; failures=$((failures + 1)); }
rm -r "$copy/src/base/double"
"$root/tools/check_names" "$copy" >/dev/null || { echo "check_names fails on the tree as it is"; failures=$((failures + 1)); }
refuses_name
# check_uses refuses a public function that nobody calls, and a second declaration is no use
mkdir -p "$copy/python" "$copy/tools"
cp -r "$root/examples" "$root/docs" "$copy/" && cp -r "$root/python/src" "$root/python/gradus" "$copy/python/" &&
    cp -r "$root/tools/gen" "$copy/tools/" || exit 1
"$root/tools/check_uses" "$copy" >/dev/null || { echo "check_uses fails on the tree as it is"; failures=$((failures + 1)); }
sed -i 's/^int gd_var_count(/int gd_var_unused(const gd_var *var); \/* nobody calls it *\/\n&/' "$copy/include/gradus/link/var.h"
"$root/tools/check_uses" "$copy" | grep -q 'gd_var_unused is used by tests only' ||
    { echo "check_uses accepts a function that nobody calls"; failures=$((failures + 1)); }
cp "$root/include/gradus/link/var.h" "$copy/include/gradus/link/var.h"
# check_names refuses options in messages of the library, and settings that no spec has
printf 'const char *said = "--speed: too high";\n' >>"$copy/src/file/npy.c"
printf 'const char *meant = "{speed_of_light}: too high";\n' >>"$copy/src/program/program.c"
for said in 'npy.c:[0-9]*: an option of the program in a message' 'program.c:[0-9]*: {speed_of_light} is a member of no spec'; do
    "$root/tools/check_names" "$copy" | grep -q "$said" || { echo "check_names accepts: $said"; failures=$((failures + 1)); }
done
echo 'int x; /* CUDA */' >>"$copy/src/tensor/shape.c"
"$root/tools/check_backends" "$copy" >/dev/null || { echo "check_backends refuses a comment"; failures=$((failures + 1)); }
# a big-endian processor is refused when configuring, and by the compiler where somebody configures another way
said=$(cmake -D CMAKE_C_BYTE_ORDER=BIG_ENDIAN -P "$root/cmake/ByteOrder.cmake" 2>&1) &&
    { echo "a big-endian compiler is accepted"; failures=$((failures + 1)); }
grep -q 'gradus runs on little-endian processors' <<<"$said" ||
    { echo "big-endian is refused without the reason: $said"; failures=$((failures + 1)); }
cmake -D CMAKE_C_BYTE_ORDER=LITTLE_ENDIAN -P "$root/cmake/ByteOrder.cmake" ||
    { echo "a little-endian compiler is refused"; failures=$((failures + 1)); }
for file in npy safetensors; do
    "${CC:-cc}" -std=gnu11 -fsyntax-only -w -U__BYTE_ORDER__ -D__BYTE_ORDER__=__ORDER_BIG_ENDIAN__ -I"$root/src" -I"$root/include" \
        "$root/src/file/$file.c" 2>&1 | grep -q 'elements are written as they lie in memory' ||
        { echo "$file.c compiles for a big-endian processor"; failures=$((failures + 1)); }
done
# links of pages: to a file that is not there, and to a heading that is not
pages=$copy/pages
mkdir -p "$pages/docs"
printf '# One page\n\n## What `it` does, twice\n\n## What it does, twice\n\n```sh\n# no heading\n```\n<a id="own"></a>\n' >"$pages/docs/one.md"
links_say() # EXPECTED TEXT
{
    printf '%s\n' "$2" >"$pages/two.md"
    "$root/tools/check_links" "$pages" | grep -qF -- "$1" ||
        { echo "check_links does not say '$1' of $2"; failures=$((failures + 1)); }
}
links_say '2 pages, 1 links' '[a](docs/one.md) [b](https://nowhere.invalid) `[c](code.md)`'
links_say '2 pages, 5 links' '[a](docs/one.md#what-it-does-twice) [b](docs/one.md#what-it-does-twice-1) [c](docs/one.md#own) [d](#top) <img src="docs/one.md">
# Top'
links_say 'two.md: no such file: docs/two.md' '[a](docs/two.md)'
links_say 'two.md: no such file: lost.svg' '<p><img src="lost.svg"></p>'
links_say 'two.md: no such file: lost.md' '[a]: lost.md'
links_say 'two.md: no such heading: docs/one.md#no-heading' '[a](docs/one.md#no-heading)'
links_say 'two.md: no such heading: #top' '[a](#top)'
# one version everywhere: what is cited, packaged, asked for and written about is what is built
part() { sed -n "s/^#define GD_VERSION_$1 *//p" "$root/include/gradus/version.h"; }
minor=$(part MAJOR).$(part MINOR)
version=$minor.$(part PATCH)
same_version() # FILE WHAT LINE: the first line of FILE that has WHAT is LINE
{
    local said
    said=$(grep -m 1 -- "$2" "$root/$1")
    [[ $said == "$3" ]] || { echo "$1 says '$said', gradus/version.h $version"; failures=$((failures + 1)); }
}
same_version CITATION.cff '^version:' "version: $version"
same_version packages/vcpkg/gradus/vcpkg.json '"version"' "  \"version\": \"$version\","
same_version tests/install/consumer/CMakeLists.txt '^find_package(gradus' "find_package(gradus $minor REQUIRED)"
same_version CHANGELOG.md '^## ' "## $version$(grep -om 1 -E ' \((unreleased|[0-9]{4}-[0-9]{2}-[0-9]{2})\)$' "$root/CHANGELOG.md")"
[[ $failures -eq 0 ]] && echo "all refused"
exit $((failures > 0))
