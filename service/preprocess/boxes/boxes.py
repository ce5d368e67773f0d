"""Where the boxes of photos are in a model's tensor.

Boxes of a tensor are (n, 5) float32: x, y, width and height as shares of the tensor's sides, from
its upper left corner, and the class.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from msgspec import Struct

from service.preprocess.augmentation.images import ImageAugmentation
from service.preprocess.boxes.labels import read_boxes
from service.preprocess.image import Image, Resize
from service.preprocess.kind import FileKind
from storage.arrays import NDArray
from storage.records.signatures import TargetSpec

Numbers: TypeAlias = "NDArray[np.floating[Any]]"

DECIMALS = 2
"""Of a pixel, of predicted boxes."""
LEAST_SHARE = 0.25
"""Of a box's area: one of which less is left in the tensor is dropped."""


class Boxes(Struct, frozen=True):
    """The boxes of a model that finds them. size, resize, augment: of their photos."""

    size: tuple[int, int]
    resize: Resize
    augment: ImageAugmentation | None

    def placed(self, label: bytes) -> Numbers:
        """(n, 5): left, top, right and bottom of each box of a stored label, in pixels of the
        tensor that may be beyond it, and its class.
        """
        stored = read_boxes(label)
        boxes = np.array(stored.boxes, np.float64).reshape(-1, 5)
        scale, offset = self._fit(stored.size)
        begin, sides = boxes[:, :2] * scale + offset, boxes[:, 2:4] * scale
        corners: Numbers = np.concatenate([begin, begin + sides, boxes[:, 4:]], axis=1)
        return corners

    def seen(self, placed: Numbers, draw: np.random.Generator | None = None) -> Numbers:
        """Boxes of the tensor that a model is given, without those of which little is in it.

        placed: as above. draw: moves them as training moves their photo.
        """
        corners = placed[:, :4]
        if draw is not None and self.augment is not None:
            corners = self.augment.moved_boxes(corners, draw, self.size)
        sides = np.array(self.size[::-1], np.float64)
        begin, end = corners[:, :2].clip(0, sides), corners[:, 2:].clip(0, sides)
        left = (end - begin).prod(axis=1)
        kept = left > LEAST_SHARE * (corners[:, 2:] - corners[:, :2]).prod(axis=1)
        parts = [begin / sides, (end - begin) / sides, placed[:, 4:]]
        seen: Numbers = np.concatenate(parts, axis=1)[kept].astype(np.float32)
        return seen

    def restored(self, boxes: Numbers, size: tuple[int, int]) -> Numbers:
        """Boxes of the tensor in pixels of a photo of this size, cut off at its borders, to the
        hundredth; those that are beyond it have no area.

        boxes: (n, 4), x, y, width and height as shares. size: height and width.
        """
        scale, offset = self._fit(size)
        sides = np.array(self.size[::-1], np.float64)
        begin = (boxes[:, :2] * sides - offset) / scale
        end = begin + boxes[:, 2:] * sides / scale
        begin, end = (corner.clip(0, size[::-1]).round(DECIMALS) for corner in (begin, end))
        return np.concatenate([begin, (end - begin).round(DECIMALS)], axis=1)

    def _fit(self, size: tuple[int, int]) -> tuple[Numbers, Numbers]:
        """What multiplies and what shifts x and y from a photo to the tensor; see pictures.fit."""
        theirs, ours = (np.array(sides[::-1], np.float64) for sides in (size, self.size))
        scale = ours / theirs
        if self.resize == "stretch":
            return scale, np.zeros(2)
        if self.resize == "cover":
            scale[:] = scale.max()
            return scale, (ours - theirs * scale) / 2
        covered = np.maximum(1, np.rint(theirs * scale.min()))
        return covered / theirs, np.rint((ours - covered) / 2)


def boxes_of(kind: FileKind | None, target: TargetSpec) -> Boxes | None:
    """If labels are boxes on the images of this kind."""
    if target.box_classes is None or not isinstance(kind, Image):
        return None
    return Boxes(kind.size, kind.resize, kind.augment)
