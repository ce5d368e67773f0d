"""A validation pass: loss and metrics over a dataset, in batches."""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from service.training.data.batches import BATCH_SIZE, Batches, Indices
from service.training.engine import Engine
from service.training.errors import LossNotFinite
from service.training.tasks.task import PassMetrics

TOO_LARGE = "the parameters have grown too large; try a lower learning_rate"
AT_THE_START = (
    "the model that training starts from already gives it; bring inputs and labels to values of"
    " about 1 (preprocess of kind standardize does so), or start from other weights"
)
RECEIVED = "the received parameters give it; send some that were trained, most likely smaller ones"


def outputs_of(
    engine: Engine, samples: Batches, chosen: Indices, *, tick: Callable[[], None]
) -> NDArray[Any]:
    """(chosen, …): what the current parameters make of them. tick runs after each batch."""
    outputs = []
    for inputs, target in samples.batches(chosen, batch_size=BATCH_SIZE):
        outputs.append(engine.evaluate(inputs, target)[1].copy())
        tick()
    return np.concatenate(outputs)


def validate(
    engine: Engine,
    dataset: Batches,
    *,
    make_metrics: Callable[[], PassMetrics],
    batch_size: int,
    tick: Callable[[], None],
    advice: str = TOO_LARGE,
) -> dict[str, Any]:
    """`samples`, `loss` and the metrics; empty without samples.

    tick runs after each batch, and may raise to end the pass. advice: why a loss may not be
    finite, and what to do. Raises LossNotFinite.
    """
    if len(dataset) == 0:
        return {}
    metrics, loss_sum, counted = make_metrics(), 0.0, 0.0
    rows = min(batch_size, dataset.most_rows)
    for inputs, target in dataset.batches(np.arange(len(dataset)), batch_size=rows):
        loss, output = engine.evaluate(inputs, target)
        if not isfinite(loss):
            raise LossNotFinite(f"the validation loss is {loss}: {advice}")
        weight = float(metrics.weights(target).sum())
        loss_sum, counted = loss_sum + loss * weight, counted + weight
        metrics.update(output, target)
        tick()
    return {
        "samples": dataset.sample_count(),
        "loss": loss_sum / (counted or 1.0),
        **metrics.result(),
    }
