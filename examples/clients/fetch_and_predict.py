"""Keeps FILE equal to the newest promoted version of MODEL, and predicts after each change.

HONED_URL=http://127.0.0.1:8471 HONED_TOKEN=… fetch_and_predict.py MODEL FILE INPUTS.json [TIMES]
"""

from __future__ import annotations

import os
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

WAIT_S = 60


def ask(path: str, headers: dict[str, str], body: bytes | None = None) -> tuple[bytes, str]:
    """The answer's body and its tag."""
    token = {"Authorization": f"Bearer {os.environ['HONED_TOKEN']}"}
    request = urllib.request.Request(
        os.environ["HONED_URL"] + path, data=body, headers={**token, **headers}
    )
    with urllib.request.urlopen(request, timeout=WAIT_S + 30) as answer:
        return answer.read(), answer.headers.get("ETag", "")


def fetch(model: str, file: Path) -> str | None:
    """Wait for a model that differs from the file; its tag, None if there is none yet."""
    tag_file = file.with_name(file.name + ".etag")
    known = tag_file.read_text() if tag_file.exists() and file.exists() else '""'
    path = f"/v1/models/{model}/latest/model.onnx?wait={WAIT_S}"
    try:
        content, tag = ask(path, {"If-None-Match": known})
    except urllib.error.HTTPError as error:
        if error.code == 304:
            return None
        raise
    part = file.with_name(file.name + ".part")
    part.write_bytes(content)
    part.replace(file)
    tag_file.write_text(tag)
    return tag


def main(model: str, file: Path, inputs: Path, times: int) -> None:
    while times:
        try:
            tag = fetch(model, file)
            if tag is None:
                continue
            print("fetched", tag, flush=True)
            body = inputs.read_bytes()
            json_body = {"Content-Type": "application/json"}
            answer, _ = ask(f"/v1/models/{model}/predict", json_body, body)
            print(answer.decode(), flush=True)
            times -= 1
        except OSError as error:
            print(f"no answer ({error}); trying again", file=sys.stderr)
            time.sleep(1)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), int((sys.argv[4:] or [-1])[0]))
