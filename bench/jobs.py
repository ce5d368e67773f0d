"""What many short jobs leave behind in one daemon: its resident memory, and its database."""

from __future__ import annotations

import numpy as np
import psutil

from bench.daemon import Served, mlp, served, train
from bench.table import Row

JOBS = 400
WARM = 60
"""After this many jobs everything needed is loaded, and SQLite's log has reached its size."""
FEATURES, CLASSES, SAMPLES = 16, 3, 256


def run() -> list[Row]:
    """Growth between a warm daemon and one that has run them all."""
    generator = np.random.default_rng(0)
    x = generator.random((SAMPLES, FEATURES), dtype=np.float32)
    with served() as daemon:
        daemon.register("m", mlp(FEATURES, 8, CLASSES))
        daemon.upload("m", x=x, label=generator.integers(0, CLASSES, SAMPLES))
        _run(daemon, WARM)
        warm_mb, warm_kb = _resident_mb(daemon), _database_kb(daemon)
        _run(daemon, JOBS - WARM)
        resident_mb, database_kb = _resident_mb(daemon), _database_kb(daemon)
    return [
        {
            "jobs": JOBS,
            f"resident after {WARM}, MB": warm_mb,
            "resident after all, MB": resident_mb,
            "growth, KB a job": (resident_mb - warm_mb) * 1024 / (JOBS - WARM),
            "database, KB a job": (database_kb - warm_kb) / (JOBS - WARM),
            "must reach": "≤ 5 KB a job resident",
        }
    ]


def _run(daemon: Served, count: int) -> None:
    for _ in range(count):
        train(daemon, "m", max_steps=2, ignore_policy=True)


def _resident_mb(daemon: Served) -> float:
    return psutil.Process(daemon.process.pid).memory_info().rss / 2**20


def _database_kb(daemon: Served) -> float:
    """The database's size, including its log."""
    files = (daemon.data_dir / name for name in ("hone.db", "hone.db-wal"))
    return sum(path.stat().st_size for path in files if path.exists()) / 1024
