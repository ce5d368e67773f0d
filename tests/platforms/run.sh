#!/bin/sh
# Installs Hone's wheel into a Debian root of another architecture or release, and runs it there.
#
#     tests/platforms/run.sh ROOT ARCHITECTURE RELEASE WHEEL [PYTEST ARGUMENTS]
#
# Needs what root.sh tells.
set -eu
root=$1 architecture=$2 release=$3 wheel=$4
shift 4
here=$(dirname "$(readlink -f "$0")")
. "$here/root.sh"
debian_root "$root" "$architecture" "$release" "python3 python3-venv ca-certificates"

# With the time: emulated, each takes minutes, and on a busy machine many.
step() { printf '\n== %s %s\n' "$(date +%T)" "$*"; }

step install
rm -rf "$root/src"
mkdir -p "$root/src/wheel"
cp "$wheel" "$root/src/wheel/"
cp -r "$here/../../tests" "$here/../../pyproject.toml" "$root/src/"

in_root "$root" sh -eu -c '
    [ -e /opt/honed ] || python3 -m venv /opt/honed
    pip install --quiet --disable-pip-version-check --prefer-binary pytest hypothesis
    pip install --quiet --disable-pip-version-check --prefer-binary --upgrade /src/wheel/*.whl
    pip install --quiet --disable-pip-version-check --no-deps --force-reinstall /src/wheel/*.whl
'
step demo
in_root "$root" sh -eu -c '
    python -c "import platform; print(platform.machine(), platform.python_version())"
    honed doctor
    honed demo
'
step tests
in_root "$root" sh -eu -c '
    cd /src
    PYTHONPATH=$(python -c "import pathlib, honed; print(pathlib.Path(honed.__file__).parent)")
    export PYTHONPATH HONE_DEADLINE_S=1800
    exec pytest -q -p no:cacheprovider "$@"
' pytest "$@"
step done
