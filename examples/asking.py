"""How examples ask a daemon: by the command line, and over HTTP.

Both find it by HONED_URL and HONED_TOKEN.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import httpx
from PIL import Image

TIMEOUT_S = 60
GAP = 6
"""Pixels between pictures."""


def honed(*arguments: str | Path) -> str:
    """What the command line prints; the example ends where it fails."""
    program = [Path(sys.executable).with_name("honed"), *arguments]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"honed {arguments[0]}: {done.stderr}")
    return done.stdout


def register(
    name: str,
    model: bytes,
    loss: str,
    *options: str | Path,
    preprocess: Mapping[str, Any] | None = None,
    classes: Iterable[str] = (),
) -> None:
    """Register a model; options: more of `honed models add`."""
    named = [part for one_class in classes for part in ("--class", one_class)]
    described = [] if preprocess is None else ["--preprocess", json.dumps(preprocess)]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"{name}.onnx"
        file.write_bytes(model)
        honed("models", "add", file, "--loss", loss, *described, *named, *options)


def train(name: str, *options: str) -> str:
    """Wait for a job, whatever the device is doing; a line that says how it ended."""
    told = honed("train", name, *options, "--watch", "--now")
    return told.strip().splitlines()[-1]


def teach(name: str, samples: Path, epochs: int) -> None:
    """Add a folder of photos, train on all that there are, and tell of both."""
    print(honed("samples", "add", name, samples).splitlines()[0].rpartition("/")[2])
    asked = ["--epochs", str(epochs), "--batch-size", "8", "--learning-rate", "0.003"]
    print(train(name, *asked, "--seed", "1"))


def sheet(rows: Sequence[Sequence[Image.Image]]) -> Image.Image:
    """Pictures of one size beside and below each other."""
    width, height = (side + GAP for side in rows[0][0].size)
    made = Image.new("RGB", (width * len(rows[0]) - GAP, height * len(rows) - GAP), "white")
    for y, row in enumerate(rows):
        for x, each in enumerate(row):
            made.paste(each, (x * width, y * height))
    return made


def ask(method: str, path: str, **request: Any) -> httpx.Response:
    """The answer to a request of /v1/models/…; the example ends where it is an error.

    request: as httpx takes it.
    """
    answer = _client().request(method, f"/v1/models/{path}", **request)
    if answer.is_error:
        raise SystemExit(f"{method} {path}: {answer.text}")
    return answer


@cache
def _client() -> httpx.Client:
    """One for all requests: each one made reads certificates, longer than a prediction takes."""
    headers = {"Authorization": f"Bearer {os.environ['HONED_TOKEN']}"}
    url = os.environ["HONED_URL"]
    return httpx.Client(base_url=url, headers=headers, timeout=TIMEOUT_S, trust_env=False)
