"""What a version of nearest neighbours holds, and what it leaves out."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from service.training.data.batches import Dataset
from service.training.heads import neighbours
from service.training.heads.neighbours import Neighbours, evenly
from storage.records.signatures import Signature


def test_samples_are_kept_evenly_by_class_and_over_the_whole_length() -> None:
    labels = np.array([0] * 90 + [1] * 6 + [2] * 4)
    kept = evenly(np.arange(100), labels, 30)
    assert np.bincount(labels[kept]).tolist() == [20, 6, 4]
    assert (kept[0], kept[19]) == (0, 89)
    assert evenly(np.arange(100), labels, 100).tolist() == list(range(100))


def test_what_does_not_fit_is_left_out_and_told(
    make_dataset: Callable[..., Dataset],
    samples: Callable[..., tuple[Any, Any]],
    classification: Signature,
    monkeypatch: Any,
) -> None:
    monkeypatch.setattr(neighbours, "MOST_ROWS", 50)
    x, labels = samples(120, target=classification.target)
    dataset = make_dataset((x,), labels, classification)
    weights = np.ones(120)
    weights[:10] = 0
    read = SimpleNamespace(of=lambda dataset, chosen: dataset.inputs(chosen)[0].copy())

    found = Neighbours.of(read, dataset, weights, classes=3, k=4)  # type: ignore[arg-type]

    assert len(found.rows) <= 50
    assert found.warnings(110) == (
        f"the version holds {len(found.rows)} of 110 samples (0.0 MiB), evenly by class",
    )
    assert found.votes.sum() == len(found.rows)
    assert not (found.rows[:, None] + found.middle == x[None, :10]).all(axis=2).any()
