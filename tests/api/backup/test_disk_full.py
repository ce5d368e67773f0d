"""A daemon on a disk that is really full: 507, deletions, and no restart."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support import Served, blobs, mlp, wait_until


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A filesystem of 48 MiB."""
    if sys.platform != "linux":
        pytest.skip("mounts a tmpfs")
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=48m", "tmpfs", str(folder)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("may not mount")
    yield folder
    # The daemon writes its log beside its data until it ends.
    wait_until(
        lambda: not subprocess.run(["umount", str(folder)], check=False).returncode, "the daemon"
    )


def fill(disk: Path) -> None:
    with (disk / "filler").open("ab", buffering=0) as file:
        for size in (1 << 20, 4096, 1):
            with contextlib.suppress(OSError):
                while file.write(bytes(size)):
                    pass


def test_the_daemon_lives_through_a_full_disk(disk: Path, serve: Callable[..., Served]) -> None:
    served = serve(disk / "data", disk_reserve_bytes=0)
    served.register("m", mlp(64, 8, 2))
    first, _ = served.upload("m", split="train", **blobs(5000, 64, 2)).json()["ids"]
    url = "/v1/models/m/samples"
    fill(disk)

    refused = served.offer("m", **blobs(5000, 64, 2, seed=1))
    with (disk / "filler").open("r+b") as file:
        file.truncate(file.seek(0, 2) - 3 * 2**20)  # for the model, and not for what is made of it
    spec = json.dumps({"name": "large", "loss": "mse"})
    model = {"model": ("model.onnx", mlp(512, 900, 8))}
    not_checked = served.http.post("/v1/models", data={"spec": spec}, files=model)
    one = served.http.delete(f"{url}/{first}")
    many = served.http.delete(url, params={"label": 1})

    assert (refused.status_code, refused.json()["code"]) == (507, "storage_full")
    assert "make room" in refused.json()["detail"]
    assert (not_checked.status_code, not_checked.json()["code"]) == (507, "storage_full")
    assert one.status_code == 204
    assert many.json()["deleted"] > 1000
    assert served.http.get("/readyz").status_code == 200

    (disk / "filler").unlink()
    again = served.upload("m", **blobs(500, 64, 2, seed=2))
    assert again.status_code == 201
    wait_until((disk / "data" / "ballast").exists, "the ballast to be back")
    counts = served.http.get(f"{url}/stats").json()
    assert counts["train"] + counts["validation"] == 5500 - 1 - many.json()["deleted"]
    assert served.stop() == 0


def test_a_daemon_starts_on_a_full_disk(disk: Path, serve: Callable[..., Served]) -> None:
    first = serve(disk / "data", disk_reserve_bytes=0)
    first.register("m", mlp(64, 8, 2))
    number, _ = first.upload("m", **blobs(500, 64, 2)).json()["ids"]
    assert first.stop() == 0
    fill(disk)

    second = serve(disk / "data")

    assert second.http.delete(f"/v1/models/m/samples/{number}").status_code == 204
    assert second.offer("m", **blobs(5, 64, 2)).status_code == 507
    assert second.stop() == 0
