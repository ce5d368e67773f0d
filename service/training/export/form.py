"""A finished variant, and what all makers of variants need."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from service.training.data.samples import ALL_SAMPLES, SampleReader
from service.training.protocol.messages.comparison import Convert
from storage.records.samples import Split

CALIBRATION_SAMPLES = 256


class MadeForm(NamedTuple):
    """method: how it was made. path: its file. measured: the model to measure in its place."""

    method: str
    path: Path
    measured: Path


Maker = Callable[[Convert, Callable[[], None]], Iterator[MadeForm]]
"""Takes the task, and a function to call between pieces of work. Raises VariantRefused."""


def calibration_rows(task: Convert, tick: Callable[[], None]) -> Iterator[dict[str, Any]]:
    """Up to CALIBRATION_SAMPLES training samples, spread evenly, one row each, by input name."""
    what, threads = task.measurement, task.limits.threads
    reader = SampleReader(what, threads=threads, tick=tick, model=task.source)
    dataset = reader.read(Split.TRAIN, watermark=ALL_SAMPLES)
    count = min(len(dataset), CALIBRATION_SAMPLES)
    chosen = np.linspace(0, len(dataset) - 1, count).astype(np.int64)
    names = [spec.name for spec in what.signature.inputs]
    for inputs, _ in dataset.batches(chosen, batch_size=1):
        yield {name: array.copy() for name, array in zip(names, inputs, strict=True)}
