"""npz upload of 784-float samples, durable when answered, compared with a flushed file."""

from __future__ import annotations

import http.client
import json
import os
import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np
import psutil

from bench.daemon import Served, mlp, npz, served
from bench.table import Row

ROUNDS = 5
SIZES = (1_000, 10_000, 50_000)
SMALLEST = {"ROUNDS": 1, "SIZES": (64,)}


def run() -> list[Row]:
    """Samples per second in uploads of several sizes, and how the daemon's peak memory grows."""
    with served() as daemon:
        daemon.register("m", mlp(784, 512, 512, 10))
        return [_upload(daemon, count) for count in SIZES]


def _upload(daemon: Served, count: int) -> Row:
    generator = np.random.default_rng(count)
    ours, bare = [], []
    for _ in range(ROUNDS):
        x = generator.random((count, 784), dtype=np.float32)  # none is there already
        body = npz(x=x, label=generator.integers(0, 10, count))
        began = time.perf_counter()
        accepted = _send(daemon, body)
        ours.append(count / (time.perf_counter() - began))
        assert accepted == count
        began = time.perf_counter()
        _write(body)
        bare.append(count / (time.perf_counter() - began))
    return {
        "samples in one upload": count,
        "honed samples/s": median(ours),
        "file + fsync samples/s": median(bare),
        "ratio": median(a / b for a, b in zip(ours, bare, strict=True)),
        "peak resident MB": _peak_mb(daemon),
        "must reach": "≥ 20,000",
    }


def _send(daemon: Served, body: bytes) -> int:
    """How many samples were accepted."""
    # http.client writes the body to the socket at once; httpx takes longer than the daemon.
    connection = http.client.HTTPConnection(daemon.url.removeprefix("http://"))
    headers = {"Content-Type": "application/x-npz", "Authorization": f"Bearer {daemon.token}"}
    connection.request("POST", "/v1/models/m/samples", body, headers)
    answer = connection.getresponse()
    content = answer.read()
    assert answer.status == 201, content
    connection.close()
    return int(json.loads(content)["accepted"])


def _write(body: bytes) -> None:
    with tempfile.NamedTemporaryFile(dir=Path.cwd()) as file:
        file.write(body)
        file.flush()
        os.fsync(file.fileno())


def _peak_mb(daemon: Served) -> float:
    status = Path(f"/proc/{daemon.process.pid}/status")
    if not status.exists():
        return float(psutil.Process(daemon.process.pid).memory_info().rss) / 2**20
    line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024
