"""Samples per second of a job ÷ a bare loop over the same engine with the data in memory."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

import numpy as np

from bench.daemon import Served, digits_cnn, mlp, served
from bench.table import Row

ROUNDS = 7
SAMPLES = 8_000
BATCH_SIZE = 64
THREADS = 1
SMALLEST = {"ROUNDS": 1, "SAMPLES": 500}


def run() -> list[Row]:
    """A job and the bare loop in turn, MLP and digits CNN; the ratio is the median of the pairs."""
    with served(training_threads=THREADS, training_nice=0) as daemon:
        return [
            _compare(daemon, "mlp-784-512-512-10", mlp(784, 512, 512, 10), "x", (784,), 4),
            _compare(daemon, "digits-cnn", digits_cnn(), "image", (1, 8, 8), 12),
        ]


def _compare(
    daemon: Served,
    name: str,
    model: bytes,
    input_name: str,
    shape: tuple[int, ...],
    epochs: int,
) -> Row:
    generator = np.random.default_rng(0)
    x = generator.random((SAMPLES, *shape), dtype=np.float32)
    samples = {input_name: x, "label": generator.integers(0, 10, SAMPLES)}
    daemon.register(name, model)
    daemon.upload(name, split="train", **samples)
    with tempfile.TemporaryDirectory() as folder:
        model_file, data_file = Path(folder) / "model.onnx", Path(folder) / "data.npz"
        model_file.write_bytes(model)
        np.savez(data_file, **samples)
        bare_command = [sys.executable, "-m", "bench.training.bare_loop"]
        bare_command += [str(model_file), str(data_file), input_name]
        bare_command += [str(epochs), str(BATCH_SIZE), str(THREADS)]
        ours, bare = [], []
        for _ in range(ROUNDS):
            job = daemon.train(name, epochs=epochs, batch_size=BATCH_SIZE)
            ours.append(job["progress"]["samples_per_second"])
            output = subprocess.run(bare_command, capture_output=True, text=True, check=True).stdout
            bare.append(json.loads(output)["samples_per_second"])
    ratios = [a / b for a, b in zip(ours, bare, strict=True)]
    return {
        "model": name,
        "job samples/s": median(ours),
        "bare loop samples/s": median(bare),
        "ratio": median(ratios),
        "ratio min": min(ratios),
        "ratio max": max(ratios),
        "must reach": "≥ 0.95",
    }
