"""Class means, the scale of their distances, and the rows that they become."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from service.training.engines.manifest import ClassHead
from service.training.heads.prototypes import Prototypes, likeliest_scale

HEAD = ClassHead("w", 1, "b", "x", -1, classes=(0, 1, 2))


def drawn(count: int = 40, width: int = 5) -> tuple[Any, Any, Any]:
    """Rows far from 0 with labels of three classes, and their weights."""
    rng = np.random.default_rng(0)
    labels = np.arange(count) % 3
    rows = rng.standard_normal((count, width)) + 100 + 2 * np.eye(3, width)[labels]
    return rows.astype(np.float32), labels, rng.uniform(0.5, 2, count)


def means_of(rows: Any, labels: Any, weights: Any) -> Any:
    return np.stack(
        [
            np.average(rows[labels == number], axis=0, weights=weights[labels == number])
            for number in range(3)
        ]
    )


def prototypes(rows: Any, labels: Any, weights: Any) -> Prototypes:
    return Prototypes(
        means_of(rows.astype(np.float64), labels, weights), np.bincount(labels, weights)
    )


def test_each_row_is_left_out_of_its_class_as_if_the_mean_were_taken_anew() -> None:
    rows, labels, weights = drawn()
    found = prototypes(rows, labels, weights).without_own(rows, labels, weights)
    for place in range(len(rows)):
        rest = np.arange(len(rows)) != place
        means = means_of(rows[rest].astype(np.float64), labels[rest], weights[rest])
        expected = ((rows[place] - means) ** 2).sum(axis=1)
        assert found[place] == pytest.approx(expected, rel=1e-3)


def test_a_row_that_is_its_class_has_no_distance_to_the_others_of_it() -> None:
    rows, labels, weights = drawn(4)
    rows, labels, weights = rows[:3], labels[:3], weights[:3]
    found = prototypes(rows, labels, weights).without_own(rows, labels, weights)
    assert np.isinf(np.diag(found)).all()
    assert np.isfinite(found[~np.eye(3, dtype=bool)]).all()


def test_the_scale_is_the_one_that_makes_the_samples_likeliest() -> None:
    rng = np.random.default_rng(1)
    distances, own = rng.uniform(0, 50, (200, 3)), rng.integers(0, 3, 200)
    distances[np.arange(200), own] *= 0.7
    weights = rng.uniform(0, 2, 200)

    def loss(scale: float) -> float:
        logits = -scale * distances
        chosen = logits[np.arange(200), own]
        return float(weights @ (np.log(np.exp(logits).sum(axis=1)) - chosen))

    found = likeliest_scale(distances, own, weights)
    assert loss(found) <= min(loss(each) for each in np.geomspace(1e-5, 1, 400)) + 1e-6


def test_rows_of_a_layer_give_the_differences_of_the_distances() -> None:
    rows, labels, weights = drawn()
    made = prototypes(rows, labels, weights)
    tensors = {"w": np.ones((5, 3), np.float32), "b": np.ones(3, np.float32)}
    made.write(tensors, HEAD, 0.25)
    logits = rows @ tensors["w"] + tensors["b"]
    expected = -0.25 * made.distances(rows)
    assert np.allclose(np.diff(logits), np.diff(expected), atol=1e-2)
    assert np.allclose(logits.sum(axis=1), 0, atol=1e-2)
