#!/bin/sh
# Keeps FILE equal to the newest promoted version of MODEL, and predicts after each change.
#
#   HONED_URL=http://127.0.0.1:8471 HONED_TOKEN=… fetch_and_predict.sh MODEL FILE INPUTS.json [TIMES]
set -eu

model=$1 file=$2 inputs=$3 left=${4:--1}
url=$HONED_URL/v1/models/$model

# Headers come from standard input: every user of the device can see arguments.
ask() {
    printf 'Authorization: Bearer %s\n' "$HONED_TOKEN" | curl --silent --show-error --header @- "$@"
}

touch "$file.etag"
while [ "$left" -ne 0 ]; do
    status=$(ask --header "If-None-Match: $(cat "$file.etag")" --dump-header "$file.head" \
        --output "$file.part" --write-out '%{http_code}' "$url/latest/model.onnx?wait=60") || status=000
    case $status in
    200)
        mv "$file.part" "$file"
        tr -d '\r' <"$file.head" | sed -n 's/^[Ee][Tt]ag: //p' >"$file.etag"
        echo "fetched $(cat "$file.etag")"
        ask --header 'Content-Type: application/json' --data-binary "@$inputs" "$url/predict"
        echo
        left=$((left - 1))
        ;;
    304) ;;
    *)
        echo "no answer ($status); trying again" >&2
        sleep 1
        ;;
    esac
done
rm -f "$file.part" "$file.head"
