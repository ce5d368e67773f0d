"""The targets of distillation: what the starting version predicts for the training samples.

Source: Li, Hoiem (2016), Learning without Forgetting, ECCV: answers to the new samples stand for
samples of before, which are not there.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from service.training.beginning import open_engine
from service.training.data.datasets import Datasets
from service.training.engine import Array, Engine
from service.training.engines import checkpoint, manifest
from service.training.loss import TEMPERATURE
from service.training.protocol.messages.training import Start, Train
from service.training.thread_selection import ThreadChoice

BATCH_SIZE = 64


def teach(task: Train, datasets: Datasets, *, tick: Callable[[], None]) -> None:
    """Let the training samples have what the job's teacher answers, if it asks for a distillation.

    A resumed job computes the same again: its start names the teacher. task: with the start that it
    was given. It is the samples as they are that the teacher is asked. tick runs between batches.
    """
    weight = task.hyperparameters.distillation
    if not weight:
        return
    start = task.start
    if start.how == "resume":
        start = Start() if start.teacher is None else Start("parameters", start.teacher)
    datasets.fill(tick)
    samples = datasets.train
    engine = open_engine(replace(task, start=start), ThreadChoice())
    known = _known(task, engine)
    parts = []
    everything = np.arange(len(samples))
    for inputs, labels in samples.batches(everything, batch_size=BATCH_SIZE):
        parts.append(softened(engine.evaluate(inputs, labels)[1], known, weight))
        tick()
    samples.teacher = np.concatenate(parts)
    del engine
    gc.collect()  # Engines are in cycles.


def softened(logits: Array, known: Array, weight: float) -> Array:
    """Softmax of the known classes at the temperature, times the weight; 0 for the others.

    So a class that is new cannot take all of what the others had: each of its samples stays a
    little of these. logits: (batch, classes, …). known: (classes,).
    """
    scaled = logits[:, known].astype(np.float64) / TEMPERATURE
    shares = np.exp(scaled - scaled.max(axis=1, keepdims=True))
    found = np.zeros(logits.shape, np.float32)
    found[:, known] = weight * shares / shares.sum(axis=1, keepdims=True)
    return found


def _known(task: Train, engine: Engine) -> Array:
    """Which classes the teacher has learned, by index; all if it says of none that it has not."""
    assert task.artifacts.manifest is not None  # the engine of sessions alone distills
    made = manifest.read(Path(task.artifacts.manifest))
    known = np.ones(made.classes or 0, bool)
    if made.head is not None:
        path = Path(task.work_dir) / "teacher.checkpoint"
        engine.save(path)
        fresh = checkpoint.read_head(path).fresh
        known[[index for index, each in enumerate(made.head.classes) if each in fresh]] = False
    return known
