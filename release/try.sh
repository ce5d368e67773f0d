#!/bin/sh
# Installs each of the named files into an empty environment, and runs the demo there.
#
#     release/try.sh PYTHON VERSION FILE…
set -eu
python=$1 version=$2
shift 2
unset PYTHONPATH PYTHONHOME
trap 'rm -rf "$folder"' EXIT
for file; do
    folder=$(mktemp -d)
    "$python" -m venv "$folder/bare"
    "$folder/bare/bin/python" -m pip install --quiet --disable-pip-version-check "$file"
    mkdir "$folder/home"
    in_bare() { (cd "$folder/home" && env -i HOME="$folder/home" PATH="$folder/bare/bin" "$@"); }
    echo "$file:"
    test "$(in_bare honed --version)" = "honed, version $version"
    in_bare honed demo
    rm -rf "$folder"
done
