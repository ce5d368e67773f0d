"""How a job grows with its data: time from claim to first step, memory of the training child."""

from __future__ import annotations

import re
import threading
import time
from pathlib import Path

import numpy as np
import psutil

from bench.daemon import Served, mlp, served
from bench.needs import LINUX
from bench.table import Row

SIZES = (10_000, 50_000, 200_000)
CHUNK = 20_000
NEEDS = (LINUX,)


def run() -> list[Row]:
    """One job of 50 steps per size; the size of the dataset next to the child's memory."""
    with served(log_format="json") as daemon:
        rows = [_job(daemon, count) for count in SIZES]
    for row in rows:
        row["time ÷ smallest"] = row["claim to first step s"] / rows[0]["claim to first step s"]
    return rows


def _job(daemon: Served, count: int) -> Row:
    name = f"m{count}"
    daemon.register(name, mlp(784, 512, 512, 10))
    generator = np.random.default_rng(0)
    for _ in range(0, count, CHUNK):
        size = min(count, CHUNK)
        x = generator.random((size, 784), dtype=np.float32)
        daemon.upload(name, split="train", x=x, label=generator.integers(0, 10, size))
    job_id = daemon.ask_for_job(name, max_steps=50, batch_size=64)["id"]
    anonymous = _watch_child(daemon, job_id)
    return {
        "samples": count,
        "dataset MB": count * 784 * 4 / 2**20,
        "claim to first step s": seconds_to_first_step(daemon, job_id),
        "child's own memory MB": anonymous,
        "must reach": "< 2 s, at most linear",
    }


def _watch_child(daemon: Served, job_id: int) -> float:
    """The child's peak of private memory, MB: mapped packs belong to the page cache."""
    most = 0.0
    ended = threading.Event()

    def watch() -> None:
        nonlocal most
        while not ended.is_set():
            for child in psutil.Process(daemon.process.pid).children():
                most = max(most, _anonymous_mb(child.pid))
            time.sleep(0.01)

    thread = threading.Thread(target=watch)
    thread.start()
    daemon.wait_for_job(job_id, "succeeded")
    ended.set()
    thread.join()
    return most


def _anonymous_mb(pid: int) -> float:
    """Linux's RssAnon, MB; 0 once the process is gone."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0.0
    match = re.search(r"RssAnon:\s+(\d+) kB", status)
    return int(match[1]) / 1024 if match else 0.0


def seconds_to_first_step(daemon: Served, job_id: int) -> float:
    """Seconds, from the log, between the claim of the job and the child's first step."""
    lines = daemon.log.read_text()
    times = {}
    for event in ("job.started", "job.training"):
        pattern = rf'"time": "([^"]+)"[^\n]*"event": "{event}"[^\n]*"job": {job_id}[,}}]'
        match = re.search(pattern, lines)
        assert match, f"no {event} of job {job_id}"
        times[event] = np.datetime64(match[1].rstrip("Z"))
    return float((times["job.training"] - times["job.started"]) / np.timedelta64(1, "s"))
