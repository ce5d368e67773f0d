"""Turns a model's outputs into answers: classes and probabilities, or values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from service.prediction.frames import Array, Tensors
from storage.records.models import Model


def interpret(
    model: Model, outputs: Tensors, *, classes: Sequence[str] | None
) -> list[dict[str, Any]]:
    """One answer per instance, as JSON values.

    outputs: as the model returns them. classes: names of those that its version knows. Cross
    entropy: `probabilities` by class (softmax over the class axis, which follows the batch axis),
    and the likeliest class as `label`, in the form that samples take, with its `probability`.
    Binary cross entropy: `probabilities` (sigmoid). Otherwise: `values`. Numbers that JSON lacks
    (NaN, infinities) are null.
    """
    main = outputs.get(model.output)
    if main is None:
        main = next(iter(outputs.values()))
    if model.loss == "cross_entropy":
        columns = _classes(classes, softmax(main))
    elif model.loss == "bce_with_logits":
        columns = {"probabilities": numbers(sigmoid(main))}
    else:
        columns = {"values": numbers(main)}
    raw = {name: numbers(array) for name, array in outputs.items()}
    return [
        {
            **{name: column[row] for name, column in columns.items()},
            "outputs": {name: column[row] for name, column in raw.items()},
        }
        for row in range(len(main))
    ]


def softmax(logits: Array) -> Array:
    """Along axis 1, in float64. logits: (batch, classes, …)."""
    wide = logits.astype(np.float64)
    with np.errstate(invalid="ignore"):
        powers = np.exp(wide - wide.max(axis=1, keepdims=True))
        return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def sigmoid(logits: Array) -> Array:
    """Elementwise, in float64, without overflow."""
    wide = logits.astype(np.float64)
    with np.errstate(invalid="ignore"):
        small = np.exp(-np.abs(wide))
        return np.asarray(np.where(wide >= 0, 1.0, small) / (1.0 + small))


def numbers(array: Array) -> list[Any]:
    """Nested lists; None where a number is not finite."""
    if array.dtype.kind != "f" or np.isfinite(array).all():
        return list(array.tolist())
    boxed = array.astype(object)
    boxed[~np.isfinite(array)] = None
    return list(boxed.tolist())


def _classes(names: Sequence[str] | None, probabilities: Array) -> dict[str, list[Any]]:
    index = probabilities.argmax(axis=1)
    columns = {"label": index.tolist(), "probabilities": numbers(probabilities)}
    if index.ndim > 1:
        return columns
    if names is not None:
        columns["label"] = [names[each] for each in columns["label"]]
    return {**columns, "probability": numbers(probabilities.max(axis=1))}
