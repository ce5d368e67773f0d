"""Augmentations of series and other numbers, after standardization.

Source: Um et al. (2017), Data Augmentation of Wearable Sensor Data.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, TypeAlias

import numpy as np

from service.preprocess.augmentation.draws import Draws
from service.preprocess.augmentation.family import Amount, Family
from service.preprocess.checks import WrongDescription
from storage.arrays import NDArray
from storage.records.signatures import TensorSpec

Array: TypeAlias = "NDArray[Any]"


class SeriesAugmentation(Family, frozen=True):
    """In this order: shift, scaling, jitter, masking. time_axis: of one sample."""

    kind: ClassVar[str] = "standardize"

    jitter: Annotated[float, Amount("standard deviation of noise that is added", 0, 10)] = 0
    scaling: Annotated[
        float, Amount("standard deviation, around 1, of a factor on each feature")
    ] = 0
    shift: Annotated[
        float, Amount("shift in time by up to this share of the length", 0, 0.5, True)
    ] = 0
    masking: Annotated[
        float, Amount("set a stretch of up to this share of the length to 0, the mean")
    ] = 0
    time_axis: Annotated[int, Amount("the axis of time in a sample's shape", 0, 7)] = 0

    def check_shape(self, spec: TensorSpec) -> None:
        """Raises WrongDescription if the input has no such axis, or no fixed length on it."""
        if self.time_axis >= max(1, len(spec.shape)):
            detail = (
                f"input {spec.name!r} has shape {list(spec.shape)}: time_axis is below its length"
            )
            raise WrongDescription("/augment/time_axis", detail)
        for name in ("shift", "masking"):
            if getattr(self, name) and (not spec.shape or spec.shape[self.time_axis] < 2):
                detail = (
                    f"input {spec.name!r} has shape {list(spec.shape)}, one value in time; leave"
                    f" {name} out, or name another time_axis"
                )
                raise WrongDescription(f"/augment/{name}", detail)

    def apply(self, rows: Array, ids: Sequence[int], draws: Draws, *, place: int) -> Array:
        """Other rows. rows: (n, *shape). ids: of their samples. place: of the input."""
        changed: Array = rows.copy()
        for position, sample_id in enumerate(ids):
            self._change(changed[position : position + 1], draws.of(sample_id, place))
        return changed

    def _change(self, row: Array, draw: np.random.Generator) -> None:
        """row: (1, *shape), changed in place."""
        along = np.moveaxis(row, self.time_axis + 1, 0) if row.ndim > 1 else row
        length = len(along)
        by, begin, share = draw.random(3).tolist()
        if self.shift and (steps := round((2 * by - 1) * self.shift * length)):
            along[:] = shifted(along, steps)
        if self.scaling:
            along *= 1 + self.scaling * draw.standard_normal(along.shape[1:], np.float32)
        if self.jitter:
            along += self.jitter * draw.standard_normal(along.shape, np.float32)
        if self.masking:
            along[stretch(begin, share * self.masking, length)] = 0


def shifted(along: Array, steps: int) -> Array:
    """Shift later by this many steps of the first axis; the ends repeat."""
    moved: Array = along[(np.arange(len(along)) - steps).clip(0, len(along) - 1)]
    return moved


def stretch(begin: float, share: float, length: int) -> slice:
    """A share of the length, beginning anywhere. begin: from 0 to 1."""
    count = round(share * length)
    start = int(begin * (length - count + 1))
    return slice(start, start + count)
