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
# Two machines, so that what waits on one leaves the processors to the other.
export HONE_WINDOWS="$root" HONE_WINDOWS_ZIP="$zip" HONE_PYTHON="$python"
trap 'rm -rf "$root"/machine.*' EXIT
"$python" -m pytest -p no:cacheprovider -rP --durations=0 --dist loadgroup --no-loadscope-reorder \
    --tx "2*popen//python=$(readlink -f "$here/machine.sh")" "$here" "$@"
