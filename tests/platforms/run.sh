#!/bin/sh
# Installs Hone's wheel into a Debian root of another architecture or release, and runs it there.
#
#     tests/platforms/run.sh ROOT ARCHITECTURE RELEASE WHEEL [PYTEST ARGUMENTS]
#
# Needs root, debootstrap, and for a foreign architecture qemu-user-static with binfmt-support.
# ROOT is made if it is missing, and kept.
set -eu
root=$1 architecture=$2 release=$3 wheel=$4
shift 4
here=$(dirname "$(readlink -f "$0")")

if [ ! -e "$root/made" ]; then
    rm -rf "$root"
    debootstrap --variant=minbase --arch="$architecture" \
        --include=python3,python3-venv,ca-certificates "$release" "$root"
    touch "$root/made"
fi

# What this machine needs to reach the package index.
cp /etc/resolv.conf "$root/etc/"
cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
[ ! -e /etc/pip.conf ] || cp /etc/pip.conf "$root/etc/"

leave() { umount "$root/dev/shm" "$root/dev" "$root/proc"; }
mount --bind /proc "$root/proc"
mount --bind /dev "$root/dev"
mkdir -p "$root/dev/shm"
mount --bind /dev/shm "$root/dev/shm"
trap leave EXIT
trap 'exit 1' INT TERM

rm -rf "$root/src"
mkdir -p "$root/src/wheel"
cp "$wheel" "$root/src/wheel/"
cp -r "$here/../../tests" "$here/../../pyproject.toml" "$root/src/"
# qemu's default processor has instructions that take it six times as long: a step of the demo took
# 1.7 s of processor time for 0.25.
exec_in_root() {
    QEMU_CPU=cortex-a72 chroot "$root" /usr/bin/env -i HOME=/root QEMU_CPU=cortex-a72 \
        PATH=/opt/honed/bin:/usr/bin:/bin "$@"
}

exec_in_root sh -eu -c '
    [ -e /opt/honed ] || python3 -m venv /opt/honed
    pip install --quiet --disable-pip-version-check --prefer-binary pytest hypothesis
    pip install --quiet --disable-pip-version-check --prefer-binary --upgrade /src/wheel/*.whl
    pip install --quiet --disable-pip-version-check --no-deps --force-reinstall /src/wheel/*.whl
    python -c "import platform; print(platform.machine(), platform.python_version())"
    honed doctor
    honed demo
'
exec_in_root sh -eu -c '
    cd /src
    PYTHONPATH=$(python -c "import pathlib, honed; print(pathlib.Path(honed.__file__).parent)")
    export PYTHONPATH
    exec pytest -q -p no:cacheprovider "$@"
' pytest "$@"
