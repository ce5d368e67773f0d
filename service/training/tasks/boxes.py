"""Boxes as maps of a grid, and maps as boxes.

A map has a value for each cell of the grid. Those of a photo are a logit of each class, and four of
the box whose middle is near: how far its middle is right of and below the cell's, in cells, and the
logarithms of its width and height in cells. Sources: Zhou et al. (2019), Objects as Points; Liu et
al. (2020), Training-Time-Friendly Network for Real-Time Object Detection, 3.

Boxes are as service/preprocess/boxes/boxes.py has them.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import log
from typing import Any, TypeAlias

import numpy as np
from msgspec import Struct

from service.training.engine import Array
from storage.arrays import NDArray

Floats: TypeAlias = "NDArray[np.float64]"

MOST_BOXES = 1000
"""Of a label."""
SIDES = 4
"""Maps that are of no class."""
SPREAD = 0.54 / 6
"""Standard deviation of the Gaussian around a middle, as a share of the box's sides: Liu et al."""
FAINT = 0.01
"""Values of the Gaussian below it are 0."""
SMALLEST = 1e-3
"""Of a box's sides, in cells."""
LARGEST = 10.0
"""Of the logarithm of a box's sides in cells."""
LEAST_LOGIT = log(0.05 / 0.95)
"""Of a box that is told, of a probability of 0.05: Tian et al. (2019), FCOS, 4."""
MOST_CANDIDATES, MOST_FOUND = 1000, 100
"""Boxes before and after suppression."""
OVERLAP = 0.5
"""Intersection over union with a likelier box of its class above which a box is suppressed."""


class FoundBoxes(Struct, frozen=True):
    """Boxes on one photo, likeliest first. boxes: (n, 4), x, y, width and height as shares of the
    tensor's sides, within it. classes, probabilities: (n,).
    """

    boxes: Floats
    classes: NDArray[np.int64]
    probabilities: Floats


def padded(photos: Sequence[Array] | Array, most: int) -> NDArray[np.float32]:
    """(batch, most, 5): the boxes of each photo, then zeros of the class -1."""
    rows = np.zeros((len(photos), most, SIDES + 1), np.float32)
    rows[:, :, SIDES] = -1
    for row, boxes in zip(rows, photos, strict=True):
        row[: len(boxes)] = boxes
    return rows


def assigned(boxes: Array, shape: Sequence[int]) -> NDArray[np.float32]:
    """The maps that photos should have, (batch, *shape). Those of classes are 1 in the cell of a
    middle, and fall to 0 around it; where several boxes are near, the map has the largest value,
    and the sides are those of the nearest, the smaller one if they are equally near.

    boxes: (batch, n, 5), with a class below 0 for none. shape: (classes + 4, height, width).
    """
    maps = np.zeros((len(boxes), *shape), np.float32)
    for own, photo in zip(maps, boxes.astype(np.float64), strict=True):
        _assign(own, photo[photo[:, 4] >= 0])
    return maps


def _assign(maps: NDArray[np.float32], boxes: Floats) -> None:
    heat, sides = maps[:-SIDES], maps[-SIDES:]
    height, width = maps.shape[1:]
    columns, rows = np.arange(width), np.arange(height)[:, None]
    nearest = np.full((height, width), FAINT)
    spans = np.maximum(boxes[:, 2:4] * (width, height), SMALLEST)
    middles = (boxes[:, :2] + boxes[:, 2:4] / 2) * (width, height)
    for at in np.argsort(-spans.prod(axis=1), kind="stable").tolist():
        (x, y), (wide, high) = middles[at].tolist(), spans[at].tolist()
        column, row = min(int(x), width - 1), min(int(y), height - 1)
        across = ((columns - column) / (SPREAD * wide)) ** 2
        near = np.exp(-(across + ((rows - row) / (SPREAD * high)) ** 2) / 2)
        own = heat[int(boxes[at, 4])]
        np.maximum(own, near, out=own, where=near >= FAINT, casting="same_kind")
        mine = near >= nearest
        np.copyto(nearest, near, where=mine)
        told = (x - 0.5 - columns, y - 0.5 - rows, np.log(wide), np.log(high))
        for part, value in zip(sides, told, strict=True):
            np.copyto(part, value, where=mine, casting="same_kind")


def found(output: NDArray[Any]) -> FoundBoxes:
    """The boxes that the maps of one photo say. output: (classes + 4, height, width)."""
    kinds, rows, columns = np.nonzero(output[:-SIDES] >= LEAST_LOGIT)
    logits = output[kinds, rows, columns].astype(np.float64)
    likely = np.argsort(-logits, kind="stable")[:MOST_CANDIDATES]
    kinds, rows, columns = kinds[likely], rows[likely], columns[likely]
    right, down, *logs = output[-SIDES:, rows, columns].astype(np.float64)
    spans = np.exp(np.clip(logs, -LARGEST, LARGEST))
    middles = np.stack([columns + 0.5 + right, rows + 0.5 + down])
    grid = np.array(output.shape[:0:-1])[:, None]
    begin, end = ((middles + at * spans).clip(0, grid) / grid for at in (-0.5, 0.5))
    boxes = np.concatenate([begin, end - begin]).T
    kept = suppressed(boxes, kinds)
    return FoundBoxes(boxes[kept], kinds[kept], 1 / (1 + np.exp(-logits[likely][kept])))


def suppressed(boxes: Floats, classes: NDArray[np.int64]) -> NDArray[np.int64]:
    """The positions of the first boxes that stay beside likelier ones of their class. boxes:
    likeliest first; those without area, or that are not finite, go.
    """
    kept: list[int] = []
    left = np.flatnonzero(boxes[:, 2:].prod(axis=1) > 0)
    while len(left) and len(kept) < MOST_FOUND:
        at, left = int(left[0]), left[1:]
        kept.append(at)
        shared = overlaps(boxes[at : at + 1], boxes[left])[0]
        left = left[(shared <= OVERLAP) | (classes[left] != classes[at])]
    return np.array(kept, np.int64)


def overlaps(some: Floats, others: Floats) -> Floats:
    """(n, m): intersection over union. some: (n, 4). others: (m, 4)."""
    ends, far = some[:, :2] + some[:, 2:], others[:, :2] + others[:, 2:]
    sides = np.minimum(ends[:, None], far) - np.maximum(some[:, None, :2], others[:, :2])
    shared: Floats = sides.clip(0).prod(axis=2)
    union = some[:, 2:].prod(axis=1)[:, None] + others[:, 2:].prod(axis=1) - shared
    shares: Floats = np.divide(shared, union, out=np.zeros_like(shared), where=union > 0)
    return shares
