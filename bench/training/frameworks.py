"""The same training in the daemon, in a bare loop over its engine, and in PyTorch.

Each round runs all of them in turn; figures are medians over two to fifteen rounds. Ours is timed
from the request to the stored version, including the child's start; the others from their first
step, with their runtime loaded and their data in memory. PyTorch: eager, fused AdamW, on one and on
two threads in each round; the better median counts. Rows of one thread have one thread on both
sides.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from bench import watched
from bench.daemon import Served, job_s, predicted, served, train
from bench.needs import LINUX, TORCH
from bench.table import Row

LEARNING_RATE = 1e-3
HELD = 500
SIDE = Path(__file__).with_name("torch_side.py")
CLASSES = 10
NOISE, IMAGE_NOISE = 1.0, 0.1
"""Standard deviations; features of an untrained backbone can barely tell classes apart."""
COARSE = 8
"""Side length in pixels at which an image's pattern is drawn, before it is enlarged."""


@dataclass(frozen=True, slots=True)
class Case:
    """One row: a model, how long it trains, and which of its parameters.

    threads: PyTorch's counts; ours may use the largest.
    """

    name: str
    shape: tuple[int, ...]
    samples: int
    epochs: int
    batch_size: int
    trainable: tuple[str, ...] = ()
    rounds: int = 3
    threads: tuple[int, ...] = (2, 1)

    @property
    def label(self) -> str:
        return f"{self.name}, one thread" if self.threads == (1,) else self.name


CASES = (
    Case("mlp", (784,), 8_000, 8, 64, rounds=15),
    Case("mlp-small", (32,), 8_000, 20, 32, rounds=15),
    Case("cnn", (1, 28, 28), 2_000, 2, 64),
    Case("transformer", (32, 64), 2_000, 2, 64),
    Case("mobilenet", (3, 96, 96), 320, 2, 16, rounds=3),
    Case("frozen-backbone", (3, 96, 96), 1_000, 10, 16, ("head.*",), rounds=2),
    Case("mlp", (784,), 8_000, 8, 64, rounds=5, threads=(1,)),
    Case("cnn", (1, 28, 28), 2_000, 2, 64, threads=(1,)),
    Case("transformer", (32, 64), 2_000, 2, 64, threads=(1,)),
)
NEEDS = (LINUX, TORCH)
SMALLEST = {"CASES": (Case("mlp-small", (32,), 200, 1, 32, rounds=1),), "HELD": 50}


def run(cases: Sequence[Case] | None = None) -> list[Row]:
    """One row per case."""
    return [_case(case) for case in (CASES if cases is None else cases)]


@dataclass(slots=True)
class Round:
    """The results of one round. torch: by number of threads."""

    ours: dict[str, Any]
    again: dict[str, Any]
    bare: dict[str, Any]
    torch: dict[int, dict[str, Any]]


def _case(case: Case) -> Row:
    with tempfile.TemporaryDirectory(prefix="honed-bench-") as name:
        folder = Path(name)
        model, data = material(case, folder)
        rounds = [_round(case, model, data) for _ in range(case.rounds)]
    return _row(case, rounds)


def material(case: Case, folder: Path) -> tuple[Path, Path]:
    """The model, exported from PyTorch, and the samples."""
    model, data = folder / "model.onnx", folder / "data.npz"
    command = TORCH.command(SIDE, "export", case.name, model)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    x, label = task(case.shape, case.samples, seed=1)
    held_x, held_label = task(case.shape, HELD, seed=2)
    np.savez(data, x=x, label=label, held_x=held_x, held_label=held_label)
    return model, data


def _round(case: Case, model: Path, data: Path) -> Round:
    ours, again = _ours(case, model, data)
    theirs = {
        threads: torch(case, data, epochs=case.epochs, threads=threads) for threads in case.threads
    }
    bare, bare_peak = watched.run(
        [
            *(sys.executable, "-m", "bench.training.bare_loop", str(model), str(data), "x"),
            *map(str, (case.epochs, case.batch_size, max(case.threads))),
            *case.trainable,
        ]
    )
    return Round(ours, again, {**bare, "peak_mb": bare_peak.own}, theirs)


def torch(case: Case, data: Path, *, epochs: int, threads: int) -> dict[str, Any]:
    """PyTorch's side, in a separate process."""
    asked = ("train", case.name, data, epochs, case.batch_size, threads)
    found, peak = watched.run(TORCH.command(SIDE, *asked))
    return {**found, "peak_mb": peak.own}


