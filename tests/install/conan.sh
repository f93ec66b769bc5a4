#!/usr/bin/env bash
# conan.sh: the recipe of packages/conan makes a package, which its test uses.  Conan comes from the registry, into build/venv-conan.
set -eu
cd "$(dirname "$0")/../.."
[[ -x build/venv-conan/bin/conan ]] || { "${PYTHON:-python3}" -m venv build/venv-conan && build/venv-conan/bin/pip install -q conan; } ||
    { echo "SKIPPED: the recipe was not tried: Conan cannot be installed (no network?)"; exit 77; }
export CONAN_HOME=$PWD/build/conan
[[ -f $CONAN_HOME/profiles/default ]] || build/venv-conan/bin/conan profile detect
# it requires no other package, so no server is asked
build/venv-conan/bin/conan create packages/conan --no-remote
rm -rf "$CONAN_HOME/p" packages/conan/test_package/build packages/conan/test_package/CMakeUserPresets.json # hundreds of megabytes
