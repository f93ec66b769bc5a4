# A Debian of its own, made by debootstrap.  Sourced by the tests that install things; $cache is their folder, $root the system in it, and
# $what says what could not be tried.

skip()
{
    echo "SKIPPED: $what: $1"
    exit 77
}

need_debootstrap()
{
    [[ $(id -u) -eq 0 ]] || skip "that takes root"
    command -v debootstrap >/dev/null || skip "there is no debootstrap (apt-get install debootstrap)"
}

# From where this system has its own packages.
make_root()
{
    local mirror
    mkdir -p "$cache"
    mirror=${DEBIAN_MIRROR:-$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 2>/dev/null | head -n 1)}
    debootstrap --variant=minbase bookworm "$root" ${mirror:+"$mirror"} >"$cache/log" 2>&1 ||
        { tail -n 3 "$cache/log"; skip "debootstrap failed (no network?)"; }
    cp /etc/resolv.conf "$root/etc/resolv.conf"
}

# With a /proc of its own, by which programs find the libraries beside them; in a name space, so that nothing is left mounted.
in_root()
{
    env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C DEBIAN_FRONTEND=noninteractive ${http_proxy:+http_proxy="$http_proxy"} \
        unshare -m sh -c 'mount -t proc proc "$0/proc" && exec chroot "$0" "$@"' "$root" "$@"
}
