"""Predicted masks and boxes, in the pixels of their photos."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from typing import Any

import numpy as np

from service.errors import InvalidInput
from service.prediction.frames import Array
from service.preprocess import for_model
from service.preprocess.masks.labels import Pixels
from service.preprocess.masks.run_lengths import encode
from service.training.tasks.boxes import FoundBoxes
from service.training.tasks.task import LABEL
from storage.records.models import Model

MASKS = "masks"
DIGITS = 5
"""Of a probability."""


def with_masks(
    model: Model, fields: dict[str, Array], sizes: Sequence[tuple[int, int]], *, pointer: str
) -> dict[str, Array]:
    """The fields of an answer with `masks`, each (height, width), in place of the label.

    sizes: of the photos; without any, masks are of the model's. pointer: to what asks for masks.
    Raises InvalidInput if the model makes none.
    """
    masks = for_model(model).masks(model.signature.target)
    if masks is None or LABEL not in fields:
        detail = f"{model.name!r} gives no class for each pixel of a photo, or `top` is asked for"
        raise InvalidInput.at(pointer, detail, title="the answer has no mask")
    restored = np.empty(len(fields[LABEL]), object)
    pairs = zip(fields[LABEL], sizes or repeat(masks.size), strict=False)  # `repeat` has no end
    for place, (label, size) in enumerate(pairs):
        restored[place] = masks.restored(label.astype(np.uint8), (size[0], size[1]))
    return {MASKS: restored, **{name: field for name, field in fields.items() if name != LABEL}}


def as_runs(masks: Array, names: Sequence[str] | None) -> Array:
    """A list for each mask: COCO's run lengths of each value that occurs, with its class."""
    runs = np.empty(len(masks), object)
    for place, mask in enumerate(masks):
        runs[place] = [_runs(mask, value, names) for value in np.unique(mask).tolist()]
    return runs


def _runs(mask: Pixels, value: int, names: Sequence[str] | None) -> dict[str, Any]:
    is_class = names is not None and value < len(names)
    return {"label": names[value] if names and is_class else value, **encode(mask == value)}


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
