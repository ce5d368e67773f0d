"""Figures of each class, label and number are scikit-learn's, from a pass and from single samples.

They were computed once by scikit-learn 1.9.1: precision_recall_fscore_support and jaccard_score
with average=None, mean_absolute_error, root_mean_squared_error and r2_score with
multioutput="raw_values".
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from service.training.tasks import TASKS
from service.training.tasks.task import figure_of

N, K = np.arange(40)[:, None], np.arange(3)
HAS = (N * 7 + K * 5) % 11 < [3, 5, 2]
GIVEN = (N * 5 + K * 3 + N * N) % 11 < [4, 4, 3]
UNITS = np.array([1.0, 10.0, 0.1])
NUMBERS = ((N * 7 + K * 5) % 13) * UNITS
GUESSES = ((N * 7 + K * 5 + N % 4) % 13) * UNITS
CLASSES = (N[:, 0] * 7) % 3
CHOSEN = (N[:, 0] * 5 + N[:, 0] ** 2 // 3) % 3
SCORES = np.eye(3)[CHOSEN]
SIGNS = np.where(GIVEN, 1.0, -1.0)


@pytest.mark.parametrize(
    ("loss", "output", "target", "name", "expected"),
    [
        ("multilabel", SIGNS, HAS, "precision", [0.2, 0.5, 0.35]),
        ("multilabel", SIGNS, HAS, "recall", [4 / 11, 0.21052631578947367, 1.0]),
        ("multilabel", SIGNS, HAS, "f1", [0.25806451612903225, 8 / 27, 14 / 27]),
        ("cross_entropy", SCORES, CLASSES, "precision", [7 / 11, 0.5, 0.5]),
        ("cross_entropy", SCORES, CLASSES, "recall", [1.0, 4 / 13, 5 / 13]),
        ("cross_entropy", SCORES, CLASSES, "iou", [7 / 11, 4 / 17, 5 / 18]),
        ("mse", GUESSES, NUMBERS, "mae", [2.525, 25.75, 0.2575]),
        (
            "l1",
            GUESSES,
            NUMBERS,
            "rmse",
            [4.1018288603987365, 41.803109932156964, 0.41803109932157],
        ),
        ("huber", GUESSES, NUMBERS, "r2", [-0.158148339356, -0.277937748526, -0.244658119658]),
    ],
)
def test_figures_of_each_are_those_of_scikit_learn(
    loss: str, output: Any, target: Any, name: str, expected: list[float]
) -> None:
    task = TASKS[loss]
    target = target.astype(np.int64 if loss == "cross_entropy" else np.float32)
    passed = task.pass_metrics(task.target_spec((3,), ("a", "b", "c")))
    passed.update(output.astype(np.float32), target)
    figures = [figure_of(passed.result(), name, place) for place in range(3)]
    assert figures == pytest.approx(expected, rel=1e-5)
    for place, figure in enumerate(expected):
        metric = task.metric(name, place=place)
        scores = metric.of_samples(output.astype(np.float32), target)
        assert metric.of_mean(scores) == pytest.approx(figure, rel=1e-5)
