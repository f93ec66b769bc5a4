#!/usr/bin/env bash
# fresh_debian.sh [--python] [CACHE_DIR]: the install lines of docs/start for C (or Python), all of them, and the README's program, by a new user of a fresh Debian that has what
# `./dev deps python` installs.  The system is made once by debootstrap and kept in CACHE_DIR (build/fresh_debian).  Exits with 77, saying
# why, where that cannot be done.
set -eu
cd "$(dirname "$0")/../.."
. tests/install/readme_lines.sh
language=c
[[ ${1:-} != --python ]] || { language=python; shift; }
cache=$(realpath -m "${1:-build/fresh_debian}")
root=$cache/root
what="the README's install lines were not tried in a fresh Debian"
. tests/install/empty_debian.sh
need_debootstrap

# A copy of what git knows, with the owner of the copy.
copy_sources() # FOLDER
{
    mkdir -p "$1"
    git ls-files -z --cached --others --exclude-standard | xargs -0 sh -c 'for f; do [ ! -e "$f" ] || printf "%s\0" "$f"; done' sh |
        tar -c --null -T - | tar -x -C "$1"
}

# The registry is trusted as here, where a company's proxy may stand between.  What builds the package comes from there.
reach_registry()
{
    local trusted=/etc/ssl/certs/ca-certificates.crt
    if [[ -f $trusted ]]; then
        mkdir -p "$root${trusted%/*}"
        cp "$trusted" "$root$trusted"
        printf '[global]\ncert = %s\n' "$trusted" >"$root/etc/pip.conf"
    fi
    in_root su - someone -c 'python3 -m venv try && try/bin/pip -q download --no-deps -d fetched scikit-build-core 2>/dev/null; status=$?; rm -rf try fetched; exit $status' ||
        skip "scikit-build-core cannot be fetched (no network?)"
}

# The base system is made again when ./dev, which says what is installed, changes.
stamp=$(sha256sum dev | cut -c1-16)
if [[ ! -f $cache/stamp || $(cat "$cache/stamp") != "$stamp" ]]; then
    rm -rf "$root" "$cache/stamp"
    make_root
    mkdir -p "$root/tmp/sources"
    cp dev "$root/tmp/sources/"
    in_root sh -c 'cd /tmp/sources && ./dev deps python' >>"$cache/log" 2>&1 || { tail -5 "$cache/log"; exit 1; }
    rm -rf "$root/tmp/sources" "$root"/var/cache/apt/archives/*.deb
    echo "$stamp" >"$cache/stamp"
fi

in_root sh -c 'userdel -r someone 2>/dev/null; useradd -m -s /bin/bash someone'
trap 'rm -rf "$root/home/someone"' EXIT
[[ $language == c ]] || reach_registry
copy_sources "$root/home/someone/gradus"
{
    echo 'cd gradus'
    if [[ $language == c ]]; then
        readme_program README.md >"$root/home/someone/gradus/example.c"
        readme_lines README.md
        readme_checks
    else
        readme_python_program README.md >"$root/home/someone/gradus/example.py"
        readme_python_lines README.md
        echo 'python example.py && gradus --version'
    fi
} >"$root/home/someone/lines"
in_root sh -c 'chown -R someone: ~someone'
cat "$root/home/someone/lines"
in_root su - someone -c 'bash -eu -o pipefail lines'
