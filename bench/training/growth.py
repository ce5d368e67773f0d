"""How an epoch's time of the MLP grows with its samples, in the daemon and in PyTorch."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from bench.daemon import served
from bench.needs import LINUX, TORCH
from bench.table import Row
from bench.training import frameworks

SIZES = (1_000, 10_000, 100_000)
CHUNK = 20_000
SHAPE = (784,)
BATCH_SIZE = 64
NEEDS = (LINUX, TORCH)
SMALLEST = {"SIZES": (64, 128)}


def run() -> list[Row]:
    """One row per size, each in its own daemon."""
    return [_row(size) for size in SIZES]


def _row(size: int) -> Row:
    case = frameworks.Case("mlp", SHAPE, size, 1, BATCH_SIZE)
    with tempfile.TemporaryDirectory(prefix="honed-bench-") as name:
        folder = Path(name)
        model, data = frameworks.material(case, folder)
        ours = _ours(case, model, data)
        theirs = frameworks.torch(case, data, epochs=1, threads=max(case.threads))
    return {
        "samples": size,
        "dataset MB": size * int(np.prod(SHAPE)) * 4 / 2**20,
        "honed request to version s": ours["seconds"],
        "PyTorch s": theirs["seconds"],
        "honed samples/s": ours["samples_per_second"],
        "PyTorch samples/s": theirs["samples_per_second"],
        "honed peak MB": ours["peak_mb"],
        "PyTorch peak MB": theirs["peak_mb"],
        "must reach": "memory does not grow",
    }


def _ours(case: frameworks.Case, model: Path, data: Path) -> dict[str, float]:
    with np.load(data) as arrays, served(training_threads=max(case.threads)) as daemon:
        x, label = arrays["x"], arrays["label"]
        daemon.register("m", model.read_bytes())
        for start in range(0, len(x), CHUNK):
            part = slice(start, start + CHUNK)
            daemon.upload("m", split="train", x=x[part], label=label[part])
        held = frameworks.task(SHAPE, 100, seed=2)
        return frameworks.job(daemon, case, held)
