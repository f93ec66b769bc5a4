#!/usr/bin/env bash
# headers.sh INCLUDE_DIR: every public header compiles alone, as C and as C++, and so do the macros meant for callers.
set -u
include=$1
failed=0
for header in "$include"/gradus/*.h; do
    name=gradus/$(basename "$header")
    for language in 'c -std=c11' 'c++ -std=c++11'; do
        compiler=${CC:-cc}
        [[ $language == c++* ]] && compiler=${CXX:-g++}
        # shellcheck disable=SC2086
        if ! echo "#include <$name>" | "$compiler" -x $language -fsyntax-only -Wall -Wextra -Werror -I"$include" -; then
            echo "$name does not compile alone as ${language%% *}"
            failed=1
        fi
    done
done
# What a caller writes with the macros, in both languages.
macros='#include <gradus/gradus.h>
gd_object *call(gd_object *f, gd_object *x, gd_tensor *t);
gd_object *call(gd_object *f, gd_object *x, gd_tensor *t)
{
    gd_object *one = gd_invoke(f, x, GD_KWARGS(gd_int_argument("axis", 1)));
    gd_object *two = gd_call_method(one, "go", GD_KWARGS(gd_real_argument("scale", 2), gd_tensor_argument("t", t)));
    return gd_invoke(f, two, GD_KWARGS(gd_string_argument("mode", "x"), gd_pointer_argument("p", 0), gd_object_argument("o", x)));
}'
for language in 'c -std=c11' 'c++ -std=c++11' 'c++ -std=c++20'; do
    compiler=${CC:-cc}
    [[ $language == c++* ]] && compiler=${CXX:-g++}
    # shellcheck disable=SC2086
    if ! echo "$macros" | "$compiler" -x $language -fsyntax-only -Wall -Wextra -Wpedantic -Werror -I"$include" -; then
        echo "GD_KWARGS does not compile as $language"
        failed=1
    fi
done
exit $failed
