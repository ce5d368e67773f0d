"""Weights of samples: factors on their losses in training."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from storage.records.models import Model

if TYPE_CHECKING:
    from numpy.typing import NDArray

LARGEST = (2 - 2**-23) * 2.0**127
"""Of float32."""
NO_WEIGHTS = "the model's loss is one number for a batch, so all samples weigh 1; leave it out"
MEANING = "a weight is a finite number, 0 or more"


class WeightReader:
    """Reads weights for one model; the caller uses 1 for missing ones."""

    def __init__(self, model: Model) -> None:
        self._are_taken = takes_weights(model)

    def parse(self, value: Any) -> tuple[float | None, str | None]:
        """A weight from JSON: (weight or None, None), or (None, what is wrong)."""
        if value is None:
            return None, None
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None, f"weight {str(value)[:100]!r} is no number; {MEANING}"
        complaint = self._complaint(value)
        return (None, complaint) if complaint else (float(value), None)

    def parse_text(self, text: str) -> tuple[float | None, str | None]:
        """A weight from a CSV cell; empty for none."""
        if not text:
            return None, None
        try:
            return self.parse(float(text))
        except ValueError:
            return self.parse(text)

    def array_complaint(self, dtype: np.dtype[Any], shape: tuple[int, ...]) -> str | None:
        """What is wrong with a whole array of weights; None if rows may be read."""
        if dtype.kind in "fiu" and len(shape) == 1:
            return None
        return "array 'weight' holds one number a sample"

    def read(self, rows: NDArray[Any]) -> tuple[list[float], dict[int, str]]:
        """Weights of rows that passed `array_complaint`, and what is wrong, by row."""
        weights = rows.astype(np.float64).tolist()
        complaints = {row: self._complaint(weight) for row, weight in enumerate(weights)}
        return weights, {row: text for row, text in complaints.items() if text}

    def _complaint(self, weight: float) -> str | None:
        if not 0 <= weight <= LARGEST:
            return f"weight {weight} is none; {MEANING}"
        if weight != 1 and not self._are_taken:
            return f"weight: {NO_WEIGHTS}"
        return None


def takes_weights(model: Model) -> bool:
    """Whether the model's loss is one number per sample; with Microsoft's artifacts it is not."""
    return model.engine == "sessions" and model.signature.loss_of_samples
