#!/bin/sh
# The Debian package in a bare Debian: installed, started as the unit has it, trained with, upgraded,
# removed and purged.
#
#     tests/platforms/deb.sh ROOT PACKAGE
#
# Needs root, debootstrap, and this machine to be of the package's Debian release and architecture.
# ROOT is made if it is missing, and kept; what is installed goes into a copy.
set -eu
root=$1 package=$2

if [ ! -e "$root.made" ]; then
    rm -rf "$root"
    debootstrap --variant=minbase "$(. /etc/os-release && echo "$VERSION_CODENAME")" "$root"
    touch "$root.made"
fi
trap 'rm -rf "$root.used"' EXIT
trap 'exit 1' INT TERM
rm -rf "$root.used"
cp -a "$root" "$root.used"

# What this machine needs to reach its package index.
cp /etc/resolv.conf "$root.used/etc/"

# The version before: the same, but for its number and a module that is gone since.
dpkg-deb -R "$package" "$root.used/before"
sed -i 's/^Version: .*/&~before/' "$root.used/before/DEBIAN/control"
touch "$root.used/before/opt/honed/gone"
dpkg-deb -Znone -b "$root.used/before" "$root.used/before.deb" >/dev/null
rm -r "$root.used/before"
cp "$package" "$root.used/now.deb"
cp "$(dirname "$0")/in_debian.sh" "$root.used/"

# Processes and mounts in there end with it.
unshare --mount --pid --fork --kill-child chroot "$root.used" \
    /usr/bin/env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive \
    sh -eu /in_debian.sh
