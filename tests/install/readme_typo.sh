#!/usr/bin/env bash
# readme_typo.sh README INCLUDE_DIR LIBGRADUS.SO: the README's own program with a typo in its chain says what was meant and exits
# with 1, as a program does that checks nothing on the way.
set -eu
readme=$1 include=$2 library=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
. "$(dirname "$0")/readme_lines.sh"
readme_program "$readme" >"$work/right.c"
sed 's/"lbfgs | strong_wolfe"/"lbgfs | strong_wolfe"/' "$work/right.c" >"$work/typo.c"
if cmp -s "$work/right.c" "$work/typo.c"; then
    echo "the README's program has no chain 'lbfgs | strong_wolfe' any more: change this test"
    exit 1
fi
for name in right typo; do
    "${CC:-cc}" -I"$include" "$work/$name.c" -o "$work/$name" "$library" -Wl,-rpath,"$(dirname "$library")"
done
"$work/right"
status=0
said=$("$work/typo" 2>&1) || status=$?
echo "$said"
[[ $status -eq 1 ]] || { echo "exit status $status instead of 1"; exit 1; }
grep -q "chain: column 1: link 'lbgfs' unknown, did you mean 'lbfgs'?" <<<"$said" || { echo "did not say what was meant"; exit 1; }
