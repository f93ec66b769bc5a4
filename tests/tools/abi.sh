#!/usr/bin/env bash
# abi.sh ROOT BUILD_DIR: tools/check_abi compares every function that the library exports, and refuses a struct of the caller's that grew.
set -eu
root=$1 build=$2
command -v abidiff >/dev/null || { echo "SKIPPED: no abidiff (abigail-tools)"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
before=$work/abi/before
mkdir -p "$before/source" "$before/build"
cp -r "$root/include" "$before/source/"
for folder in "$work" "$before/build"; do
    ln -s "$build/libgradus.so" "$build/include" "$folder/"
done

"$root/tools/check_abi" "$work" before || { echo "the library differs from itself"; exit 1; }
functions() { nm -D --defined-only "$1" | awk '$2 == "T" { sub("@.*", "", $3); print $3 }' | sort; }
diff <(functions "$before/now.so") <(functions "$build/libgradus.so") || { echo "what is compared is not what the library exports"; exit 1; }

# programs of then have a shorter struct
sed -i '/gd_status failed;/d' "$before/source/include/gradus/world.h"
! cmp -s "$root/include/gradus/world.h" "$before/source/include/gradus/world.h" || { echo "gd_collective has changed: change this test"; exit 1; }
said=$("$root/tools/check_abi" "$work" before) && { echo "a struct that grew is accepted: $said"; exit 1; }
grep -q "struct gd_collective' changed" <<<"$said" || { echo "the struct is not named: $said"; exit 1; }
sed -i 's/^int gd_world_size(/long gd_world_size(/' "$before/source/include/gradus/world.h"
said=$("$root/tools/check_abi" "$work" before) && { echo "another type of result is accepted: $said"; exit 1; }
grep -q "gd_world_size" <<<"$said" || { echo "the function is not named: $said"; exit 1; }
