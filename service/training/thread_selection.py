"""Chooses how many threads a model trains on, and whether they spin: measured once, then stored.

More threads are not always faster: a small step is over before the others wake. The choice is
stored next to the model's features, so that its next job, and this one if its child dies, makes the
same choice: results differ in the last bits between thread counts.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from math import isqrt
from pathlib import Path
from time import perf_counter

import numpy as np
from msgspec import Struct
from msgspec.structs import asdict, replace

from service.training.data.batches import Batch
from service.training.data.datasets import Datasets
from service.training.engine import Engine
from service.training.engines import opening
from service.training.engines.manifest import Files, Manifest, read_manifest
from service.training.engines.runtime import onnxruntime
from service.training.protocol.messages.training import Train
from storage.database.codec import dump

WAKING_NS = 50_000
"""Overhead per step of one more thread: it is woken twice, and its results are added up."""
MULTIPLICATIONS_PER_NS, ELEMENTS_PER_NS = 40.0, 2.0
OPTIMIZER_NS = 2.0
"""The optimizer's time per parameter."""
FILE = "threads.json"
ROUNDS = 4
"""Choices are measured in alternating rounds, so that a busy moment affects all of them."""
WARM_STEPS = 12
"""Spinning threads need this many steps to reach full speed (measured)."""
STEPS = 15
MAX_WARM_S, MAX_S = 0.03, 0.1
"""Maximum warm-up and measurement of a choice in a round, apart from the minimum of steps."""
MIN_WARM_STEPS = 2
BUDGET_S = 1.0
"""No round starts later; a model that takes long to open is measured once."""
MARGIN = 1.1
"""More threads must be this many times faster: the machine is noisy and shared. Spinning need not:
an MLP's step on two threads took 3.9 to 4.0 ms of processor time with it, and 4.0 to 4.1 without,
because waking costs time, too (measured)."""


class ThreadChoice(Struct, frozen=True, order=True):
    """spinning: whether idle threads busy-wait; this does not change results."""

    threads: int = 1
    spinning: bool = False


OpenEngine = Callable[[ThreadChoice], Engine]


def select_threads(
    task: Train, datasets: Datasets, open_engine: OpenEngine, *, tick: Callable[[], None]
) -> ThreadChoice:
    """The stored choice within the task's limit, or a new one. tick runs between steps.

    For the session engine it is calculated from operation counts, without measuring.
    """
    most = task.limits.threads
    if opening.is_of_sessions(task.artifacts):
        manifest = read_manifest(Files.of(task.artifacts).manifest)
        rows = task.hyperparameters.batch_size
        return ThreadChoice(worthwhile_threads(manifest, rows=rows, most=most))
    if most == 1 or task.cache is None:
        return ThreadChoice(most)
    path, key = Path(task.cache) / FILE, _key(task)
    known = _read(path)
    if key in known:
        return known[key]
    some = np.arange(min(task.hyperparameters.batch_size, len(datasets.train)))
    batch = (datasets.train.inputs(some), datasets.train.labels[some])
    chosen = choose(_measure(choices(most), open_engine, batch, tick))
    _write(path, {**known, key: chosen})
    return chosen


def worthwhile_threads(manifest: Manifest, *, rows: int, most: int) -> int:
    """How many of `most` threads shorten a step on this many rows.

    n threads take work / n + n · waking, which is least at n = sqrt(work / waking).
    """
    work = manifest.work
    of_row = work.multiplications / MULTIPLICATIONS_PER_NS + work.elements / ELEMENTS_PER_NS
    parameters = sum(parameter.size for parameter in manifest.parameters)
    shared_ns = rows * of_row + parameters * OPTIMIZER_NS
    return max(1, min(most, isqrt(int(shared_ns / WAKING_NS))))


def choices(most: int) -> list[ThreadChoice]:
    """One thread, powers of two, and the limit; cheapest first."""
    counts = sorted({1, most, *(1 << n for n in range(1, most.bit_length()) if 1 << n < most)})
    return [ThreadChoice(count) for count in counts] + [ThreadChoice(most, spinning=True)]


def choose(rounds: Sequence[Mapping[ThreadChoice, float]]) -> ThreadChoice:
    """From cheap to expensive, each choice replaces the best so far if the gain is worth it.

    rounds: seconds per step, measured in turn. Choices are compared within a round, since a busy
    moment of the machine affects all of it.
    """
    best: ThreadChoice | None = None
    for candidate in sorted(rounds[0], key=lambda choice: (choice.spinning, choice.threads)):
        if best is None or np.median([one[best] / one[candidate] for one in rounds]) > _margin(
            best, candidate
        ):
            best = candidate
    assert best is not None
    return best


def _margin(best: ThreadChoice, other: ThreadChoice) -> float:
    return 1.0 if other == replace(best, spinning=True) else MARGIN


def _measure(
    among: Sequence[ThreadChoice], open_engine: OpenEngine, batch: Batch, tick: Callable[[], None]
) -> list[dict[ThreadChoice, float]]:
    """The median step of each, round by round; one engine is open at a time, for its memory."""
    rounds: list[dict[ThreadChoice, float]] = []
    began = perf_counter()
    while len(rounds) < ROUNDS and (not rounds or perf_counter() - began < BUDGET_S):
        rounds.append({choice: _step_seconds(open_engine(choice), batch, tick) for choice in among})
    return rounds


def _step_seconds(engine: Engine, batch: Batch, tick: Callable[[], None]) -> float:
    """The median time of a step on the batch, at a learning rate of 0.

    Not the minimum: sleeping threads are sometimes in time, and spinning threads always.
    """
    times: list[float] = []

    def step() -> None:
        began = perf_counter()
        engine.train_batch(*batch)
        engine.step(0.0)
        times.append(perf_counter() - began)
        tick()

    while len(times) < MIN_WARM_STEPS or (len(times) < WARM_STEPS and sum(times) < MAX_WARM_S):
        step()
    times.clear()
    while not times or (len(times) < STEPS and sum(times) < MAX_S):
        step()
    return float(np.median(times))


def _key(task: Train) -> str:
    """The key of a stored choice: all it depends on. Artifacts are named by their content."""
    model = Path(task.artifacts.training_model).name
    batch_size = task.hyperparameters.batch_size
    return f"{model} {batch_size} {task.limits.threads} {onnxruntime.__version__}"


def _read(path: Path) -> dict[str, ThreadChoice]:
    """The stored choices; empty if the file cannot be read, since they can be measured again."""
    try:
        return {
            key: ThreadChoice(**choice)
            for key, choice in dict(json.loads(path.read_text("utf-8"))).items()
        }
    except (OSError, ValueError, TypeError):
        return {}


def _write(path: Path, known: Mapping[str, ThreadChoice]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".new")
    draft.write_text(dump({key: asdict(choice) for key, choice in known.items()}), "utf-8")
    draft.replace(path)
