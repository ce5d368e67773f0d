"""Predictions without a model, which a model of numbers has to beat to be of use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from service.preprocess import for_signature
from service.preprocess.windows import Windows
from service.training.data.batches import BATCH_SIZE, Batches, Indices, Preprocessed
from service.training.data.counting import counts
from service.training.data.samples import ALL_SAMPLES
from service.training.engine import Array
from service.training.protocol.messages.comparison import SimpleName
from service.training.protocol.messages.shared import Measurement
from service.training.tasks import TASKS
from service.training.tasks.task import Metric, PerSample
from storage.readonly.sample_index import read_sample_index
from storage.records.samples import Split

Predict = Callable[[Indices], Array]
"""Predicts the samples at these positions; the result broadcasts to their labels."""


def simple_scores(
    what: Measurement,
    dataset: Batches,
    chosen: Indices,
    *,
    metric: Metric,
    tick: Callable[[], None],
) -> Mapping[SimpleName, PerSample]:
    """The metric of each chosen sample, by what predicts them; empty for other losses.

    tick runs between batches.
    """
    if not TASKS[what.loss].scales_labels or not len(chosen):
        return {}
    predictors: dict[SimpleName, Predict | None] = {
        "mean_label": _mean_label(what),
        "last_value": _last_value(what, dataset),
    }
    scores: dict[SimpleName, PerSample] = {}
    for name, predict in predictors.items():
        if predict is None:
            continue
        truth, predicted = dataset.labels[chosen], []
        for start in range(0, len(chosen), BATCH_SIZE):
            batch = chosen[start : start + BATCH_SIZE]
            # A reader may use its buffer again.
            predicted.append(np.array(np.broadcast_to(predict(batch), truth[: len(batch)].shape)))
            tick()
        scores[name] = metric.of_samples(np.concatenate(predicted), truth)
    return scores


def _mean_label(what: Measurement) -> Predict | None:
    """None without training samples."""
    index = read_sample_index(
        Path(what.database),
        Path(what.packs),
        model_id=what.model_id,
        split=Split.TRAIN,
        watermark=ALL_SAMPLES,
        target=what.signature.target,
    )
    if not len(index.ids):
        return None
    known = counts(index.labels)
    total = index.labels.sum(axis=0, dtype=np.float64, where=known)
    mean: NDArray[Any] = total / np.maximum(known.sum(axis=0), 1)
    return lambda _: mean


def _last_value(what: Measurement, dataset: Batches) -> Predict | None:
    """The last row of a window, if its channels are what a label has: as a forecast says, or as the
    label's last axis.
    """
    inputs, label = what.signature.inputs, what.signature.target.shape
    kind = for_signature(what.signature, what.preprocess).kinds.get(inputs[0].name)
    if len(inputs) > 1 or not isinstance(kind, Windows) or not isinstance(dataset, Preprocessed):
        return None
    places = [*range(kind.channels)]
    if kind.forecast is not None:
        places = kind.forecast.places(what.features)
    elif kind.channels > 1 and label[-1:] != (kind.channels,):
        return None
    windows, stored, steps = kind.by_time, dataset.stored, prod(label) // len(places)

    def predict(batch: Indices) -> Array:
        last: NDArray[Any] = windows(stored.inputs(batch)[0])[:, -1:, places]
        return np.repeat(last, steps, axis=1).reshape(len(batch), *label)

    return predict
