"""A million samples: latency of a list page, stats and a relabelling; time to the first step."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import quantiles

import numpy as np
import psutil

from bench.daemon import Served, mlp, served
from bench.device.scale import seconds_to_first_step
from bench.needs import LINUX
from bench.table import Row

FEATURES, CHUNK, LABELLED = 16, 50_000, 10_000
SIZES = (10_000, 1_000_000)
ASKED, JOBS = 100, 5
NEEDS = (LINUX,)
SMALLEST = {"LABELLED": 60, "CHUNK": 40, "SIZES": (60, 120), "ASKED": 20, "JOBS": 1}


def run() -> list[Row]:
    """The same 10,000 labelled samples, alone and among a million."""
    with served(log_format="json") as daemon:
        rows = [_measure(daemon, count) for count in SIZES]
    for row in rows:
        row["first step ÷ smallest"] = row["to first step s"] / rows[0]["to first step s"]
    return rows


def _measure(daemon: Served, count: int) -> Row:
    name = f"m{count}"
    url = f"/v1/models/{name}/samples"
    daemon.register(name, mlp(FEATURES, 32, 2))
    generator = np.random.default_rng(0)
    x = generator.random((LABELLED, FEATURES), dtype=np.float32)
    daemon.upload(name, split="train", x=x, label=generator.integers(0, 2, LABELLED))
    for _ in range(LABELLED, count, CHUNK):
        size = min(CHUNK, count - LABELLED)
        daemon.upload(name, x=generator.random((size, FEATURES), dtype=np.float32))
    first = daemon.http.get(url, params={"limit": 1}).json()["items"][0]["id"]
    middle = str(first + count // 2)
    memory = psutil.Process(daemon.process.pid).memory_info().rss
    times = {
        "list": _p95(lambda _: daemon.http.get(url, params={"cursor": middle, "limit": 100})),
        "stats": _p95(lambda _: daemon.http.get(f"{url}/stats")),
        "patch": _p95(lambda n: daemon.http.patch(f"{url}/{first + n}", json={"label": n % 2})),
    }
    jobs = [daemon.train(name, max_steps=20, batch_size=64)["id"] for _ in range(JOBS)]
    return {
        "samples": count,
        **{f"{what} p95 ms": ms for what, ms in times.items()},
        "to first step s": min(seconds_to_first_step(daemon, job) for job in jobs),
        "daemon MB": memory / 2**20,
        "must reach": "≤ 20 ms, ≤ 1.5, flat",
    }


def _p95(ask: Callable[[int], object]) -> float:
    """The 95th percentile of request times, in milliseconds."""
    spent = []
    for n in range(ASKED):
        began = time.perf_counter()
        ask(n)
        spent.append((time.perf_counter() - began) * 1000)
    return quantiles(spent, n=20)[-1]
