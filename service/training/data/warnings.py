"""Warnings before a job trains: about samples that are valid, but teach the model little."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from service.preprocess.moments import LARGE, MAX_FEATURES, MIN_ROWS, Moments
from service.training.data.batches import Batches
from storage.records.signatures import Signature

MOST_SAMPLES = 2000
"""Maximum number of samples checked, evenly spread over all of them."""
BATCH_SIZE = 256
TOLD = 5


def training_warnings(
    samples: Batches,
    signature: Signature,
    *,
    scales_labels: bool = False,
    of_one_class: bool = False,
) -> tuple[str, ...]:
    """Warnings for people. samples: for training, as the exported model takes them.

    scales_labels: whether the job standardizes labels that need it. of_one_class: whether the loss
    trains on no other.
    """
    if len(samples) < MIN_ROWS:
        return ()
    classes = () if of_one_class else _of_classes(samples, signature)
    numbers = () if scales_labels else _of_numbers(samples)
    return (*samples.warnings, *classes, *numbers, *_of_inputs(samples, signature))


def _of_classes(samples: Batches, signature: Signature) -> Iterator[str]:
    target = signature.target
    is_class = target.num_classes is not None and not target.shape
    if is_class and samples.labels.min() == samples.labels.max():
        label = int(samples.labels[0])
        name = target.classes[label] if target.classes else label
        yield f"all {len(samples)} training samples are of class {name!r}"


def _of_numbers(samples: Batches) -> Iterator[str]:
    if samples.labels.dtype.kind == "f":
        largest = float(np.fmax.reduce(np.abs(samples.labels), axis=None, initial=0))
        if largest > LARGE:
            yield (
                f"labels are as large as {largest:g}; models train best on values of about 1: "
                "divide labels by a constant, and multiply predictions by it"
            )


def _of_inputs(samples: Batches, signature: Signature) -> Iterator[str]:
    moments = {
        place: Moments(int(np.prod(spec.shape)))
        for place, spec in enumerate(signature.inputs)
        if len(spec.shape) <= 1
        and np.dtype(spec.dtype).kind == "f"
        and int(np.prod(spec.shape)) <= MAX_FEATURES
    }
    if not moments:
        return
    count = min(len(samples), MOST_SAMPLES)
    chosen = np.linspace(0, len(samples) - 1, count).astype(np.int64)
    for inputs, _ in samples.batches(chosen, batch_size=BATCH_SIZE):
        for place, moment in moments.items():
            moment.add(inputs[place].reshape(len(inputs[place]), -1))
    for place, features in moments.items():
        yield from _of_features(signature.inputs[place].name, features)


def _of_features(name: str, moments: Moments) -> Iterator[str]:
    largest = float(max(moments.high.max(), -moments.low.min()))
    if largest > LARGE:
        yield (
            f"input {name!r} has values up to {largest:g} where the model takes it; models train "
            "best on values of about 1"
        )
    constant = np.flatnonzero(moments.low == moments.high)
    if len(constant):
        shown = ", ".join(map(str, constant[:TOLD].tolist()))
        more = f" and {len(constant) - TOLD} more" if len(constant) > TOLD else ""
        yield (
            f"input {name!r}, feature {shown}{more}: the same value in all {moments.count} samples "
            "that were looked at"
        )
