"""What many short jobs, each with a prediction, leave behind: in resident memory, and on disk.

An app uploads samples all the while, so that the thread that writes never rests. Memory still grows
in the first half: caches of SQLite and of malloc fill, a table of CPython doubles once. What grows
in the second half is kept for each job.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event

import numpy as np
import psutil

from bench.daemon import Served, add_mlp, served, train
from bench.table import Row

JOBS = 400
FEATURES, CLASSES, SAMPLES = 16, 3, 256
BETWEEN_UPLOADS_S = 0.1
SMALLEST = {"JOBS": 2}


def run() -> list[Row]:
    """Growth between half of the jobs and all of them."""
    with served() as daemon:
        add_mlp(daemon, "m", FEATURES, 8, CLASSES, samples=SAMPLES)
        quota = {"quota": {"max_samples": SAMPLES}}
        daemon.http.patch("/v1/models/m", json=quota).raise_for_status()
        with _uploads(daemon):
            _run(daemon, JOBS // 2)
            half_mb, half_kb = _resident_mb(daemon), _database_kb(daemon)
            _run(daemon, JOBS - JOBS // 2)
            resident_mb, database_kb = _resident_mb(daemon), _database_kb(daemon)
    return [
        {
            "jobs": JOBS,
            "resident after half, MB": half_mb,
            "resident after all, MB": resident_mb,
            "growth, %": (resident_mb / half_mb - 1) * 100,
            "growth, KB a job": (resident_mb - half_mb) * 1024 / (JOBS - JOBS // 2),
            "database, KB a job": (database_kb - half_kb) / (JOBS - JOBS // 2),
            "must reach": "≤ 2 % and ≤ 5 KB a job resident",
        }
    ]


@contextmanager
def _uploads(daemon: Served) -> Iterator[None]:
    """One sample after another while the block runs."""
    ended = Event()

    def upload() -> None:
        generator = np.random.default_rng(1)
        while not ended.wait(BETWEEN_UPLOADS_S):
            x = generator.random((1, FEATURES), dtype=np.float32)
            daemon.upload("m", x=x, label=generator.integers(0, CLASSES, 1))

    with ThreadPoolExecutor(1) as pool:
        uploads = pool.submit(upload)
        try:
            yield
        finally:
            ended.set()
        uploads.result()


def _run(daemon: Served, count: int) -> None:
    for _ in range(count):
        train(daemon, "m", max_steps=2, ignore_policy=True)
        question = {"inputs": {"x": [0.5] * FEATURES}}
        daemon.http.post("/v1/models/m/predict", json=question)


def _resident_mb(daemon: Served) -> float:
    return psutil.Process(daemon.process.pid).memory_info().rss / 2**20


def _database_kb(daemon: Served) -> float:
    """The database's size, including its log."""
    files = (daemon.data_dir / name for name in ("hone.db", "hone.db-wal"))
    return sum(path.stat().st_size for path in files if path.exists()) / 1024
