#!/usr/bin/env bash
# clone.sh: `pip install .` in a clean clone of the last commit, into an environment that has nothing; see python_package.sh.
set -eu
cd "$(dirname "$0")/../.."
clone=$(mktemp -d)
trap 'rm -rf "$clone"' EXIT
git clone -q . "$clone/gradus"
tests/install/python_package.sh "${PYTHON:-python3}" "$clone/gradus"
