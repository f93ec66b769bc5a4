#!/usr/bin/env bash
# consumers.sh BUILD_DIR EXAMPLE: installs to a fresh prefix, then builds and runs the example against it with
# find_package and with pkg-config, each shared and static.
set -eu
build=$1
example=$2
here=$(dirname "$0")
work=$build/install_test
cc=${CC:-cc}
cmake=${CMAKE:-cmake}

rm -rf "$work"
"$cmake" --install "$build" --prefix "$work/installed" >/dev/null
# Used from another place than it was installed to: nothing in it may hold on to its prefix.
mv "$work/installed" "$work/prefix"
prefix=$work/prefix

echo "find_package"
"$cmake" -S "$here/consumer" -B "$work/consumer" -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH="$prefix" \
    -DCMAKE_C_COMPILER="$cc" -DEXAMPLE="$example" -G Ninja >/dev/null
"$cmake" --build "$work/consumer"
"$work/consumer/shared"
"$work/consumer/static"

echo "pkg-config"
pc=$(find "$prefix" -name gradus.pc)
PKG_CONFIG_PATH=$(dirname "$pc")
export PKG_CONFIG_PATH
cflags=$(pkg-config --cflags gradus)
libdir=$(pkg-config --variable=libdir gradus)
libs=$(pkg-config --libs gradus)
static_libs=$(pkg-config --static --libs gradus | sed 's/-lgradus/-l:libgradus.a/')
# shellcheck disable=SC2086
{
    "$cc" $cflags "$example" -o "$work/pc_shared" $libs -lm
    LD_LIBRARY_PATH=$libdir "$work/pc_shared"
    "$cc" $cflags "$example" -o "$work/pc_static" $static_libs
    "$work/pc_static"
}
