"""What training minimizes. service/training/graph/losses.py writes it as a graph."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Loss:
    """What is minimized.

    name: of LOSSES, or `output` for a tensor of the model that is a loss itself.
    class_axis: of the logits; targets have all other axes. label_smoothing, class_weights,
    ignore_index: of cross entropy, as in PyTorch. delta: of huber, in target units.
    """

    name: str
    class_axis: int = 1
    label_smoothing: float = 0.0
    class_weights: tuple[float, ...] | None = None
    ignore_index: int | None = None
    delta: float = 1.0

    def weight(self, target: NDArray[np.generic]) -> float:
        """What the batch's losses are divided by, in samples: 1/weight is the scale to feed.

        It is the number of samples, unless classes are weighted or ignored.
        """
        if self.class_weights is None and self.ignore_index is None:
            return float(len(target))
        counts = target != self.ignore_index
        weights = (
            np.ones(target.shape)
            if self.class_weights is None
            else np.take(self.class_weights, np.where(counts, target, 0))
        )
        return float((weights * counts).sum() / target[0].size)
