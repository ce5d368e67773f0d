"""Carries out the task `Rank`: how uncertain a version is about unlabelled samples or labels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from msgspec.structs import replace

from service.training.data.batches import BATCH_SIZE
from service.training.data.counting import only_counted
from service.training.data.samples import SampleReader
from service.training.errors import ExportMismatch
from service.training.evaluation.inference import InferenceModel, Unusable
from service.training.protocol.messages.comparison import Rank, Ranked
from service.training.protocol.pipe import Heartbeat, Pipe
from service.training.tasks import TASKS
from service.training.tasks.cross_entropy import cross_entropy
from storage.readonly.sample_index import SampleIndex, read_newest


def rank(task: Rank, pipe: Pipe) -> Ranked:
    """Raises ExportMismatch if the version cannot be run, Interrupted if the parent ends it."""
    what, tick = task.measurement, Heartbeat(pipe)
    of_labels = task.what == "labels"
    reader = SampleReader(what, threads=task.limits.threads, tick=tick, model=task.model)
    index = read_newest(
        Path(what.database),
        Path(what.packs),
        model_id=what.model_id,
        newest=task.newest,
        target=reader.target,
        labelled=of_labels,
    )
    if of_labels:
        index = _with_labels_to_doubt(task, index)
    samples = reader.open(index)
    doubts, predicted = np.zeros(len(samples)), np.zeros(len(samples), np.int64)
    try:
        model = InferenceModel(task.model, what, threads=task.limits.threads, classes=task.classes)
        done = 0
        everything = np.arange(len(samples))
        for inputs, labels in samples.batches(everything, batch_size=BATCH_SIZE):
            output = model.run(inputs)
            rows = slice(done, done + len(output))
            if of_labels:
                doubts[rows] = -np.expm1(-cross_entropy(output, labels))
                predicted[rows] = output.argmax(axis=1)
            else:
                doubts[rows] = TASKS[what.loss].doubt(output, labels)
            done += len(output)
            tick(len(output))
    except Unusable as error:
        raise ExportMismatch(f"the version is of no use: {error}") from error
    ranked = Ranked(ids=tuple(samples.ids.tolist()), doubts=tuple(doubts.tolist()))
    if not of_labels:
        return ranked
    return replace(
        ranked, labels=tuple(samples.labels.tolist()), predicted=tuple(predicted.tolist())
    )


def _with_labels_to_doubt(task: Rank, index: SampleIndex) -> SampleIndex:
    """The samples that count, of classes that the version knows, since it can rank no others."""
    what = task.measurement
    ids = what.signature.target.ids
    known = [at for at, class_id in enumerate(ids) if class_id in (task.classes or ids)]
    index = index.only(np.isin(index.labels, known))
    return only_counted(index, what.signature.target, ignore_index=what.ignore_index)
