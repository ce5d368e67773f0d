"""What a job tells of its samples before it trains on them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from service.training.data.batches import Batches
from service.training.data.warnings import training_warnings
from storage.records.signatures import Signature, TargetSpec, TensorSpec

TARGET = TargetSpec("labels", "int64", (), 3, ("cat", "dog", "cow"))
SIGNATURE = Signature((TensorSpec("x", "float32", (4,)),), TARGET)
ROWS = np.random.default_rng(0).normal(size=(60, 4)).astype(np.float32)


class InMemory(Batches):
    def __init__(self, rows: NDArray[Any], labels: NDArray[Any]) -> None:
        super().__init__(np.arange(len(rows)), labels, row_bytes=16)
        self._rows = rows

    def inputs(self, chosen: NDArray[np.int64]) -> tuple[NDArray[Any], ...]:
        return (self._rows[chosen],)


def warnings(rows: NDArray[Any], labels: NDArray[Any] | None = None) -> tuple[str, ...]:
    given = np.arange(len(rows)) % 3 if labels is None else labels
    return training_warnings(InMemory(rows, given), SIGNATURE)


def test_ordinary_samples_are_no_reason_to_warn() -> None:
    assert warnings(ROWS) == ()


def test_values_far_from_one_are_told_with_the_largest() -> None:
    (warning,) = warnings(ROWS + np.array([0, 0, 5e4, 0]))
    assert "up to 5000" in warning


def test_a_feature_that_never_varies_is_named() -> None:
    flat = ROWS.copy()
    flat[:, 3] = 7
    (warning,) = warnings(flat)
    assert "feature 3" in warning
    assert "60 samples" in warning


def test_labels_of_one_class_are_told_with_its_name() -> None:
    (warning,) = warnings(ROWS, np.full(60, 1))
    assert warning == "all 60 training samples are of class 'dog'"


def test_numbers_to_learn_that_are_far_from_one_are_told_with_the_largest() -> None:
    assert warnings(ROWS, ROWS[:, :1]) == ()
    (warning,) = warnings(ROWS, np.linspace(-2e5, 1e5, 60, dtype=np.float32)[:, None])
    assert "labels are as large as 200000;" in warning