def _ours(case: Case, model: Path, data: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The first job, and a second one on the same samples."""
    spec = {"trainable": list(case.trainable)} if case.trainable else {}
    with (
        np.load(data) as arrays,
        served(training_threads=max(case.threads), training_nice=0) as daemon,
    ):
        daemon.register("m", model.read_bytes(), **spec)
        daemon.upload("m", split="train", x=arrays["x"], label=arrays["label"])
        held = arrays["held_x"], arrays["held_label"]
        first = job(daemon, case, held)
        return first, job(daemon, case, held)


def job(daemon: Served, case: Case, held: tuple[np.ndarray, np.ndarray]) -> dict[str, Any]:
    """Train from the registered weights; seconds, samples per second, accuracy, peak memory."""
    asked = {
        "epochs": case.epochs,
        "batch_size": case.batch_size,
        "learning_rate": LEARNING_RATE,
        "from": "base",
    }
    with watched.watching(lambda: watched.children(daemon.process.pid)) as peak:
        done = train(daemon, "m", **asked)
    return {
        "seconds": job_s(done),
        "samples_per_second": done["progress"]["samples_per_second"],
        "accuracy": _accuracy(daemon, done["version"], held),
        "peak_mb": peak.own,
    }


def _accuracy(daemon: Served, version: int, held: tuple[np.ndarray, np.ndarray]) -> float:
    """The accuracy of the exported model in a plain session."""
    x, label = held
    content = daemon.http.get(f"/v1/models/m/versions/{version}/model.onnx").content
    return float((predicted(content, x=x) == label).mean())


def _row(case: Case, rounds: list[Round]) -> Row:
    def pace(threads: int) -> float:
        return median(one.torch[threads]["samples_per_second"] for one in rounds)

    threads = max(case.threads, key=pace)
    sides = {
        **{side: [getattr(one, side) for one in rounds] for side in ("ours", "again", "bare")},
        "torch": [one.torch[threads] for one in rounds],
    }

    def middle(side: str, what: str) -> float:
        return median(found[what] for found in sides[side])

    def ratio(what: str, over: str, under: str) -> float:
        pairs = zip(sides[over], sides[under], strict=True)
        return median(above[what] / below[what] for above, below in pairs)

    return {
        "model": case.label,
        "samples": case.samples,
        "epochs": case.epochs,
        "honed samples/s": middle("ours", "samples_per_second"),
        "bare engine samples/s": middle("bare", "samples_per_second"),
        "PyTorch samples/s": middle("torch", "samples_per_second"),
        "samples/s ÷ PyTorch": ratio("samples_per_second", "ours", "torch"),
        "honed request to version s": middle("ours", "seconds"),
        "second job s": middle("again", "seconds"),
        "bare engine s": middle("bare", "seconds"),
        "PyTorch s": middle("torch", "seconds"),
        "PyTorch s ÷ honed s": ratio("seconds", "torch", "ours"),
        "first ÷ second job": ratio("seconds", "ours", "again"),
        "honed peak MB": middle("ours", "peak_mb"),
        "bare engine peak MB": middle("bare", "peak_mb"),
        "PyTorch peak MB": middle("torch", "peak_mb"),
        "peak ÷ PyTorch": ratio("peak_mb", "ours", "torch"),
        "honed accuracy": middle("ours", "accuracy"),
        "PyTorch accuracy": middle("torch", "accuracy"),
        "PyTorch threads": threads,
        "must reach": MUST_REACH.get(case.label, "peak ≤ 0.5"),
    }


MUST_REACH = {
    "mlp": "samples/s ≥ 1.1, peak ≤ 0.5",
    "mlp-small": "samples/s ≥ 6, peak ≤ 0.5",
    "cnn": "samples/s ≥ 1.4, peak ≤ 0.5",
    "transformer": "samples/s ≥ 1.4, peak ≤ 0.5",
    "mobilenet": "samples/s ≥ 0.6, peak ≤ 0.5",
    "frozen-backbone": "s ≥ 25, second job's ≥ 70, peak ≤ 0.5, accuracy within 0.01",
    "mlp, one thread": "samples/s ≥ 1.0",
    "cnn, one thread": "samples/s ≥ 1.4",
    "transformer, one thread": "samples/s ≥ 1.15",
}


def task(shape: tuple[int, ...], count: int, *, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """`count` samples of this shape, float32: the pattern of a class, and noise; and their classes.

    Each seed draws other samples.
    """
    patterns = _patterns(shape)
    generator = np.random.default_rng(seed)
    label = generator.integers(0, CLASSES, count)
    x = generator.standard_normal((count, *shape), dtype=np.float32)
    x *= np.float32(IMAGE_NOISE if len(shape) == 3 else NOISE)
    x += patterns[label]
    return x, label


def _patterns(shape: tuple[int, ...]) -> np.ndarray:
    generator = np.random.default_rng(7)
    if len(shape) < 3:
        return generator.standard_normal((CLASSES, *shape), dtype=np.float32) * np.float32(0.3)
    channels, height, width = shape
    coarse = generator.standard_normal((CLASSES, channels, COARSE, COARSE), dtype=np.float32)
    rows = np.arange(height) * COARSE // height
    columns = np.arange(width) * COARSE // width
    return coarse[:, :, rows][:, :, :, columns]
