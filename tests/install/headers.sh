#!/usr/bin/env bash
# headers.sh INCLUDE_DIR MADE_DIR: MADE_DIR has the headers that the build makes.  Every public header compiles alone, as C and as C++, and so do the macros meant for callers.
set -u
include=$1 made=$2
failed=0
for header in "$include"/gradus/*.h "$include"/gradus/*/*.h "$made"/gradus/*.h; do
    name=gradus/${header##*/gradus/}
    for language in 'c -std=c11' 'c++ -std=c++11'; do
        compiler=${CC:-cc}
        [[ $language == c++* ]] && compiler=${CXX:-g++}
        # shellcheck disable=SC2086
        if ! echo "#include <$name>" | "$compiler" -x $language -fsyntax-only -Wall -Wextra -Werror -I"$include" -I"$made" -; then
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
# Options of links: names and types are the compiler's to check.
options()
{
    local language=$1 line=$2 compiler=${CC:-cc}
    [[ $language == c++* ]] && compiler=${CXX:-g++}
    # shellcheck disable=SC2086
    printf '#include <gradus/gradus.h>\ngd_link *f(gd_ctx *ctx);\ngd_link *f(gd_ctx *ctx)\n{\n    gd_adam_options o = gd_adam_defaults();\n    %s\n    return gd_adam_new(ctx, &o);\n}\n' "$line" |
        "$compiler" -x $language -fsyntax-only -Wall -Wextra -Wpedantic -Werror -I"$include" -I"$made" - 2>/dev/null
}
for language in 'c -std=c11' 'c++ -std=c++11' 'c++ -std=c++20'; do
    options "$language" 'o.beta1 = 0.8; o.eps_at = "corrected"; o.inner = gd_cautious_new(ctx, NULL);' ||
        { echo "options of links do not compile as $language"; failed=1; }
    for wrong in 'o.beta3 = 0.8;' 'o.beta1 = "0.8";' 'o.eps_at = 1;' 'o.inner = 0.5;' 'gd_lr_options lr = o;'; do
        if options "$language" "$wrong"; then
            echo "compiles as $language, and should not: $wrong"
            failed=1
        fi
    done
done
exit $failed
