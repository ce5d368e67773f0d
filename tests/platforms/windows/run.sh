#!/bin/sh
# Runs Hone under a Windows Python, with Wine: what the tests of this folder ask.
#
#     tests/platforms/windows/run.sh ROOT PYTHON WHEEL ZIP [PYTEST ARGUMENTS]
#
# Needs what ../root.sh tells. ROOT is made by make.sh, and kept. PYTHON: this machine's, with pytest and pip.
set -eu
root=$(readlink -m "$1") python=$2 wheel=$3 zip=$4
shift 4
here=$(dirname "$0")
"$here/make.sh" "$root" "$wheel" "$python" -m pip
sources=$root/debian/prefix/drive_c/src
rm -rf "$sources"
mkdir "$sources"
for each in tests docs examples systemd windows README.md CHANGELOG.md pyproject.toml; do
    cp -r "$here/../../../$each" "$sources"
done
# Its processes end with it, Wine's own among them, and its ports are its own. The shell stays, to wait for
# processes whose parents have ended.
export HONE_WINDOWS="$root" HONE_WINDOWS_ZIP="$zip"
exec unshare --mount --net --pid --fork --kill-child --mount-proc sh -euc '
    ip link set lo up
    "$@" || exit $?' sh "$python" -m pytest -p no:cacheprovider "$here" "$@"
