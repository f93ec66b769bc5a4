#!/usr/bin/env bash
# Optional parts of which only a half is installed are left out, each with a line, and configuring goes on.
#   half_installed.sh SOURCES
set -eu
sources=$1
here=$(mktemp -d)
trap 'rm -rf "$here"' EXIT

# Debian's openmpi-bin without libopenmpi-dev: a wrapper that names folders which are not there
mkdir -p "$here/bin"
cat >"$here/bin/mpicc" <<'WRAPPER'
#!/bin/sh
case $1 in
-showme:compile | -compile-info) echo "-I/nowhere/openmpi/include -I/nowhere/openmpi/include/openmpi" ;;
-showme:link | -link-info) echo "-L/nowhere/openmpi/lib -lmpi" ;;
-showme:incdirs) echo "/nowhere/openmpi/include /nowhere/openmpi/include/openmpi" ;;
-showme:libdirs) echo "/nowhere/openmpi/lib" ;;
-showme:libs) echo "mpi" ;;
-showme:version) echo "mpicc: Open MPI 4.1.4 (Language: C)" ;;
*) exec "${OMPI_CC:-cc}" -I/nowhere/openmpi/include "$@" -lmpi ;;
esac
WRAPPER
chmod +x "$here/bin/mpicc"

# CUDA's headers without those that they include; likewise Python's and NCCL's
mkdir "$here/cuda" "$here/nccl" "$here/python"
for header in cuda nvrtc cublas_v2 cusolverDn; do echo '#include <crt/nowhere.h>' >"$here/cuda/$header.h"; done
for header in nccl cuda_runtime; do echo '#include <crt/nowhere.h>' >"$here/nccl/$header.h"; done
echo '#include "pyconfig.h"' >"$here/python/Python.h"
echo '#include <nowhere/pyconfig.h>' >"$here/python/pyconfig.h"
printf '#define PY_VERSION "%s"\n' "$(python3 -c 'import platform; print(platform.python_version())')" >"$here/python/patchlevel.h"

configure() # ARGUMENTS...
{
    PATH="$here/bin:$PATH" "${CMAKE:-cmake}" -G Ninja -S "$sources" -B "$here/build" -DGD_TESTS=OFF \
        -DGD_CUDA_INCLUDE="$here/cuda" -DGD_NVRTC_INCLUDE="$here/cuda" -DGD_CUBLAS_INCLUDE="$here/cuda" \
        -DGD_CUSOLVER_INCLUDE="$here/cuda" -DGD_NCCL_INCLUDE="$here/nccl" -DGD_CUDART_INCLUDE="$here/nccl" \
        -DPython_INCLUDE_DIR="$here/python" -DGD_LAPACKE_STATIC=/nowhere/liblapacke.a -DGD_LAPACKE_SHARED=/nowhere/liblapacke.so \
        "$@" >"$here/log" 2>&1
}

configure || { cat "$here/log"; exit 1; }
for line in 'gradus: no OpenBLAS of threads with LAPACKE that works ' 'gradus: MPI is installed by half ' \
    'gradus: the CUDA headers in .* do not compile, ' 'gradus: nccl.h in .* does not compile, ' \
    'gradus: the headers of Python in .* do not compile, '; do
    [[ $(grep -c "^-- $line" "$here/log") -eq 1 ]] || { cat "$here/log"; echo "not one line '$line'"; exit 1; }
done
! grep -q 'Warning\|Error' "$here/log" || { cat "$here/log"; exit 1; }
for part in cuda mpi nccl; do
    ! grep -q "libgradus_$part" "$here/build/build.ninja" || { echo "libgradus_$part would be built"; exit 1; }
done
# who needs it says so
! configure -DGD_BLAS=REQUIRED || { echo "OpenBLAS was required, and is not there"; exit 1; }
grep -q 'gradus: no OpenBLAS of threads with LAPACKE' "$here/log"
