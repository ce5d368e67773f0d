"""What a job takes besides its steps, and how soon its first step begins, by parts of the start.

A daemon registers each model, trains it once, and then in jobs of one step and of two. Then the
first job's child is started again and again with the same task, models in turn, and ends before its
first step; figures are medians.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np
from msgspec.structs import replace

from bench.daemon import Served, job_s, served, train
from bench.needs import LINUX, TORCH
from bench.table import Row
from bench.training.frameworks import CASES, Case, job, material
from service.jobs.training_tasks import train_task
from service.processes.interpreter import APPLICATION, environment
from service.settings import Settings
from service.training.protocol.messages.lines import encode
from service.training.protocol.messages.shared import ResourceLimits
from service.training.protocol.messages.training import Start, Train
from storage.store import Store

ROUNDS = 11
FIRST_STEP_MS = 250
BESIDES_MS = 500
PARTS = ("interpreter", "sandbox", "modules", "samples", "engine", "rest")
"""Parts of a start, as bench/training/started_child.py tells their ends."""
NEEDS = (LINUX, TORCH)
SMALLEST = {"ROUNDS": 1, "CASES": (Case("mlp-small", (32,), 200, 1, 32),)}


def run() -> list[Row]:
    """One row per model, on two threads."""
    with ExitStack() as kept:
        starts = [kept.enter_context(_start_of(case)) for case in CASES if len(case.threads) > 1]
        told = [[start.again() for start in starts] for _ in range(ROUNDS)]
    return [_row(start, [times[place] for times in told]) for place, start in enumerate(starts)]


@dataclass(frozen=True, slots=True)
class ChildStart:
    """The start of one model's jobs. task: a line for the child. besides_ms: see `_besides`."""

    name: str
    task: bytes
    besides_ms: float

    def again(self) -> list[float]:
        """When each part ended, in ms since the child's process was started."""
        command = [sys.executable, "-m", "bench.training.started_child"]
        began = time.monotonic()
        child = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            cwd=APPLICATION,
            env=environment(),
        )
        assert child.stdin is not None
        assert child.stderr is not None
        child.stdin.write(self.task)
        child.stdin.flush()
        said = child.stderr.read()
        child.wait()
        assert child.returncode == 0, said.decode()
        return [(moment - began) * 1e3 for moment in json.loads(said)]


@contextmanager
def _start_of(case: Case) -> Iterator[ChildStart]:
    with tempfile.TemporaryDirectory(prefix="honed-bench-") as name:
        folder = Path(name)
        model, data = material(case, folder)
        spec = {"trainable": list(case.trainable)} if case.trainable else {}
        with np.load(data) as arrays, served(training_threads=2, training_nice=0) as daemon:
            daemon.register("m", model.read_bytes(), **spec)
            daemon.upload("m", split="train", x=arrays["x"], label=arrays["label"])
            job(daemon, case, (arrays["held_x"], arrays["held_label"]))
            besides_ms = _besides(daemon, case)
            daemon.stop()
            # Open, so that the database's log has an index, without which nobody else can read.
            with closing(Store.open(daemon.data_dir)) as store:
                yield ChildStart(case.name, encode(_task(store, work_dir=folder)), besides_ms)


def _besides(daemon: Served, case: Case) -> float:
    """Milliseconds from a job's request to its version, without its steps.

    A job of one step takes as much, and a step; one of two steps takes a step more.
    """
    asked = {"batch_size": case.batch_size, "from": "base"}
    taken: dict[int, list[float]] = {1: [], 2: []}
    for _ in range(ROUNDS):
        for steps, found in taken.items():
            found.append(job_s(train(daemon, "m", max_steps=steps, **asked)))
    return (2 * median(taken[1]) - median(taken[2])) * 1e3


def _task(store: Store, *, work_dir: Path) -> Train:
    """The task of the first job, as it began."""
    task = train_task(store.jobs.get(1), store, Settings(), work_dir=work_dir)
    return replace(task, limits=ResourceLimits(threads=2, nice=0), start=Start())


def _row(start: ChildStart, told: list[list[float]]) -> Row:
    parts = [np.diff([0.0, *times]) for times in told]
    return {
        "model": start.name,
        **{f"{part} ms": median(each[place] for each in parts) for place, part in enumerate(PARTS)},
        "first step ms": median(times[-1] for times in told),
        "besides steps ms": start.besides_ms,
        "must reach": f"first step ≤ {FIRST_STEP_MS}, besides ≤ {BESIDES_MS}",
    }
