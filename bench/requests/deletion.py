"""Deletion of 333,000 samples: how long uploads to another model take meanwhile.

The loop is open: an upload is due at its time, and its latency counts from then, so that a daemon
that stops answering is seen by all uploads of that time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import httpx
import numpy as np

from bench.daemon import Served, mlp, served
from bench.table import Row

FEATURES, CLASSES, PART, CHUNK = 16, 3, 333_000, 37_000
RATE, SENDERS, ALONE_S = 50, 16, 10.0
SMALLEST = {"PART": 3000, "CHUNK": 3000, "ALONE_S": 0.5}
_BIG = "/v1/models/big"


def run() -> list[Row]:
    """Of 999,000 samples a third each by filter, by quota and by `all=true`; then a model's."""
    with served() as daemon:
        http = daemon.http
        for name in ("small", "big"):
            daemon.register(name, mlp(FEATURES, 32, CLASSES))
        _fill(daemon, CLASSES * PART)
        quota = {"max_samples": PART}
        rows = [
            _during("nothing", lambda: time.sleep(ALONE_S), http),
            _during("by filter", lambda: http.delete(f"{_BIG}/samples?label=0"), http),
            _during("by quota", lambda: http.patch(_BIG, json={"quota": quota}), http),
            _during("all", lambda: http.delete(f"{_BIG}/samples?all=true"), http),
        ]
        _fill(daemon, PART)
        return [*rows, _during("the model", lambda: http.delete(_BIG), http)]


def _fill(daemon: Served, count: int) -> None:
    generator = np.random.default_rng(count)
    for start in range(0, count, CHUNK):
        x = generator.random((CHUNK, FEATURES), dtype=np.float32)
        daemon.upload("big", x=x, split="train", label=np.arange(start, start + CHUNK) % CLASSES)


def _during(what: str, delete: Callable[[], object], http: httpx.Client) -> Row:
    """Upload until `delete` returns."""
    ended, spent_ms = threading.Event(), list[float]()
    began = time.perf_counter()

    def upload(place: int) -> None:
        body = {"inputs": {"x": [float(place)] * FEATURES}, "label": place % CLASSES}
        http.post("/v1/models/small/samples?allow_duplicates=true", json=body)
        spent_ms.append((time.perf_counter() - began - place / RATE) * 1000)

    def load() -> None:
        with ThreadPoolExecutor(SENDERS) as pool:
            place, sent = 0, []
            while not ended.wait(max(0.0, began + place / RATE - time.perf_counter())):
                sent.append(pool.submit(upload, place))
                place += 1
            for upload_sent in sent:
                upload_sent.result()

    thread = threading.Thread(target=load)
    thread.start()
    try:
        delete()
    finally:
        ended.set()
        took_s = time.perf_counter() - began
        thread.join()
    return {
        "deleted": what,
        "in s": took_s,
        "uploads": len(spent_ms),
        "p50 ms": float(np.percentile(spent_ms, 50)),
        "p99 ms": float(np.percentile(spent_ms, 99)),
        "longest ms": max(spent_ms),
        "must reach": "p99 ≤ 200 ms",
    }
