"""Mixes of two samples of a batch: mixup and cutmix, where a sample keeps its own label.

Zhang et al. (2018) and Yun et al. (2019) add up the losses of both labels by the samples' shares. A
pair comes in either order, so the mean is the same if each sample keeps only its own label and its
share is drawn from Beta(alpha + 1, alpha), or if in cutmix it is the background or the patch with
the probability of its share. Source: Huszár (2017), mixup: Data-Dependent Data Augmentation. So any
loss works with mixes, and a step costs no more.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import Any, TypeAlias

import numpy as np
from msgspec import Struct

from service.preprocess.augmentation.draws import MIX, Draws
from storage.arrays import NDArray

Array: TypeAlias = "NDArray[Any]"


class Mix(Struct, frozen=True):
    """mixup, cutmix: alpha of the Beta distribution that factors are drawn from; 0 is off.

    With both, each sample gets one. sides: the axes of height and width in one sample.
    """

    mixup: float
    cutmix: float = 0
    sides: tuple[int, int] = (0, 0)

    def apply(self, rows: Array, ids: Sequence[int], draws: Draws) -> Array:
        """Mix each row of a batch with the one before. rows: (n, *shape). ids: of their samples."""
        mixed = np.empty_like(rows)
        for place, sample_id in enumerate(ids):
            draw = draws.of(sample_id, MIX)
            row, other, into = rows[place], rows[place - 1], mixed[place]
            if self.cutmix and (not self.mixup or draw.random() < 0.5):
                self._cut(row, other, draw, into)
            else:
                factor = rows.dtype.type(draw.beta(self.mixup + 1, self.mixup))
                into[...] = factor * row + (1 - factor) * other
        return mixed

    def _cut(self, row: Array, other: Array, draw: np.random.Generator, into: Array) -> None:
        size = sqrt(1 - draw.beta(self.cutmix, self.cutmix))
        y, x, side = draw.random(3).tolist()
        box = [slice(None)] * row.ndim
        share = 1.0
        for axis, middle in zip(self.sides, (y, x), strict=True):
            length = row.shape[axis]
            first = round(middle * length - size * length / 2)
            box[axis] = slice(max(0, first), min(length, first + round(size * length)))
            share *= max(0, box[axis].stop - box[axis].start) / length
        ground, patch = (other, row) if side < share else (row, other)
        into[...] = ground
        into[tuple(box)] = patch[tuple(box)]
