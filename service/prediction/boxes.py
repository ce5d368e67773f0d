"""Predicted boxes, in the pixels of their photos."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from typing import Any

import numpy as np

from service.prediction.frames import Array
from service.preprocess import for_model
from service.training.tasks.boxes import FoundBoxes
from storage.records.models import Model

DIGITS = 5
"""Of a probability."""


def told_boxes(
    model: Model, photos: Sequence[FoundBoxes], sizes: Sequence[tuple[int, int]]
) -> Array:
    """(n,): of each photo a list of objects, likeliest first, whose labels are indices of classes.

    sizes: of the photos; without any, boxes are in pixels of the model's tensor.
    """
    form = for_model(model).boxes(model.signature.target)
    assert form is not None
    told = np.empty(len(photos), object)
    pairs = zip(photos, sizes or repeat(form.size), strict=False)  # `repeat` has no end
    for place, (objects, size) in enumerate(pairs):
        boxes = form.restored(objects.boxes, (size[0], size[1])).tolist()
        told[place] = _objects(boxes, objects)
    return told


def _objects(boxes: Sequence[list[float]], objects: FoundBoxes) -> list[dict[str, Any]]:
    labels, chances = objects.classes.tolist(), objects.probabilities.round(DIGITS).tolist()
    found = zip(boxes, labels, chances, strict=True)
    return [
        {"box": box, "label": label, "probability": chance}
        for box, label, chance in found
        if box[2] * box[3] > 0
    ]
