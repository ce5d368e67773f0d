"""A real daemon on an injected device: the verdict turns, the job stops and goes on."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from laptop import Laptop, change_policy, conditions, training
from support import DEADLINE_S, MIN_POLL_S, Served, wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs an injected /sys and /proc")

LONG = 1_000_000
PAUSES = 10
RECIPE = {"max_steps": 1_000, "batch_size": 64, "seed": 5, "schedule": "cosine"}
SHORT = {**RECIPE, "max_steps": 400}
STOPS_WITHIN_S = 5.0
"""Far above the second that bench/device/preemption.py measures: the machine may be busy."""


def test_unplugging_pauses_the_job_with_the_reason_and_plugging_in_lets_it_finish(
    on_laptop: Callable[..., Served], laptop: Laptop
) -> None:
    served = on_laptop()
    job_id = training(served, **RECIPE)

    laptop.unplug()
    began = time.monotonic()
    paused = served.wait_for_job(job_id, "paused")
    took_s = time.monotonic() - began
    wait_until(lambda: served.child_pid() is None, "the child to end, and free its memory")
    device = served.http.get("/v1/device").json()
    laptop.plug()
    done = served.wait_for_job(job_id, "succeeded")

    assert took_s < STOPS_WITHIN_S
    assert paused["blocked_by"] == [
        {"condition": "power", "detail": "on battery power, needs AC power"}
    ]
    assert device["eligible"] is False
    assert device["blocked_by"] == paused["blocked_by"]
    assert device["signals"]["on_ac_power"]["value"] is False
    assert done["progress"]["step"] == RECIPE["max_steps"]
    assert done["restarts"] == 0


def test_ten_pauses_leave_the_same_bytes_as_none(
    on_laptop: Callable[..., Served], tmp_path: Path
) -> None:
    calm = on_laptop(tmp_path / "calm")
    calm.train("m", **SHORT)
    undisturbed = calm.http.get("/v1/models/m/latest/model.onnx").content
    calm.stop()
    served = on_laptop(tmp_path / "disturbed")
    job_id = served.ask_for_job("m", **SHORT)["id"]
    steps = []

    for pause in range(1, PAUSES + 1):
        # Asked twice as often as a daemon: the steps of the job are to last for ten pauses.
        wait_until(lambda: begins(served) == pause, "a child that trains", poll_s=MIN_POLL_S / 2)  # noqa: B023
        served.http.post("/v1/pause")
        steps.append(served.wait_for_job(job_id, "paused")["progress"]["step"])
        served.http.post("/v1/resume")
    served.wait_for_job(job_id, "succeeded")

    # Beside other programs a pause may come before the first step of its child.
    assert any(0 < step < SHORT["max_steps"] for step in steps), steps
    assert served.http.get("/v1/models/m/latest/model.onnx").content == undisturbed


def begins(served: Served) -> int:
    """How often a child has begun to train."""
    return served.said().count("job.training")


def test_a_low_battery_waits_for_the_level_to_resume(
    on_laptop: Callable[..., Served], laptop: Laptop
) -> None:
    served = on_laptop(min_battery_percent=30, resume_battery_percent=50)
    job_id = training(served, epochs=LONG)

    laptop.charge(29)
    paused = served.wait_for_job(job_id, "paused")
    laptop.charge(49)
    wait_until(lambda: "49 %" in served.job(job_id)["blocked_by"][0]["detail"], "the new charge")
    laptop.charge(50)
    served.wait_for_job(job_id, "running")

    assert conditions(paused) == ["battery"]
    assert "needs 50 % to resume" in paused["blocked_by"][0]["detail"]


def test_a_short_block_is_waited_out_in_memory(
    on_laptop: Callable[..., Served], laptop: Laptop
) -> None:
    served = on_laptop(suspend_in_memory_seconds=120)
    job_id = training(served, epochs=LONG)
    child = served.child_pid()
    assert child is not None

    laptop.unplug()
    held = wait_until(lambda: conditions(served.job(job_id)) and served.job(job_id), "the hold")
    wait_until(lambda: psutil.Process(child).cpu_percent(0.5) < 10, "the child to rest")
    laptop.plug()
    wait_until(lambda: not conditions(served.job(job_id)), "the hold to end")
    step = served.job(job_id)["progress"]["step"]
    wait_until(lambda: served.job(job_id)["progress"]["step"] > step, "the job to go on")

    assert held["state"] == "running"
    assert conditions(held) == ["power"]
    assert served.child_pid() == child


def test_a_block_that_outlasts_its_patience_frees_the_memory(
    on_laptop: Callable[..., Served], laptop: Laptop
) -> None:
    served = on_laptop(suspend_in_memory_seconds=1)
    job_id = training(served, epochs=LONG)

    laptop.unplug()
    served.wait_for_job(job_id, "paused")
    wait_until(lambda: served.child_pid() is None, "the child to end")

    assert conditions(served.job(job_id)) == ["power"]


@pytest.fixture
def burners() -> Iterator[Callable[[], None]]:
    """Keep every processor busy with programs that are not ours."""
    running: list[subprocess.Popen[bytes]] = []

    def start() -> None:
        command = [sys.executable, "-c", "while True: pass"]
        running.extend(subprocess.Popen(command) for _ in range(psutil.cpu_count() or 1))

    yield start
    for process in running:
        process.kill()
        process.wait(DEADLINE_S)


def test_foreign_load_pauses_where_a_limit_is_set(
    on_laptop: Callable[..., Served], burners: Callable[[], None]
) -> None:
    served = on_laptop()
    job_id = training(served, epochs=LONG)
    change_policy(served, max_foreign_cpu_percent=20, grace_seconds=1)

    burners()
    paused = served.wait_for_job(job_id, "paused")

    assert conditions(paused) == ["foreign_cpu"]
    assert "the limit is 20 %" in paused["blocked_by"][0]["detail"]


def went_on(job: dict[str, Any], step: int) -> dict[str, Any] | None:
    return job if job["progress"]["step"] >= step else None


def test_a_busy_machine_trains_under_the_default_policy(
    on_laptop: Callable[..., Served], burners: Callable[[], None]
) -> None:
    """It is given a tenth of a processor, and goes on stepping."""
    served = on_laptop()
    job_id = training(served, epochs=LONG)

    burners()
    step = served.job(job_id)["progress"]["step"]
    job = wait_until(lambda: went_on(served.job(job_id), step + 20), "the job to step on")

    assert (job["state"], job["restarts"]) == ("running", 0)


def test_a_program_on_the_watch_list_pauses_while_it_runs(
    on_laptop: Callable[..., Served], tmp_path: Path
) -> None:
    served = on_laptop(blocking_processes=["hone-test-game"])
    job_id = training(served, epochs=LONG)
    game = tmp_path / "hone-test-game"
    sleep = shutil.which("sleep")
    assert sleep is not None
    shutil.copy(sleep, game)

    with subprocess.Popen([game, "600"]) as process:
        paused = served.wait_for_job(job_id, "paused")
        process.kill()
    served.wait_for_job(job_id, "running")

    assert paused["blocked_by"][0]["detail"] == "running now: hone-test-game; must end first"


def test_a_job_that_the_policy_paused_is_held_by_a_person(
    on_laptop: Callable[..., Served], laptop: Laptop
) -> None:
    served = on_laptop()
    job_id = training(served, epochs=LONG)
    laptop.unplug()
    served.wait_for_job(job_id, "paused")

    held = served.http.post(f"/v1/jobs/{job_id}/pause").json()
    laptop.plug()
    wait_until(lambda: served.http.get("/v1/device").json()["eligible"], "the verdict to turn")
    still_held = served.job(job_id)
    served.http.post(f"/v1/jobs/{job_id}/resume")
    served.wait_for_job(job_id, "running")

    assert conditions(held) == ["paused_by_person"]
    assert still_held["state"] == "paused"
    assert conditions(still_held) == ["paused_by_person"]


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM], ids=["killed", "stopped"])
def test_a_daemon_that_comes_back_judges_before_it_goes_on(
    on_laptop: Callable[..., Served],
    serve: Callable[..., Served],
    laptop: Laptop,
    tmp_path: Path,
    how: signal.Signals,
) -> None:
    first = on_laptop(tmp_path / "data")
    job_id = training(first, epochs=LONG)
    first.stop(how)
    laptop.unplug()

    second = serve(sysfs_root=laptop.sysfs)
    wait_until(lambda: conditions(second.job(job_id)) == ["power"], "the reason")
    assert second.job(job_id)["state"] == "paused"
    laptop.plug()
    second.wait_for_job(job_id, "running")


def test_the_verdict_is_logged_once_per_change(
    on_laptop: Callable[..., Served], laptop: Laptop, tmp_path: Path
) -> None:
    served = on_laptop(tmp_path / "data")
    job_id = training(served, epochs=LONG)
    for change, state in ((laptop.unplug, "paused"), (laptop.plug, "running")):
        change()
        served.wait_for_job(job_id, state)
    served.http.post(f"/v1/jobs/{job_id}/cancel")
    served.stop()

    lines = [line for line in served.log.read_text().splitlines() if "device.verdict" in line]

    assert ["eligible=False" in line for line in lines] == [True, False]
