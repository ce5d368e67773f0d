"""Makes the README's pictures of the console: a real daemon, the demo's data, real Chromium.

    make screenshots

Seeds are fixed and the data are those of `honed demo`, so that pictures change with the page alone.
"""

from __future__ import annotations

import io
import json
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from browser import launched
from PIL import Image
from support import wait_until

from cli.client import Client, model_path
from cli.demo import digits
from cli.demo.daemon import DaemonProcess, running

SIZE = {"width": 1200, "height": 750}
MOST_BYTES = 80_000
QUALITIES = (90, 80, 70, 60)
SPEC = {"name": "digits", "loss": "cross_entropy", "classes": list("0123456789")}
GOOD = {"epochs": 25, "learning_rate": 0.002, "schedule": "cosine", "seed": 0}
WORSE = {"epochs": 12, "learning_rate": 0.0003, "from": "base", "seed": 1}
LONG = {"epochs": 2000, "learning_rate": 0.0005, "seed": 2}
PICTURES = {
    "overview": ("", "version 2 promoted"),
    "model": ("/models/digits", "Version 1"),
    "job": ("/jobs/1?with=2", "training, job 2"),
}
"""What each shows: the place of the console, and the last text to appear there."""


def main(folder: Path) -> None:
    """Write every picture into the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as data, running(Path(data)) as daemon:
        fill(daemon.client)
        with signed_in(daemon) as page:
            for name, (place, text) in PICTURES.items():
                taken = picture(page, f"{daemon.client.url}/dashboard{place}", text)
                (folder / f"{name}.webp").write_bytes(small(taken))


def fill(client: Client) -> None:
    """A model that was promoted once and refused once, and a job that trains."""
    with (digits.folder() / "base.onnx").open("rb") as file:
        client.request(
            "POST", "/v1/models", data={"spec": json.dumps(SPEC)}, files={"model": ("base", file)}
        )
    client.request(
        "POST",
        model_path("digits", "samples"),
        content=(digits.folder() / "device.npz").read_bytes(),
        headers={"Content-Type": "application/x-npz"},
    )
    for recipe in (GOOD, WORSE, LONG):
        asked = {**recipe, "ignore_policy": True}
        job_id = client.post(model_path("digits", "jobs"), asked)["id"]
        wanted = has_begun if recipe is LONG else has_succeeded
        wait_until(partial(wanted, client, job_id), f"job {job_id}")


def has_succeeded(client: Client, job_id: int) -> bool:
    return bool(client.get(f"/v1/jobs/{job_id}")["state"] == "succeeded")


def has_begun(client: Client, job_id: int) -> bool:
    return bool(client.get(f"/v1/jobs/{job_id}")["progress"]["step"])


@contextmanager
def signed_in(daemon: DaemonProcess) -> Iterator[Any]:
    """A page of the console by day, that moves nothing."""
    code = daemon.client.post("/v1/sign-in/codes")["code"]
    with launched() as browser:
        page = browser.new_page(
            viewport=SIZE, color_scheme="light", reduced_motion="reduce", locale="en-GB"
        )
        page.goto(f"{daemon.client.url}/dashboard#code={code}")
        page.locator(".connection.live").wait_for()
        yield page


def picture(page: Any, address: str, text: str) -> bytes:
    """A page once it has all that it asks for, as PNG."""
    page.goto(address)
    page.locator(".connection.live").wait_for()
    page.get_by_text(text).first.wait_for()
    page.get_by_text("Loading").first.wait_for(state="detached")
    taken: bytes = page.screenshot()
    return taken


def small(png: bytes, most: int = MOST_BYTES) -> bytes:
    """The picture as WebP, as good as it may be within the bytes."""
    for quality in QUALITIES:
        packed = io.BytesIO()
        Image.open(io.BytesIO(png)).convert("RGB").save(packed, "WEBP", quality=quality, method=6)
        if len(packed.getvalue()) <= most:
            return packed.getvalue()
    raise SystemExit(f"a picture takes more than {most} bytes at quality {QUALITIES[-1]}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
