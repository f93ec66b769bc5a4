#!/usr/bin/env bash
# debian_packages.sh FOLDER [CACHE_DIR]: the packages of FOLDER (./dev deb), each installed in an empty Debian of its own and used as a
# new user would; the wheel of build/wheel/wheels (./dev wheel) too, where there is one.  The empty system is made once by debootstrap and kept in CACHE_DIR (build/empty_debian).  Exits with 77, saying why,
# where that cannot be done.  Ends with N passed, M failed.
set -eu
folder=$(realpath "$1")
cd "$(dirname "$0")/../.."
cache=$(realpath -m "${2:-build/empty_debian}")
root=$cache/root
what="the packages were not tried in an empty Debian"
. tests/install/empty_debian.sh
need_debootstrap
ls "$folder"/libgradus0_*.deb >/dev/null 2>&1 || skip "there are none in $folder (./dev deb)"

if [[ ! -f $cache/empty.tar ]]; then
    rm -rf "$root"
    make_root
    # what is thrown away need not be on the disk after every file
    echo force-unsafe-io >"$root/etc/dpkg/dpkg.cfg.d/fast"
    tar -C "$root" -cf "$cache/empty.part" . && mv "$cache/empty.part" "$cache/empty.tar"
fi
fetched=$cache/fetched
mkdir -p "$fetched"

# An empty system with the packages of gradus named, what they depend on, and others from the archive.
system_with() # GRADUS_PACKAGES [OTHERS...]
{
    local package files=()
    rm -rf "$root"
    mkdir -p "$root/packages" && tar -C "$root" -xf "$cache/empty.tar"
    cp "$folder"/*.deb "$root/packages/"
    cp -l "$fetched"/*.deb "$root/var/cache/apt/archives/" 2>/dev/null || true
    cp examples/fit.c examples/data/decay.csv "$root/root/"
    for package in $1; do
        files+=("$(cd "$root" && ls packages/"${package}"_*.deb)")
    done
    in_root apt-get install -y -qq --no-install-recommends "${files[@]/#/.\/}" "${@:2}" >"$cache/log" 2>&1 || { tail -n 5 "$cache/log"; return 1; }
    cp -ln "$root"/var/cache/apt/archives/*.deb "$fetched/" # once for all systems
}

passed=0 failed=0
check() # NAME COMMAND...
{
    echo "== $1"
    if "${@:2}"; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "FAILED: $1"; fi
}
libraries="libgradus0 libgradus-dev"

the_program_fits()
{
    system_with gradus &&
        in_root sh -c 'cd && gradus fit "a*exp(-b*t)+c" decay.csv --y y --param a=1 --param b=1 --param c=0 --plot fit.svg && test -s fit.svg' &&
        in_root sh -c 'gradus world | grep "^mpi" && gradus devices && test -e /usr/share/doc/gradus/copyright'
}
programs_are_compiled()
{
    system_with "$libraries" gcc libc6-dev pkgconf cmake make &&
        in_root sh -c 'cd && gcc fit.c -o shared $(pkg-config --cflags --libs gradus) -lm && GD_EXAMPLE_QUICK=1 ./shared' &&
        in_root sh -c 'cd && gcc fit.c -o static -I/usr/include $(pkg-config --static --libs gradus | sed "s/-lgradus/-l:libgradus.a/") && GD_EXAMPLE_QUICK=1 ./static' &&
        in_root sh -c 'cd && printf "cmake_minimum_required(VERSION 3.20)\nproject(c C)\nfind_package(gradus 0.2 REQUIRED)\nadd_executable(c fit.c)\ntarget_link_libraries(c gradus::gradus m)\n" >CMakeLists.txt && cmake -B b . >/dev/null && cmake --build b >/dev/null && GD_EXAMPLE_QUICK=1 b/c' &&
        in_root test -s /usr/share/doc/libgradus0/gradus.spdx.json
}
python_imports()
{
    system_with "gradus python3-gradus" &&
        in_root sh -c 'cd && python3 -c "
import gradus as gd
r = gd.fit(\"a*exp(-b*t)+c\", \"decay.csv\", y=\"y\", params={\"a\": 1, \"b\": 1, \"c\": 0})
print(r)
x = gd.tensor([1.0, 2.0])
print(gd.exp(x), gd.__version__)"'
}
processes_join()
{
    system_with "gradus libgradus0 gradus-mpi" openmpi-bin &&
        in_root sh -c 'OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_plm_rsh_agent= mpirun --oversubscribe -n 2 gradus world --join mpi' | grep '^mpi  *2 ranks'
}
the_gpu_plugin_is_found() # without a GPU it says that the driver is missing, not the plugin
{
    ls "$folder"/gradus-cuda_*.deb >/dev/null 2>&1 || { echo "there is none: no CUDA headers when it was built"; return 0; }
    system_with "gradus libgradus0 gradus-cuda" || return 1
    in_root sh -c 'cd && gradus train decay.csv --target y --device gpu' 2>&1 | tee "$cache/device"
    grep -q 'the NVIDIA driver' "$cache/device"
}

# Python alone: no compiler, no package of gradus, nothing from a registry.
the_wheel_runs()
{
    system_with "" python3-venv && cp "$1" "$root/root/" &&
        in_root sh -c 'cd && python3 -m venv v && v/bin/pip install -q --no-index ./gradus*.whl && v/bin/python -c "
import gradus as gd
x = gd.minimize(lambda p: ((p - 3.0) ** 2).sum(), [0.0, 0.0])
print(x, gd.__version__)" && v/bin/gradus fit "a*exp(-b*t)+c" decay.csv --y y --param a=1 --param b=1 --param c=0'
}

check "gradus: fit at the shell" the_program_fits
check "libgradus0, libgradus-dev: programs, shared, static and by find_package" programs_are_compiled
check "python3-gradus: import and fit" python_imports
check "gradus-mpi: two processes" processes_join
check "gradus-cuda: the plugin is found" the_gpu_plugin_is_found
wheel=$(ls -t build/wheel/wheels/gradus-*.whl 2>/dev/null | head -n 1)
if [[ -n $wheel ]]; then
    check "the wheel: Python and nothing else" the_wheel_runs "$wheel"
else
    echo "no wheel was tried (./dev wheel)"
fi
rm -rf "$root"
echo "$passed passed, $failed failed"
[[ $failed -eq 0 ]]
