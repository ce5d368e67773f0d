from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.training.evaluation.metrics import (
    MAX_CONFUSION_CLASSES,
    Classification,
    MultiLabel,
    Regression,
)
from service.training.tasks import TASKS
from service.training.tasks.task import PassMetrics
from storage.records.signatures import TargetSpec


def measure(metrics: PassMetrics, output: Any, target: Any, batch_size: int = 7) -> dict[str, Any]:
    for start in range(0, len(target), batch_size):
        metrics.update(output[start : start + batch_size], target[start : start + batch_size])
    result = metrics.result()
    json.dumps(result, allow_nan=False)
    return result


def test_classification_by_hand() -> None:
    # Truth 0 0 1 1 2, prediction 0 1 1 1 0; class 3 occurs in neither.
    output = np.eye(4, dtype=np.float32)[[0, 1, 1, 1, 0]]
    result = measure(Classification(4), output, np.array([0, 0, 1, 1, 2]), batch_size=2)
    assert result["accuracy"] == 3 / 5
    # F1 of class 0: 2·1/(2+2), of class 1: 2·2/(2+3), of class 2: 0.
    assert result["macro_f1"] == pytest.approx((1 / 2 + 4 / 5 + 0) / 3)
    assert result["confusion_matrix"] == [[1, 1, 0, 0], [0, 2, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0]]
    assert result["precision"] == [1 / 2, 2 / 3, None, None]
    assert result["recall"] == [1 / 2, 1, 0, None]
    assert result["iou"] == [1 / 3, 2 / 3, 0, None]
    assert result["mean_iou"] == pytest.approx((1 / 3 + 2 / 3 + 0) / 3)
    assert result["top_5_accuracy"] is None
    # Softmax of one 1 among zeros is e / (e + 3), right in three of five.
    assert result["calibration_error"] == pytest.approx(3 / 5 - np.e / (np.e + 3))


def test_the_truth_may_be_among_the_five_highest() -> None:
    scores = np.tile(np.arange(7, dtype=np.float32), (4, 1))
    result = measure(Classification(7), scores, np.array([6, 2, 1, 0]))
    assert (result["accuracy"], result["top_5_accuracy"]) == (1 / 4, 2 / 4)
    # Of a new head of zeros all scores are equal, and the first five count, as argmax takes one.
    even = measure(Classification(7), np.zeros_like(scores), np.array([6, 4, 5, 0]))
    assert (even["accuracy"], even["top_5_accuracy"]) == (1 / 4, 2 / 4)
    nothing = measure(Classification(7), np.full_like(scores, np.nan), np.array([6, 4, 5, 0]))
    assert nothing["top_5_accuracy"] == 0


def test_confidence_that_is_kept_is_calibrated() -> None:
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(20_000, 3)).astype(np.float32)
    share = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    target = (share.cumsum(1) < rng.random((20_000, 1))).sum(1).clip(0, 2)
    honest = measure(Classification(3), scores, target, batch_size=5_000)
    boasting = measure(Classification(3), scores * 9, target, batch_size=5_000)
    assert honest["calibration_error"] < 0.02
    assert boasting["calibration_error"] > 0.2


def test_classes_are_the_second_axis_where_every_pixel_has_a_label() -> None:
    target = np.arange(24).reshape(2, 3, 4) % 5
    output = np.moveaxis(np.eye(5, dtype=np.float32)[target], -1, 1)
    result = measure(Classification(5), output, target)
    assert (result["accuracy"], result["macro_f1"]) == (1.0, 1.0)


def test_a_matrix_of_very_many_classes_is_left_out() -> None:
    classes = MAX_CONFUSION_CLASSES + 1
    result = measure(Classification(classes), np.eye(classes), np.arange(classes))
    assert (result["accuracy"], result["macro_f1"], result["top_5_accuracy"]) == (1.0, 1.0, 1.0)
    assert {result[name] for name in ("precision", "recall", "confusion_matrix")} == {None}


def test_multi_label_by_hand() -> None:
    target = np.array([[1, 0, 0], [1, 1, 0], [0, 1, 0]], np.float32)
    logits = np.array([[2, -1, -1], [-1, 3, -1], [1, 1, 0]], np.float32)
    result = measure(MultiLabel(), logits, target, batch_size=2)
    assert result["accuracy"] == pytest.approx(7 / 9)
    # F1 of output 0: 2·1/(2+2), of output 1: 1; output 2 occurs in neither.
    assert result["macro_f1"] == pytest.approx((1 / 2 + 1) / 2)


