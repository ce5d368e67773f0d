#!/bin/sh
# The Debian package in a bare Debian: installed, started as by its unit, trained with, upgraded,
# removed and purged.
#
#     tests/platforms/deb.sh ROOTS PACKAGE
#
# Needs what root.sh tells, and this machine to be of the package's Debian release. The bare Debian is in
# the folder ROOTS, and kept; what is installed goes into a copy.
set -eu
package=$2 architecture=$(dpkg-deb -f "$2" Architecture)
here=$(dirname "$0")
. "$here/root.sh"
release=$(. /etc/os-release && echo "$VERSION_CODENAME")
bare_root "$1/$release-$architecture" "$architecture" "$release"
used=$1/deb-$architecture
trap 'rm -rf "$used"' EXIT
trap 'exit 1' INT TERM
rm -rf "$used"
cp -a "$1/$release-$architecture" "$used"
reach_indexes "$used"

# The version before: the same, but for its number and a module that is gone since.
dpkg-deb -R "$package" "$used/before"
sed -i 's/^Version: .*/&~before/' "$used/before/DEBIAN/control"
touch "$used/before/opt/honed/gone"
dpkg-deb -Znone -b "$used/before" "$used/before.deb" >/dev/null
rm -r "$used/before"
cp "$package" "$used/now.deb"
cp "$here/in_debian.sh" "$used/"
in_root "$used" sh -eu /in_debian.sh
