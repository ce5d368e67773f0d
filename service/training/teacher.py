"""The targets of distillation: predictions of an earlier version for the training samples.

It is the version that the job starts from or, for an upgrade, the one of the old base.

Source: Li, Hoiem (2016), Learning without Forgetting, ECCV: predictions on new samples replace the
old samples, which are no longer available.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path

import numpy as np
from msgspec.structs import replace

from service.training.data.batches import BATCH_SIZE, Batches, Indices
from service.training.data.counting import counts
from service.training.data.datasets import Datasets
from service.training.data.samples import SampleReader
from service.training.engine import Array, Engine
from service.training.engines import checkpoint
from service.training.engines.manifest import manifest_of
from service.training.errors import ExportMismatch
from service.training.evaluation.inference import InferenceModel, Unusable
from service.training.loss import TEMPERATURE
from service.training.protocol.messages.training import Start, Teacher, Train
from storage.records.samples import Split


def teach(
    task: Train,
    datasets: Datasets,
    open_engine: Callable[[Train], Engine],
    *,
    tick: Callable[[], None],
) -> None:
    """Give the training samples the teacher's predictions, for a job that asks for distillation.

    A resumed job computes the same again, since its task names the teacher. task: with its
    original start. open_engine: opens an engine that may be discarded. The teacher sees unaugmented
    samples. tick runs between batches. Raises ExportMismatch if a version cannot be run.
    """
    datasets.fill(tick)
    if task.teacher is not None:
        datasets.train.teacher = _of_other_base(task, task.teacher, datasets, tick=tick)
        return
    datasets.train.teacher = _of_start(task, datasets.train, open_engine, tick=tick)
    gc.collect()  # Engines are in reference cycles.


def _of_start(
    task: Train,
    samples: Batches,
    open_engine: Callable[[Train], Engine],
    *,
    tick: Callable[[], None],
) -> Array:
    """(samples, classes, …), by the version that the job starts from."""
    start = task.start
    if start.how == "resume":
        start = Start() if start.teacher is None else Start("parameters", start.teacher)
    engine = open_engine(replace(task, start=start))

    def predict(inputs: tuple[Array, ...], labels: Array) -> Array:
        return engine.evaluate(inputs, labels)[1]

    weight = task.hyperparameters.distillation
    return _targets(samples, predict, _known(task, engine), weight, tick=tick)


def _of_other_base(
    task: Train, teacher: Teacher, datasets: Datasets, *, tick: Callable[[], None]
) -> Array:
    """(samples, classes, …), from samples as the teacher's own base takes them.

    Rows of one sample, such as windows of a long text, get their mean. Samples that the teacher
    cannot read get 0, so that their labels alone count.
    """
    what, threads = teacher.measurement, task.limits.threads
    ids = what.signature.target.ids
    reader = SampleReader(what, threads=threads, tick=tick, model=teacher.model)
    seen = reader.read(Split.TRAIN, watermark=task.watermark, base=len(datasets.base) > 0)
    known, weight = np.isin(ids, teacher.classes or ids), task.hyperparameters.distillation
    try:
        model = InferenceModel(teacher.model, what, threads=threads, classes=teacher.classes)
        rows = _targets(seen, lambda inputs, _: model.run(inputs), known, weight, tick=tick)
    except Unusable as error:
        detail = f"version {teacher.version}, which is to teach, is of no use: {error}"
        raise ExportMismatch(detail) from error
    return _of_ids(datasets.train.ids, rows, seen.ids)


def _targets(
    samples: Batches,
    predict: Callable[[tuple[Array, ...], Array], Array],
    known: Array,
    weight: float,
    *,
    tick: Callable[[], None],
) -> Array:
    """(samples, classes, …). predict: takes inputs and labels of a batch, and returns logits."""
    parts = [np.empty((0, len(known), *samples.labels.shape[1:]), np.float32)]
    for inputs, labels in samples.batches(np.arange(len(samples)), batch_size=BATCH_SIZE):
        part = softened(predict(inputs, labels), known, weight)
        parts.append(part * np.expand_dims(counts(labels), 1))
        tick()
    return np.concatenate(parts)


def _of_ids(wanted: Indices, rows: Array, ids: Indices) -> Array:
    """The mean of the rows of each wanted id, 0 for one without. ids: of the rows."""
    listed, which, often = np.unique(ids, return_inverse=True, return_counts=True)
    means = np.zeros((len(listed) + 1, *rows.shape[1:]), np.float32)
    often = often[which].reshape(-1, *[1] * (rows.ndim - 1))
    np.add.at(means, which, np.divide(rows, often))
    places = np.searchsorted(listed, wanted)
    places[~np.isin(wanted, listed)] = len(listed)
    shares: Array = means[places]
    return shares


def softened(logits: Array, known: Array, weight: float) -> Array:
    """Softmax of the known classes at the temperature, times the weight; 0 for the others.

    So a new class cannot take over completely: each of its samples keeps some probability of the
    known classes. logits: (batch, classes, …). known: (classes,).
    """
    scaled = logits[:, known].astype(np.float64) / TEMPERATURE
    shares = np.exp(scaled - scaled.max(axis=1, keepdims=True))
    soft = np.zeros(logits.shape, np.float32)
    soft[:, known] = weight * shares / shares.sum(axis=1, keepdims=True)
    return soft


def _known(task: Train, engine: Engine) -> Array:
    """Which classes the teacher has learned, by index: all that it does not mark as new."""
    manifest = manifest_of(task.artifacts)  # only the session engine distills
    known = np.ones(manifest.classes or 0, bool)
    if manifest.head is not None:
        path = Path(task.work_dir) / "teacher.checkpoint"
        engine.save(path)
        fresh = checkpoint.read_head(path).fresh
        known[[index for index, name in enumerate(manifest.head.classes) if name in fresh]] = False
    return known
