#!/bin/sh
# Builds the Debian package for another architecture, in a Debian of that architecture.
#
#     tests/platforms/build_deb.sh ROOT ARCHITECTURE SOURCE
#
# Needs what root.sh tells. The package is written beside the folder SOURCE. ROOT is made if it is
# missing, with what the source's debian/control asks for, and kept.
set -eu
root=$1 architecture=$2 source=$3
. "$(dirname "$0")/root.sh"
debian_root "$root" "$architecture" "$(. /etc/os-release && echo "$VERSION_CODENAME")" \
    "dpkg-dev debhelper python3-venv ca-certificates"
rm -rf "$root/build"
mkdir "$root/build"
cp -r "$source" "$root/build/honed"
# What Debian takes for granted, a compiler, is not needed.
in_root "$root" sh -euc 'cd /build/honed && dpkg-buildpackage --build=binary --no-sign --no-check-builddeps'
cp "$root"/build/*.deb "$(dirname "$source")"
rm -r "$root/build"
