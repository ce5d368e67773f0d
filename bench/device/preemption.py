"""The time from unplugging to the child's last instruction, and the steps that are lost."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import numpy as np
import psutil

from bench.daemon import Laptop, Served, add_mlp, served, wait_until
from bench.table import Row

ROUNDS = 30
SMALLEST = {"ROUNDS": 1}


def run() -> list[Row]:
    """Unplug, wait for the child to end, plug in, wait for it to step again."""
    generator = np.random.default_rng(0)
    took, lost = [], []
    with tempfile.TemporaryDirectory(prefix="honed-bench-") as folder:
        laptop = Laptop(Path(folder))
        with served(sysfs_root=laptop.sysfs) as daemon:
            add_mlp(daemon, "m", 784, 512, 512, 10, samples=2_000)
            daemon.http.put("/v1/policy", json={"settle_seconds": 0})
            job_id = daemon.ask_for_job("m", epochs=1_000_000)["id"]
            for _ in range(ROUNDS):
                _begun(daemon, job_id)
                time.sleep(generator.random() * 0.5)  # at any moment between two readings
                took.append(_unplug(daemon, laptop))
                lost.append(_lost(daemon, job_id))
                laptop.plug()
    return [
        {
            "what": "signal to last instruction, s",
            "median": float(np.median(took)),
            "p95": float(np.percentile(took, 95)),
            "max": max(took),
            "must reach": "p95 ≤ 1",
        },
        {"what": "steps lost", "max": max(lost), "must reach": "≤ 1"},
    ]


def _begun(daemon: Served, job_id: int) -> None:
    daemon.wait_for_job(job_id, "running")
    before = daemon.job(job_id)["progress"]["step"]
    wait_until(lambda: daemon.job(job_id)["progress"]["step"] > before, "a step")


def _unplug(daemon: Served, laptop: Laptop) -> float:
    child = daemon.child_pid()
    assert child is not None
    began = time.perf_counter()
    laptop.unplug()
    wait_until(lambda: not psutil.pid_exists(child), "the child to end", poll_s=0.001)
    return time.perf_counter() - began


def _lost(daemon: Served, job_id: int) -> int:
    """Steps reported before the pause that the checkpoint lacks."""
    told = daemon.wait_for_job(job_id, "paused")["progress"]["step"]
    items = daemon.http.get("/v1/models/m/checkpoints").json()["items"]
    return max(0, told - max(item["step"] for item in items))
