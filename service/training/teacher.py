"""The targets of distillation: the starting version's predictions for the training samples.

Source: Li, Hoiem (2016), Learning without Forgetting, ECCV: predictions on new samples replace the
old samples, which are no longer available.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path

import numpy as np
from msgspec.structs import replace

from service.training.data.counting import counts
from service.training.data.datasets import Datasets
from service.training.engine import Array, Engine
from service.training.engines import checkpoint
from service.training.engines.manifest import read_manifest
from service.training.loss import TEMPERATURE
from service.training.protocol.messages.training import Start, Train

BATCH_SIZE = 64


def teach(
    task: Train,
    datasets: Datasets,
    open_engine: Callable[[Train], Engine],
    *,
    tick: Callable[[], None],
) -> None:
    """Give the training samples the teacher's predictions, for a job that asks for distillation.

    A resumed job computes the same again, since its start names the teacher. task: with its
    original start. open_engine: opens an engine that may be discarded. The teacher sees unaugmented
    samples. tick runs between batches.
    """
    weight = task.hyperparameters.distillation
    start = task.start
    if start.how == "resume":
        start = Start() if start.teacher is None else Start("parameters", start.teacher)
    datasets.fill(tick)
    samples = datasets.train
    engine = open_engine(replace(task, start=start))
    known = _known(task, engine)
    parts = []
    everything = np.arange(len(samples))
    for inputs, labels in samples.batches(everything, batch_size=BATCH_SIZE):
        softened_logits = softened(engine.evaluate(inputs, labels)[1], known, weight)
        parts.append(softened_logits * np.expand_dims(counts(labels), 1))
        tick()
    samples.teacher = np.concatenate(parts)
    del engine
    gc.collect()  # Engines are in reference cycles.


def softened(logits: Array, known: Array, weight: float) -> Array:
    """Softmax of the known classes at the temperature, times the weight; 0 for the others.

    So a new class cannot take over completely: each of its samples keeps some probability of the
    known classes. logits: (batch, classes, …). known: (classes,).
    """
    scaled = logits[:, known].astype(np.float64) / TEMPERATURE
    shares = np.exp(scaled - scaled.max(axis=1, keepdims=True))
    found = np.zeros(logits.shape, np.float32)
    found[:, known] = weight * shares / shares.sum(axis=1, keepdims=True)
    return found


def _known(task: Train, engine: Engine) -> Array:
    """Which classes the teacher has learned, by index: all that it does not mark as new."""
    assert task.artifacts.manifest is not None  # only the session engine distills
    manifest = read_manifest(Path(task.artifacts.manifest))
    known = np.ones(manifest.classes or 0, bool)
    if manifest.head is not None:
        path = Path(task.work_dir) / "teacher.checkpoint"
        engine.save(path)
        fresh = checkpoint.read_head(path).fresh
        known[[index for index, each in enumerate(manifest.head.classes) if each in fresh]] = False
    return known
