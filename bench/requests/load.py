"""Mixed requests at a fixed rate while a job trains: the highest rate within the p99 limit.

The loop is open: each request is due at its time, whatever became of earlier ones, and its latency
counts from then, so that a daemon that falls behind cannot slow down the load. How late requests
are sent is part of it, and printed. An upload waits for the disk: how long flushes take without the
daemon is measured first. TMPDIR names another disk.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import tempfile
import time
from collections import Counter
from statistics import median, quantiles

import psutil

from bench.daemon import Served, add_mlp, served
from bench.measuring import cpu_s
from bench.requests.plain_http import Connection, PlainHttp
from bench.table import Row

RATES = (25, 50, 100, 150, 200, 250, 300, 400, 500)
SECONDS, WARM_UP_S = 60.0, 5.0
MAX_P99_MS = 100.0
FEATURES, CLASSES, SAMPLES, BATCH = 64, 10, 20_000, 32
CLIENTS = 200
"""Concurrent connections; a request that finds none free waits, which counts as latency."""
OVERLOADED = (429, 503)
"""At some rate a daemon refuses; all else that is not expected fails the benchmark."""
MAX_IDLE_S = 3.0
"""uvicorn closes a connection that is idle for five seconds."""
MIX = {
    "upload one": 8,
    "upload batch": 1,
    "predict": 4,
    "latest": 3,
    "list": 2,
    "job": 1,
    "stats": 1,
}
"""Shares of twenty requests: devices send samples and request predictions, some poll."""
FLUSHES, FLUSH_PAUSE_S = 2000, 0.008
"""A flush now and then takes long where the disk is shared, so that a few show nothing."""
_M = "/v1/models/m"
SMALLEST = {"RATES": (25,), "SECONDS": 1.0, "WARM_UP_S": 0.5, "SAMPLES": 500, "FLUSHES": 10}


def run() -> list[Row]:
    """A row per rate, up to the first at which p99 exceeds MAX_P99_MS."""
    rows: list[Row] = []
    flushes_ms = _flushes_ms()
    alone = {"flush alone p99 ms": quantiles(flushes_ms, n=100)[-1], "longest ms": max(flushes_ms)}
    with served() as daemon:
        add_mlp(daemon, "m", FEATURES, 256, CLASSES, samples=SAMPLES)
        job = daemon.ask_for_job("m", epochs=10**6, ignore_policy=True)["id"]
        daemon.wait_for_job(job, "running")
        asyncio.run(_Load(daemon, job).run(RATES[0], WARM_UP_S))
        for rate in RATES:
            rows.append(asyncio.run(_Load(daemon, job).run(rate, SECONDS)) | alone)
            assert daemon.job(job)["state"] == "running", daemon.job(job)
            if rows[-1]["p99 ms"] > MAX_P99_MS:
                break
        daemon.http.post(f"/v1/jobs/{job}/cancel")
    return rows


class _Load:
    """Requests at one rate, and their results."""

    def __init__(self, daemon: Served, job: int) -> None:
        self._http = PlainHttp(daemon)
        self._process = psutil.Process(daemon.process.pid)
        self._idle: list[tuple[float, Connection]] = []
        self._clients = asyncio.Semaphore(CLIENTS)
        etag = daemon.http.get(f"{_M}/latest/model.onnx").headers["etag"]
        plain = "Content-Type: application/json\r\n"
        self._requests = {
            "upload one": (f"POST {_M}/samples", 201, plain),
            "upload batch": (f"POST {_M}/samples", 201, plain),
            "predict": (f"POST {_M}/predict", 200, plain),
            "latest": (f"GET {_M}/latest/model.onnx", 304, f"If-None-Match: {etag}\r\n"),
            "list": (f"GET {_M}/samples?limit=50", 200, ""),
            "job": (f"GET /v1/jobs/{job}", 200, ""),
            "stats": (f"GET {_M}/samples/stats", 200, ""),
        }
        self._spent_ms: list[float] = []
        self._late_ms: list[float] = []
        self._statuses: Counter[int] = Counter()
        self._unexpected: Counter[str] = Counter()

    async def run(self, rate: int, seconds: float) -> Row:
        """Send `rate` requests per second, whose bodies are made before the first."""
        kinds = random.choices(list(MIX), list(MIX.values()), k=int(rate * seconds))
        bodies = [_body(kind) for kind in kinds]
        used = cpu_s(self._process)
        began = time.perf_counter()
        asked = []
        for place, (kind, body) in enumerate(zip(kinds, bodies, strict=True)):
            due = began + place / rate
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            asked.append(asyncio.create_task(self._ask(kind, body, due)))
        await asyncio.gather(*asked)
        used = cpu_s(self._process) - used
        for _, (_, writer) in self._idle:
            writer.close()
        return {
            "requests/s": rate,
            "answered": len(self._spent_ms),
            "p50 ms": median(self._spent_ms),
            "p99 ms": quantiles(self._spent_ms, n=100)[-1],
            "sent late p99 ms": quantiles(self._late_ms, n=100)[-1],
            "daemon's processor ms a request": used / len(kinds) * 1000,
            "5xx": sum(count for status, count in self._statuses.items() if status >= 500),
            "other than expected": dict(self._unexpected) or "none",
            "must reach": f"200/s for a minute, p99 ≤ {MAX_P99_MS:g} ms, no 5xx",
        }

    async def _ask(self, kind: str, body: bytes, due: float) -> None:
        line, expected, headers = self._requests[kind]
        async with self._clients:
            connection = await self._connection()
            self._late_ms.append((time.perf_counter() - due) * 1000)
            try:
                status = await self._http.ask(connection, line, body, headers=headers)
            except (ConnectionError, asyncio.IncompleteReadError):
                self._unexpected[f"{kind}: connection lost"] += 1
                return
            now = time.perf_counter()
            self._idle.append((now, connection))
        self._spent_ms.append((now - due) * 1000)
        self._statuses[status] += 1
        if status != expected:
            assert status in OVERLOADED, f"{kind}: {status}"
            self._unexpected[f"{kind}: {status}"] += 1

    async def _connection(self) -> Connection:
        while self._idle:
            since, connection = self._idle.pop()
            if time.perf_counter() - since < MAX_IDLE_S:
                return connection
            connection[1].close()
        return await self._http.connect()


def _flushes_ms() -> list[float]:
    """How long each append of 1 kB takes to be flushed, with nothing else running."""
    spent = []
    with tempfile.TemporaryFile() as file:
        for _ in range(FLUSHES):
            file.write(bytes(1000))
            file.flush()
            began = time.perf_counter()
            os.fsync(file.fileno())
            spent.append((time.perf_counter() - began) * 1000)
            time.sleep(FLUSH_PAUSE_S)
    return spent


def _body(kind: str) -> bytes:
    if kind == "predict":
        return json.dumps({"inputs": {"x": _x()}}).encode()
    if kind == "upload one":
        return json.dumps(_sample()).encode()
    if kind == "upload batch":
        return json.dumps({"samples": [_sample() for _ in range(BATCH)]}).encode()
    return b""


def _sample() -> dict[str, object]:
    return {"inputs": {"x": _x()}, "label": random.randrange(CLASSES)}


def _x() -> list[float]:
    return [random.random() for _ in range(FEATURES)]
