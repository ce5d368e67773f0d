#!/bin/sh
# Runs a program of Windows in the root of make.sh:
#
#     tests/platforms/windows/wine.sh ROOT FOLDER PROGRAM ARGUMENTS...
#
# FOLDER: where it starts, as Linux names it inside the root. WITH: more variables for it, "A=1 B=2".
# It is one process, this one, so that a signal reaches it; the network is the machine's own.
set -eu
root=$1 folder=$2
shift 2
# Microsoft's C runtime, which lies beside python.exe, instead of Wine's: onnxruntime needs it.
runtime=ucrtbase,vcruntime140,vcruntime140_1,msvcp140,msvcp140_1,msvcp140_2
exec unshare --mount --propagation private sh -euc '
    mount -t proc proc "$0/proc"
    mount --rbind /dev "$0/dev"
    mount --rbind /sys "$0/sys"
    exec chroot "$@"' "$root/debian" "$root/debian" \
    /usr/bin/env -i -C "$folder" HOME=/root USER=root PATH=/usr/bin:/bin LANG=C.UTF-8 XDG_RUNTIME_DIR=/tmp \
    WINEPREFIX=/prefix WINELOADER=/usr/lib/wine/wine64 WINEDEBUG="${WINEDEBUG:--all}" \
    WINEDLLOVERRIDES="mscoree,mshtml,winedbg.exe=;$runtime=n,b" ${WITH:-} \
    /usr/lib/wine/wine64 "$@"
