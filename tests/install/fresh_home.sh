#!/usr/bin/env bash
# fresh_home.sh BUILD_DIR README: the lines of docs/start/c.md from `cmake --install` on, in an empty home with nothing in the environment;
# what was built before stands for the line that builds.  fresh_debian.sh runs all of them.
set -eu
build=$1 readme=$2
. "$(dirname "$0")/readme_lines.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
readme_program "$readme" >"$work/example.c"
readme_lines "$readme" >"$work/all"
sed '/cmake --build --preset install/d' "$work/all" >"$work/lines"
grep -q "^cmake --install build/install " "$work/lines" || { echo "the lines of docs/start/c.md have changed:"; cat "$work/all"; exit 1; }
readme_checks >>"$work/lines"
mkdir -p "$work/build" "$work/home"
ln -s "$build" "$work/build/install"
cat "$work/lines"
cd "$work"
env -i HOME="$work/home" PATH="$(dirname "${CMAKE:-/usr/bin/cmake}"):/usr/local/bin:/usr/bin:/bin" bash -eu -o pipefail lines