def test_regression_by_hand() -> None:
    target = np.array([[1.0, 5.0], [2.0, 5.0], [6.0, 5.0]], np.float32)
    output = np.array([[1.0, 5.0], [4.0, 5.0], [5.0, 8.0]], np.float32)
    result = measure(Regression(), output, target, batch_size=2)
    assert result["mae"] == pytest.approx((0 + 0 + 2 + 0 + 1 + 3) / 6)
    # Output 0: residual 5, total 14; the truth of output 1 does not vary.
    assert result["r2"] == pytest.approx(1 - 5 / 14)


@pytest.mark.parametrize("samples", [1, 5])
def test_r2_of_a_truth_that_does_not_vary_is_undefined(samples: int) -> None:
    result = measure(Regression(), np.ones((samples, 1)), np.full((samples, 1), 0.5))
    assert (result["mae"], result["r2"]) == (0.5, None)


def test_without_samples_everything_is_undefined() -> None:
    assert MultiLabel().result() == {"accuracy": None, "macro_f1": None}
    assert set(Regression().result().values()) == {None}
    assert Classification(2).result()["accuracy"] is None


@given(seed=st.integers(0, 2**32), batch_size=st.integers(1, 60), offset=st.sampled_from([0, 1e6]))
def test_r2_does_not_depend_on_the_batches_even_far_from_zero(
    seed: int, batch_size: int, offset: float
) -> None:
    rng = np.random.default_rng(seed)
    stored = (rng.standard_normal((2, 50, 3)) + offset).astype(np.float32)
    target, output = stored.astype(np.float64)
    total = np.square(target - target.mean(axis=0)).sum(axis=0)
    expected = (1 - np.square(target - output).sum(axis=0) / total).mean()
    assert measure(Regression(), *stored[::-1], batch_size)["r2"] == pytest.approx(expected)


@given(seed=st.integers(0, 2**32), batch_size=st.integers(1, 60))
def test_macro_f1_does_not_depend_on_the_batches(seed: int, batch_size: int) -> None:
    rng = np.random.default_rng(seed)
    output, target = rng.standard_normal((50, 6)), rng.integers(0, 4, 50)
    guess = output.argmax(axis=1)
    scores = [
        2 * ((target == c) & (guess == c)).sum() / ((target == c).sum() + (guess == c).sum())
        for c in np.union1d(target, guess)
    ]
    result = measure(Classification(6), output, target, batch_size)
    assert result["macro_f1"] == pytest.approx(np.mean(scores))
    assert np.sum(result["confusion_matrix"]) == 50


@pytest.mark.parametrize(
    ("loss", "kind"),
    [
        ("cross_entropy", Classification),
        ("bce_with_logits", MultiLabel),
        ("mse", Regression),
        ("l1", Regression),
    ],
)
def test_the_loss_decides_the_metrics(loss: str, kind: type) -> None:
    assert isinstance(TASKS[loss].pass_metrics(TargetSpec("labels", "int64", (), 3)), kind)


def test_class_indices_without_a_number_of_classes_are_refused() -> None:
    with pytest.raises(ValueError, match="num_classes"):
        TASKS["cross_entropy"].pass_metrics(TargetSpec("labels", "int64", ()))


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e9])
def test_quantiles_of_errors_are_right_to_one_per_cent(scale: float) -> None:
    errors = np.random.default_rng(0).exponential(scale, (1_000, 2))
    errors[:100] = 0
    quantiles = measure(Regression(), errors, np.zeros_like(errors))["error_quantiles"]
    for share, value in quantiles.items():
        exact = np.quantile(errors, float(share), method="inverted_cdf")
        assert exact <= value * (1 + 1e-9) <= exact * 1.011


def test_most_errors_may_be_none_at_all() -> None:
    errors = np.zeros((100, 1))
    errors[-1] = 3
    quantiles = measure(Regression(), errors, np.zeros_like(errors))["error_quantiles"]
    assert quantiles == {"0.5": 0.0, "0.9": 0.0, "0.99": 0.0}
