# For the scripts here: Debian roots, made by debootstrap, which needs root. They are kept.
# A foreign architecture needs qemu-user-static with binfmt-support.

# bare_root ROOT ARCHITECTURE RELEASE
bare_root() {
    [ ! -e "$1.made" ] || return 0
    rm -rf "$1"
    mkdir -p "$1"
    debootstrap --variant=minbase --arch="$2" "$3" "$1"
    touch "$1.made"
}

# debian_root ROOT ARCHITECTURE RELEASE PACKAGES: one with packages in it, from a bare one beside it.
debian_root() {
    if [ ! -e "$1.made" ]; then
        bare_root "$(dirname "$1")/$3-$2" "$2" "$3"
        rm -rf "$1"
        cp -a "$(dirname "$1")/$3-$2" "$1"
        reach_indexes "$1"
        in_root "$1" apt-get update -qq
        in_root "$1" apt-get install -y -qq --no-install-recommends $4
        touch "$1.made"
    fi
    reach_indexes "$1"
}

# What this machine needs to reach the package indexes.
reach_indexes() {
    cp /etc/resolv.conf "$1/etc/"
    mkdir -p "$1/etc/ssl/certs"
    cp /etc/ssl/certs/ca-certificates.crt "$1/etc/ssl/certs/"
    [ ! -e /etc/pip.conf ] || cp /etc/pip.conf "$1/etc/"
}

# qemu's default processor has instructions that take it six times as long: a step of the demo took
# 1.7 s of processor time for 0.25.
QEMU_CPU=cortex-a72

# in_root ROOT COMMAND...: its processes end with it.
in_root() {
    inner=$1
    shift
    unshare --mount --pid --fork --kill-child --mount-proc="$inner/proc" chroot "$inner" \
        /usr/bin/env -i HOME=/root PATH=/opt/honed/bin:/usr/sbin:/usr/bin:/sbin:/bin "QEMU_CPU=$QEMU_CPU" \
        DEBIAN_FRONTEND=noninteractive "$@"
}
