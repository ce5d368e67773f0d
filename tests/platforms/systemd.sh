#!/bin/sh
# The Debian package in a Debian that systemd booted, in namespaces of its own.
#
#     tests/platforms/systemd.sh ROOT PACKAGE
#
# Needs root, debootstrap, iproute2, a mounted cgroup2, and this machine to be of the package's Debian
# release. ROOT is made if it is missing, and kept; what boots is a copy.
set -eu
root=$(readlink -f "$1") package=$2
here=$(dirname "$(readlink -f "$0")")
. "$here/root.sh"
debian_root "$root" "$(dpkg --print-architecture)" "$(. /etc/os-release && echo "$VERSION_CODENAME")" \
    "systemd-sysv dbus-user-session libpam-systemd polkitd python3"

cgroup=$(findmnt --noheadings --first-only --output TARGET --types cgroup2)/honed-test-$$
booted=
leave() {
    [ -z "$booted" ] || { kill -9 "$booted" && wait "$booted"; } 2>/dev/null || true
    while grep -q '^populated 1' "$cgroup/cgroup.events"; do sleep 0.1; done
    find "$cgroup" -depth -type d -exec rmdir {} \;
    rm -rf "$root.used"
}
rm -rf "$root.used"
mkdir "$cgroup"
trap leave EXIT
trap 'exit 1' INT TERM
cp -a "$root" "$root.used"
cp "$package" "$root.used/now.deb"
cp "$here/in_systemd.sh" "$root.used/"

# Its processes end with it, and it has no network but loopback.
sh -c 'echo $$ >"$1/cgroup.procs"
exec unshare --mount --pid --cgroup --uts --ipc --net --fork --kill-child sh "$2/boot.sh" "$3"' \
    boot "$cgroup" "$here" "$root.used" </dev/null &
booted=$!
inside() {
    nsenter --all --target $(cat "/proc/$booted/task/$booted/children") \
        /usr/bin/env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive "$@"
}
for _ in $(seq 600); do
    [ "$(inside systemctl is-system-running 2>/dev/null)" != running ] || break
    sleep 0.2
done
inside systemctl is-system-running
inside systemd-run --quiet --pipe --wait --collect --setenv=HOME=/root sh -eu /in_systemd.sh
