"""A daemon on a disk that is really full: 507, deletions, and no restart."""

from __future__ import annotations

import json
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from small_disks import FILLER, fill, in_memory
from support import Served, blobs, mlp, wait_until


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A filesystem of 48 MiB."""
    with in_memory(tmp_path / "disk", size_mib=48) as folder:
        yield folder


def test_the_daemon_lives_through_a_full_disk(disk: Path, serve: Callable[..., Served]) -> None:
    served = serve(disk / "data", disk_reserve_bytes=0)
    served.register("m", mlp(64, 8, 2))
    first, _ = served.upload("m", split="train", **blobs(5000, 64, 2)).json()["ids"]
    url = "/v1/models/m/samples"
    fill(disk)

    refused = served.offer("m", **blobs(5000, 64, 2, seed=1))
    with (disk / FILLER).open("r+b") as file:
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

    (disk / FILLER).unlink()
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


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_a_daemon_starts_without_one_byte_of_room_and_its_ballast_spent(
    disk: Path, serve: Callable[..., Served], how: signal.Signals
) -> None:
    first = serve(disk / "data", disk_reserve_bytes=0)
    first.register("m", mlp(64, 8, 2))
    number, _ = first.upload("m", **blobs(500, 64, 2)).json()["ids"]
    samples = "/v1/models/m/samples"
    fill(disk)
    assert first.http.delete(f"{samples}/{number}").status_code == 204
    fill(disk)
    first.stop(how)
    fill(disk)
    assert shutil.disk_usage(disk).free == 0

    second = serve(disk / "data")

    ready = second.http.get("/readyz")
    assert (ready.status_code, ready.json()["storage_full"][:8]) == (200, "the disk")
    assert second.http.get(f"{samples}/{number + 1}").status_code == 200
    assert second.http.delete(f"{samples}/{number + 1}").status_code == 204
    assert second.offer("m", **blobs(5, 64, 2)).status_code == 507
    assert second.http.get(f"{samples}/{number + 1}").status_code == 404

    (disk / FILLER).unlink()
    assert second.stop() == 0
    third = serve(disk / "data", disk_reserve_bytes=0)
    assert third.http.get("/readyz").json()["storage_full"] is None
    third.upload("m", **blobs(5, 64, 2, seed=1))
    counts = third.http.get(f"{samples}/stats").json()
    assert counts["train"] + counts["validation"] == 503


def test_predictions_are_kept_only_with_room_for_uploads(serve: Callable[..., Served]) -> None:
    first = serve()
    first.register("m", mlp(4, 3))
    first.stop()
    served = serve(disk_reserve_bytes=10**15)
    asked = {"inputs": {"x": [1, 2, 3, 4]}}
    assert served.http.post("/v1/models/m/predict", json=asked).status_code == 200
    kept = served.http.post("/v1/models/m/predict?keep=true", json=asked)
    assert (kept.status_code, kept.json()["code"]) == (507, "storage_full")
    assert served.http.get("/v1/models/m/samples").json()["items"] == []
