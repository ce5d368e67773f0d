"""How a job grows with its data: time from claim to first step, memory of the training child."""

from __future__ import annotations

import json

import numpy as np

from bench import watched
from bench.daemon import Served, mlp, served
from bench.needs import LINUX
from bench.table import Row

SIZES = (10_000, 50_000, 200_000)
CHUNK = 20_000
NEEDS = (LINUX,)
SMALLEST = {"SIZES": (64, 128)}


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
    with watched.watching(lambda: watched.children(daemon.process.pid)) as peak:
        daemon.wait_for_job(job_id, "succeeded")
    return {
        "samples": count,
        "dataset MB": count * 784 * 4 / 2**20,
        "claim to first step s": seconds_to_first_step(daemon, job_id),
        "child's own memory MB": peak.own,
        "must reach": "< 2 s, at most linear",
    }


def seconds_to_first_step(daemon: Served, job_id: int) -> float:
    """Seconds, from the log, between the claim of the job and the child's first step."""
    written = daemon.log.read_text().splitlines()
    lines = [json.loads(line) for line in written if line.startswith("{")]
    times = {line["event"]: line["time"] for line in lines if line.get("job") == job_id}
    started, first = (
        np.datetime64(times[event].rstrip("Z")) for event in ("job.started", "job.training")
    )
    return float((first - started) / np.timedelta64(1, "s"))
