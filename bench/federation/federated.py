"""Federations of 10 and 100 devices by Flower's simulation runtime, beside FedAvg in PyTorch.

Each device has 112 pictures to train on, by one of eight cameras and mostly of five digits, and 28
that its gate judges by. The server is honed-flower's, the devices are those of bench/federation.
Accuracy is that of the global model on kept-back digits by all cameras.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from itertools import pairwise
from pathlib import Path
from statistics import median

import numpy as np

from bench.federation.devices import accuracy, kept_back, make_devices, outcome_of, start
from bench.needs import ROOT, TORCH, Environment
from bench.table import Row

FLOWER = Environment(
    folder=".venv-bench-flower",
    variable="BENCH_FLOWER_PYTHON",
    packages=(
        "flwr[simulation]==1.41.0",
        *("--editable", "."),
        *("--editable", "clients/python"),
        *("--editable", "clients/flower"),
    ),
)
DEVICES = (10, 100)
ROUNDS, EPOCHS, BATCH_SIZE, LEARNING_RATE = 10, 4, 16, 0.003
QUIET = {
    "HONED_CONFIG": os.devnull,
    "FLWR_TELEMETRY_ENABLED": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
}
NEEDS = (FLOWER, TORCH)
SMALLEST = {"DEVICES": (2,), "ROUNDS": 1, "EPOCHS": 1}


def run() -> list[Row]:
    """For each number of devices: accuracy by round on both sides, and what ours costs."""
    return [row for count in DEVICES for row in _rows(count)]


def _rows(count: int) -> list[Row]:
    with tempfile.TemporaryDirectory(prefix="honed-bench-") as name:
        folder = Path(name)
        make_devices(folder, count)
        costs, kept = _simulate(folder, count), kept_back()
        files = [folder / "run" / f"round-{number:04}.onnx" for number in range(1, ROUNDS + 1)]
        ours = [accuracy(file.read_bytes(), kept) for file in files]
        sizes, promoted = zip(*(outcome_of(folder, device) for device in range(count)), strict=True)
        costs["KB up a device"] = max(sizes) / 1e3
        costs["gate let in"] = f"{sum(promoted)} of {count}"
        return [
            {"devices": count, "by": "honed", **_by_round(ours), **costs},
            {"devices": count, "by": "PyTorch", **_by_round(_torch(folder))},
        ]


def _by_round(reached: list[float]) -> Row:
    return {f"round {number}": accuracy for number, accuracy in enumerate(reached, 1)}


def _simulate(folder: Path, count: int) -> Row:
    """Medians of the rounds, with their waits for the devices, which share the processors."""
    course = {"rounds": ROUNDS, "epochs": EPOCHS, "batch-size": BATCH_SIZE}
    settings = {**course, "learning-rate": LEARNING_RATE}
    given = [f"{name}={value}" for name, value in settings.items()]
    module = ["-m", "bench.federation.simulation", str(folder), str(count)]
    done = subprocess.run(
        [str(FLOWER.python()), *module, *given],
        cwd=ROOT,
        env={**os.environ, **QUIET},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    costs = json.loads(done.stdout.splitlines()[-1])
    rounds = [
        {name: after[name] - before[name] for name in after} for before, after in pairwise(costs)
    ]
    return {
        "s a round": median(cost["s"] for cost in rounds),
        "server CPU s a round": median(cost["cpu_s"] for cost in rounds),
        "server MB before": costs[0]["peak_mb"],
        "server MB at most": costs[-1]["peak_mb"],
        "KB down a device": costs[0]["parameter_bytes"] / 1e3,
    }


def _torch(folder: Path) -> list[float]:
    """The accuracy by round, from the same weights on the same pictures."""
    kept, task = kept_back(), folder / "task.npz"
    with np.load(folder / "devices.npz") as file:
        given = {f"start.{name}": values for name, values in start(folder).items()}
        np.savez(task, **dict(file), **given, kept_x=kept.images, kept_label=kept.labels)
    side = Path(__file__).with_name("fedavg_torch.py")
    command = TORCH.command(side, task, ROUNDS, EPOCHS, BATCH_SIZE, LEARNING_RATE)
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    reached: list[float] = json.loads(done.stdout)["accuracy"]
    return reached
