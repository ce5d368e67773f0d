"""What the console tells of a job that failed, and of a model whose inputs have drifted."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable

import numpy as np
import pytest
from browser import Tab
from support import Served, blobs, mlp, wait_until


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL")
def test_a_failed_job_shows_its_log_at_once(
    tab: Callable[..., Tab], serve: Callable[..., Served]
) -> None:
    served = serve(retry_backoff_s=0.01)
    served.register("dying", mlp(32, 64, 4))
    served.upload("dying", **blobs(500, 32, 4))
    job = served.ask_for_job("dying", epochs=100_000, ignore_policy=True)["id"]
    page = tab(served).open(f"/jobs/{job}")
    log = page.get_by_role("region", name="Log").first
    log.get_by_role("button", name="Show the log").click()
    log.get_by_text("training on").first.wait_for()

    killed: set[int] = set()
    while served.job(job)["state"] == "running":
        child = served.child_pid()
        if child is not None and child not in killed:
            killed.add(child)
            os.kill(child, signal.SIGKILL)
    assert len(killed) == 4

    page.locator(".badge.failed").wait_for()
    wait_until(lambda: log.get_by_text("was ended by SIGKILL").count() == 4, "every end")
    page.reload()
    log.get_by_text("was ended by SIGKILL").first.wait_for()


def test_the_overview_tells_of_drift_until_another_version_is_latest(
    tab: Callable[..., Tab], served: Served
) -> None:
    served.register("drifting", mlp(3, 8, 2), hyperparameters={"epochs": 2})
    served.http.patch("/v1/models/drifting", json={"gate": {"mode": "always"}}).raise_for_status()
    served.upload("drifting", split="train", **blobs(300, 3, 2))
    served.train("drifting", ignore_policy=True)
    page = tab(served).open()
    page.get_by_role("heading", name="Overview").wait_for()
    told = page.locator(".notice", has_text="Recent inputs of drifting differ")
    assert told.count() == 0

    moved = blobs(300, 3, 2)
    served.upload("drifting", split="train", x=np.asarray(moved["x"]) + 9, label=moved["label"])
    assert served.http.get("/v1/models/drifting/drift").json()["drifted"] is True
    told.get_by_role("link", name="drifting").wait_for()
    served.train("drifting", ignore_policy=True)
    told.wait_for(state="detached")
