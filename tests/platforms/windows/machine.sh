#!/bin/sh
# $HONE_PYTHON in which $HONE_WINDOWS is a machine of its own: with its processes, which end with it, its ports, and
# its disk, of which the next machine knows nothing.
#
#     tests/platforms/windows/machine.sh ARGUMENTS...
#
# The shell stays, to wait for processes whose parents have ended. What is written is never flushed: no test cuts
# the power.
set -eu
exec unshare --mount --propagation private --net --pid --fork --kill-child --mount-proc sh -euc '
    ip link set lo up
    written=$(mktemp -d "$HONE_WINDOWS/machine.XXXXXX")
    mkdir "$written/upper" "$written/work"
    mount -t overlay -o "lowerdir=$HONE_WINDOWS/debian,upperdir=$written/upper,workdir=$written/work,volatile" \
        machine "$HONE_WINDOWS/debian"
    "$HONE_PYTHON" "$@" || exit $?' sh "$@"
