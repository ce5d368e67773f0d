"""Standardizes the labels of a model of numbers: a job sets what scales its output to their units.

Networks start with outputs of about 1, and a step moves a weight by about the learning rate, so
that labels of 50 ± 10 would take thousands of steps to be reached.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from service.preprocess.moments import mean_and_std
from service.training.data.batches import Batches
from service.training.data.counting import counts
from service.training.engine import Array, Engine
from service.training.engines import checkpoint
from service.training.engines.manifest import manifest_of
from service.training.evaluation.validation import outputs_of
from service.training.loss import LABEL_MEAN, LABEL_SCALE
from service.training.protocol.messages.training import Train

SAMPLES = 256
"""Samples that the model is tried on, evenly spread."""
KNOWN = 0.1
"""Share of a label's variance that a model has to explain to keep its scale, and with it what it
has learned."""
FLAT = 1e-6
"""Share of the mean: labels that differ by less are all the same, but for rounding."""

Doubles = NDArray[np.float64]


class LabelScale(Struct, frozen=True):
    """What the output of the last layer is multiplied with, and what is added, of equal shapes."""

    scale: Doubles
    mean: Doubles


def start_with_label_scale(
    task: Train,
    samples: Batches,
    open_engine: Callable[[Train], Engine],
    *,
    tick: Callable[[], None],
) -> Train:
    """The task with a start that scales its output to the units of these labels.

    task: not resumed, of a model with a scale. samples: for training, as the engine takes them.
    open_engine: opens an engine that may be discarded. tick runs between batches. The same task
    gives the same start.
    """
    manifest = manifest_of(task.artifacts)
    engine = open_engine(task)
    before, path = (Path(task.work_dir) / f"{name}.checkpoint" for name in ("unscaled", "scaled"))
    engine.save(before)
    tensors = checkpoint.read(before, manifest.tensor_names)
    known = LabelScale(tensors[LABEL_SCALE].astype(float), tensors[LABEL_MEAN].astype(float))
    scale = fitted(known, engine, samples, tick=tick)
    tensors[LABEL_SCALE], tensors[LABEL_MEAN] = (
        np.asarray(values, np.float32) for values in (scale.scale, scale.mean)
    )
    checkpoint.save(path, checkpoint.CheckpointHead(manifest.engine), tensors)
    return replace(task, start=replace(task.start, how="parameters", checkpoint=str(path)))


def fitted(
    known: LabelScale, engine: Engine, samples: Batches, *, tick: Callable[[], None]
) -> LabelScale:
    """The scale for these samples; the known one where the model explains their labels.

    It brings what the last layer gives for the samples to mean and deviation of their labels, but
    does not enlarge it: fresh networks start near 0.
    """

    def columns(values: Array) -> Doubles:
        return values.reshape(-1, known.scale.size).astype(np.float64)

    labels = samples.labels if samples.weights is None else samples.labels[samples.weights > 0]
    if not len(labels):
        return known
    mean, deviation = known_mean_and_std(labels.reshape(-1, known.scale.size))
    deviation = np.where(deviation > FLAT * np.abs(mean), deviation, 1.0)
    some = np.unique(np.linspace(0, len(samples) - 1, SAMPLES).astype(np.int64))
    outputs = outputs_of(engine, samples, some, tick=tick)
    output, truth = columns(outputs), columns(samples.labels[some])
    with np.errstate(all="ignore"):  # an output that is not finite explains nothing
        error, spread = (
            np.square(truth - guess).sum(axis=0, where=counts(truth)) for guess in (output, mean)
        )
        explains = error <= (1 - KNOWN) * spread
        raw_mean, raw_deviation = mean_and_std((output - known.mean.ravel()) / known.scale.ravel())
    is_finite = np.isfinite(raw_mean) & np.isfinite(raw_deviation)
    scale = deviation / np.where(is_finite, np.maximum(raw_deviation, 1.0), 1.0)
    shift = mean - scale * np.where(is_finite, raw_mean, 0.0)
    shape = known.scale.shape
    return LabelScale(
        np.where(explains.reshape(shape), known.scale, scale.reshape(shape)),
        np.where(explains.reshape(shape), known.mean, shift.reshape(shape)),
    )


def known_mean_and_std(labels: Array) -> tuple[Doubles, Doubles]:
    """Mean and deviation of each column's numbers that are known; 0 and 1 without any."""
    mean, deviation = mean_and_std(labels)
    for at in np.flatnonzero(np.isnan(mean)).tolist():
        rows = labels[counts(labels[:, at]), at][:, None]
        mean[at], deviation[at] = np.ravel(mean_and_std(rows)) if len(rows) else (0.0, 1.0)
    return mean, deviation
