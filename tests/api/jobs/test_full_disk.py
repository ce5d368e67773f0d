"""A job on a disk that is really full: it waits for room, and then ends as it should."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from small_disks import FILLER, fill, in_memory
from support import Served, blobs, mlp, wait_until


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A filesystem of 48 MiB."""
    with in_memory(tmp_path / "disk", size_mib=48) as folder:
        yield folder


def test_a_job_that_meets_a_full_disk_waits_and_goes_on_when_there_is_room(
    disk: Path, serve: Callable[..., Served]
) -> None:
    served = serve(disk, disk_reserve_bytes=0, checkpoint_interval_s=0.2)
    served.register("m", mlp(64, 8, 2))
    served.upload("m", split="train", **blobs(2000, 64, 2))
    levels = {"min_free_disk_bytes": None, "resume_free_disk_bytes": None}
    assert served.http.put("/v1/policy", json=levels).status_code == 200
    job = served.ask_for_job("m", max_steps=2_000_000)

    def shown() -> dict[str, Any]:
        found = served.job(job["id"])
        assert found["state"] in ("running", "paused"), found
        return found

    def is_held_back() -> bool:
        fill(disk)  # the daemon makes room once, of its ballast
        shown()
        return "job.held_back" in served.log.read_text()

    wait_until(lambda: served.job(job["id"])["progress"].get("step"), "the first progress")
    wait_until(is_held_back, "the job to be held back")
    assert served.http.get("/readyz").status_code == 200

    (disk / FILLER).unlink()
    waiting = wait_until(
        lambda: (found := shown())["state"] == "paused" and found, "the pause to be written"
    )
    assert [each["condition"] for each in waiting["blocked_by"]] == ["storage_full"]
    step = waiting["progress"]["step"]
    wait_until(lambda: shown()["progress"]["step"] > step, "the job to go on")
    assert served.http.post(f"/v1/jobs/{job['id']}/cancel").json()["state"] == "cancelled"
    assert served.stop() == 0
