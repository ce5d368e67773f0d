"""Boxes as labels: moved as their photos are, and padded batch by batch."""

from __future__ import annotations

import numpy as np

from service.preprocess.augmentation.draws import Draws
from service.preprocess.boxes.boxes import Boxes
from service.training.data.batches import Indices
from service.training.engine import Array
from service.training.tasks.boxes import padded
from storage.readonly.sample_index import SampleIndex


class BoxLabels:
    """The boxes of an index, which indexing gives as other labels are: (n, most, 5), see `padded`
    and service/preprocess/boxes/boxes.py.
    """

    dtype = np.dtype(object)  # the numbers are no quantities of their own

    def __init__(self, index: SampleIndex, boxes: Boxes) -> None:
        self._ids = index.ids
        self._boxes = boxes
        self._placed = [boxes.placed(label) if label else NO_BOXES for label in index.labels]

    def __len__(self) -> int:
        return len(self._placed)

    def __getitem__(self, chosen: Indices) -> Array:
        return self.augmented(chosen, None)

    def augmented(self, chosen: Indices, draws: Draws | None) -> Array:
        """The boxes at these positions, moved as their photos are by the same draws."""
        boxes = [
            self._boxes.seen(
                self._placed[at], None if draws is None else draws.of(int(self._ids[at]))
            )
            for at in chosen.tolist()
        ]
        return padded(boxes, max([1, *map(len, boxes)]))


NO_BOXES = np.empty((0, 5))
