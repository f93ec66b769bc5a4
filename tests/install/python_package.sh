#!/usr/bin/env bash
# python_package.sh PYTHON FILE: a wheel or an sdist in an environment that has nothing, away from every checkout: it is
# installed, imported, steps and has its program.  Says SKIPPED where an sdist cannot be built because what builds it cannot be fetched.
set -eu
python=$1
package=$(realpath "$2")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
"$python" -m venv empty
if [[ $package == *.tar.gz ]] && ! empty/bin/python -m pip download -q --no-deps -d fetched scikit-build-core 2>/dev/null; then
    echo "SKIPPED: $(basename "$package") was not tried: scikit-build-core cannot be fetched (no network?)"
    exit 0
fi
empty/bin/python -m pip install -q "$package"
if [[ $package == *.whl ]]; then # what is inside is listed, with its licences
    holders=$(grep -rl 'OpenBLAS blas_thread_init' empty/lib/python*/site-packages/gradus* | wc -l)
    [[ $holders -eq 1 ]] || { echo "OpenBLAS is in $holders files of the wheel"; exit 1; }
    for name in gradus.spdx.json libopenblas-pthread-dev.txt liblapacke-dev.txt libjansson-dev.txt; do
        [[ -s $(echo empty/lib/python*/site-packages/gradus/licenses)/$name ]] || { echo "$name is not in the wheel"; exit 1; }
    done
fi
cat >try.py <<'TRY'
import os
import sys

import gradus as gd

assert gd.__file__.startswith(sys.prefix), gd.__file__
x = gd.tensor([1.0, 2.0], axes="row", labels={"row": ["a", "b"]}).require_grad()
for chain in ("clip_norm(9) | adam | lr(0.5)", "clip_value(9) | adan | sign | lr(0.5)"):  # built in, and not
    x.grad = gd.ones(2)
    gd.Optimizer([x], chain).step()
assert [round(v, 4) for v in x.tolist()] == [0.0, 1.0], x
assert gd.solve(gd.eye(2) * 2.0, gd.ones(2)).tolist() == [0.5, 0.5]  # LAPACK
fit = gd.fit("a*t", {"t": [1.0, 2.0, 3.0], "y": [2.0, 4.0, 6.0]}, params={"a": 1})  # the program
assert abs(fit.params["a"] - 2) < 1e-9, fit
assert not {"numpy", "torch"} & set(sys.modules)
print(gd.__version__)
TRY
mkdir nothing
for path in "$PATH" "$folder/nothing"; do # with what is installed here, then without a compiler
    version=$(env -i HOME="$folder" PATH="$path" "$folder/empty/bin/python" try.py)
    [[ $(env -i HOME="$folder" PATH="$path" "$folder/empty/bin/gradus" --version) == "gradus $version" ]]
    [[ $(env -i HOME="$folder" PATH="$path" "$folder/empty/bin/python" -m gradus --version) == "gradus $version" ]]
done
empty/bin/python -m pip uninstall -q -y gradus
[[ -z $(find empty -path '*gradus*') ]] || { find empty -path '*gradus*'; exit 1; }
echo "$(basename "$package"): installed, imported, stepped, removed"
