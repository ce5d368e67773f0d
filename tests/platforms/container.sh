#!/bin/sh
# The container as compose.yaml runs it: built, started, trained with, restarted.
#
#     tests/platforms/container.sh ROOT ARCHITECTURE
#
# Needs what root.sh tells, podman with a network (netavark, aardvark-dns), and podman-compose on PATH.
# The base image is made of ROOT, a Debian that is made if it is missing. CONTAINERS_CONF and
# CONTAINERS_STORAGE_CONF tell podman of another runtime or place.
set -eu
root=$(readlink -f "$(dirname "$1")")/$(basename "$1") architecture=$2
cd "$(dirname "$0")/../.."
. tests/platforms/root.sh
debian_root "$root" "$architecture" "$(. /etc/os-release && echo "$VERSION_CODENAME")" \
    "python3 python3-venv ca-certificates"

step() { printf '\n== %s\n' "$*"; }
files="-f compose.yaml"
[ "$architecture" = "$(dpkg --print-architecture)" ] || files="$files -f tests/platforms/emulated.yaml"
compose() { podman-compose --project-name honed-test $files "$@"; }
container=honed-test_honed_1
inside() { podman exec "$container" "$@"; }
# The HTTP status of a request from outside with this Host.
ask() { curl -s -o /dev/null -w '%{http_code}' -H "Host: $1" http://127.0.0.1:18471/readyz; }
healthy() {
    end=$(($(date +%s) + 600))
    while [ "$(date +%s)" -lt "$end" ]; do
        podman healthcheck run "$1" >/dev/null && return
        sleep 0.2
    done
    podman logs "$1"
    exit 1
}
refused() {
    if "$@"; then
        echo "this should have failed: $*" >&2
        exit 1
    fi
}
leave() {
    podman rm --force --volumes --time 5 idle >/dev/null 2>&1 || true
    compose down --volumes >/dev/null 2>&1 || true
    podman rmi --force honed-test-base localhost/honed >/dev/null 2>&1 || true
}
trap leave EXIT
trap 'exit 1' INT TERM

step build
tar -C "$root" --exclude=./proc/* --exclude=./dev/* -c . |
    podman import --quiet --arch "$architecture" --change "ENV QEMU_CPU=$QEMU_CPU" - honed-test-base
# The format of Docker knows health checks.
podman build --quiet --layers=false --format docker --platform "linux/$architecture" --build-arg BASE=localhost/honed-test-base --tag localhost/honed .

step start
export HONED_PORT=18471
compose up --detach --no-build
healthy "$container"
inside id
test "$(inside id -u)" != 0
refused podman exec --user root "$container" touch /opt/honed/file
inside grep -E '^(CapEff|NoNewPrivs|Seccomp):' /proc/1/status
inside sh -c 'grep -q "^CapEff:.0*$" /proc/1/status && grep -q "^NoNewPrivs:.1" /proc/1/status'
test "$(podman inspect --format '{{.HostConfig.Memory}}' "$container")" = 2147483648

step hosts
test "$(ask localhost:18471)" = 200
test "$(ask honed:18471)" = 200
test "$(ask stranger:18471)" = 421
podman run --rm --network honed-test_default localhost/honed \
    python -c 'import urllib.request as u; print(u.urlopen("http://honed:18471/readyz").read())'

step train
digits=$(inside sh -c 'echo /opt/honed/lib/python3*/site-packages/honed/cli/demo_data')
inside honed models add "$digits/base.onnx" --name digits --loss cross_entropy
inside honed samples add digits "$digits/device.npz"
inside uname -m
inside honed train digits --epochs 2 --watch
inside honed doctor

step restart
podman restart --time 60 "$container" >/dev/null
healthy "$container"
inside honed versions list digits | grep '^2 '

step 'health without a daemon'
podman run --detach --name idle localhost/honed sleep 600 >/dev/null
refused podman healthcheck run idle
step ok
