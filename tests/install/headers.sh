#!/usr/bin/env bash
# headers.sh INCLUDE_DIR: every public header compiles alone, as C and as C++.
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
exit $failed
