"""What single samples add up to is what the metrics and the engine's losses say of all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from service.training.evaluation.metrics import Classification, MultiLabel, Regression
from service.training.evaluation.significance import RESAMPLES, SEED, paired_bootstrap, widening
from service.training.tasks import TASKS
from storage.records.signatures import IGNORED

RNG = np.random.default_rng(1)
LOGITS = (RNG.standard_normal((40, 3)) * 3).astype(np.float32)
CLASSES = RNG.integers(0, 3, 40)
YES_OR_NO = RNG.integers(0, 2, (40, 3)).astype(np.float32)
VALUES = RNG.standard_normal((40, 3)).astype(np.float32)


def of_samples(loss: str, metric: str) -> Callable[[Any, Any], Any]:
    return TASKS[loss].metric(metric).of_samples


def test_accuracy_of_classes_is_the_mean_of_the_samples() -> None:
    metrics = Classification(3)
    metrics.update(LOGITS, CLASSES)
    score = of_samples("cross_entropy", "accuracy")(LOGITS, CLASSES)
    assert score.shape == (40,)
    assert score.mean() == pytest.approx(metrics.result()["accuracy"])


def test_accuracy_of_positions_is_the_mean_over_a_samples_positions() -> None:
    logits = RNG.standard_normal((5, 4, 6)).astype(np.float32)
    truth = RNG.integers(0, 4, (5, 6))
    metrics = Classification(4)
    metrics.update(logits, truth)
    score = of_samples("cross_entropy", "accuracy")(logits, truth)
    assert score.shape == (5,)
    assert score.mean() == pytest.approx(metrics.result()["accuracy"])
    assert of_samples("cross_entropy", "loss")(logits, truth).shape == (5,)


def test_accuracy_of_decisions_is_the_mean_of_the_samples() -> None:
    metrics = MultiLabel()
    metrics.update(LOGITS, YES_OR_NO)
    score = of_samples("bce_with_logits", "accuracy")(LOGITS, YES_OR_NO)
    assert score.mean() == pytest.approx(metrics.result()["accuracy"])


@pytest.mark.parametrize("loss", ["mse", "l1"])
def test_the_error_is_the_mean_of_the_samples(loss: str) -> None:
    metrics = Regression()
    metrics.update(LOGITS, VALUES)
    score = of_samples(loss, "mae")(LOGITS, VALUES)
    assert score.mean() == pytest.approx(metrics.result()["mae"], rel=1e-6)


def test_losses_are_those_of_their_textbooks() -> None:
    shares = np.exp(LOGITS.astype(float)) / np.exp(LOGITS.astype(float)).sum(axis=1, keepdims=True)
    chosen = -np.log(shares[np.arange(40), CLASSES])
    assert of_samples("cross_entropy", "loss")(LOGITS, CLASSES) == pytest.approx(chosen)
    yes = 1 / (1 + np.exp(-LOGITS.astype(float)))
    binary = -(YES_OR_NO * np.log(yes) + (1 - YES_OR_NO) * np.log(1 - yes)).mean(axis=1)
    assert of_samples("bce_with_logits", "loss")(LOGITS, YES_OR_NO) == pytest.approx(binary)
    squares = np.square(LOGITS.astype(float) - VALUES).mean(axis=1)
    assert of_samples("mse", "loss")(LOGITS, VALUES) == pytest.approx(squares)


def test_large_logits_have_a_finite_loss() -> None:
    logits = np.array([[1e4, -1e4]], np.float32)
    assert of_samples("cross_entropy", "loss")(logits, np.array([0])) == pytest.approx([0.0])
    assert of_samples("bce_with_logits", "loss")(logits, np.array([[1.0, 0.0]])) == pytest.approx(
        [0]
    )


def of_differences(differences: Any, **options: Any) -> Any:
    return paired_bootstrap(differences, np.zeros_like(differences), **options)


def test_a_bootstrap_of_a_clear_difference_is_sure_and_of_noise_is_not() -> None:
    clear = of_differences(RNG.standard_normal(100) + 1, tick=lambda: None)
    noise = of_differences(RNG.standard_normal(100) * 10, tick=lambda: None)
    assert clear.low > 0
    assert clear.p_value < 0.002
    assert noise.low < 0 < noise.high
    assert noise.p_value > 0.05


def test_a_bootstrap_of_no_difference_has_no_evidence() -> None:
    same = of_differences(np.zeros(20), tick=lambda: None)
    assert (same.difference, same.low, same.high, same.p_value) == (0, 0, 0, 1)


def test_a_bootstrap_says_the_same_again() -> None:
    differences = RNG.standard_normal(50)
    first, second = (of_differences(differences, tick=lambda: None) for _ in range(2))
    assert first == second


@pytest.mark.parametrize("samples", [6, 10, 30])
def test_a_bootstrap_rejects_as_often_as_it_should(samples: int) -> None:
    rng = np.random.default_rng(5)
    p_values = [
        of_differences(rng.standard_normal(samples), tick=lambda: None, resamples=400).p_value
        for _ in range(300)
    ]
    assert 0.02 < np.mean(np.array(p_values) < 0.05) < 0.08


def test_a_bootstrap_of_five_samples_is_never_sure() -> None:
    assert of_differences(np.arange(1.0, 6), tick=lambda: None).p_value == 2 / 2**5


@pytest.mark.parametrize("metric", ["balanced_accuracy", "macro_f1", "mean_iou"])
@pytest.mark.parametrize("shape", [(), (6,)], ids=["one class", "positions"])
def test_figures_of_classes_follow_from_the_mean_of_the_samples(metric: str, shape: Any) -> None:
    logits = RNG.standard_normal((40, 5, *shape)).astype(np.float32)
    truth = RNG.integers(0, 4, (40, *shape))  # the last class never occurs
    if shape:
        truth[truth == 0] = IGNORED
    metrics = Classification(5)
    metrics.update(logits, truth)
    weights = metrics.weights(truth) / metrics.weights(truth).mean()
    declared = TASKS["cross_entropy"].metric(metric)
    scores = (declared.of_samples(logits, truth).T * weights).T
    assert declared.of_mean(scores) == pytest.approx(metrics.result()[metric])


def test_figures_of_classes_are_scikit_learns() -> None:
    """By scikit-learn 1.9: balanced_accuracy_score, f1_score and jaccard_score, both macro."""
    truth, guess = np.array([0, 0, 0, 0, 1, 1, 2, 2, 2]), np.array([0, 0, 1, 1, 1, 2, 2, 2, 0])
    logits = np.eye(3, dtype=np.float32)[guess]
    task = TASKS["cross_entropy"]
    names = ("balanced_accuracy", "macro_f1", "mean_iou")
    balanced, f1, iou = (task.metric(name) for name in names)
    assert balanced.of_mean(balanced.of_samples(logits, truth)) == pytest.approx(0.5555555556)
    assert f1.of_mean(f1.of_samples(logits, truth)) == pytest.approx(0.5460317460)
    assert iou.of_mean(iou.of_samples(logits, truth)) == pytest.approx(0.3833333333)


@pytest.mark.parametrize("metric", ["rmse", "r2"])
def test_figures_of_numbers_follow_from_the_mean_of_the_samples(metric: str) -> None:
    truth = VALUES * [1, 100, 0] + [5000, 0, 3]  # a large mean, and an output that never varies
    output = truth + RNG.standard_normal(truth.shape)
    metrics = Regression()
    metrics.update(output[:15], truth[:15])
    metrics.update(output[15:], truth[15:])
    declared = TASKS["mse"].metric(metric)
    score = declared.of_mean(declared.of_samples(output, truth))
    assert score == pytest.approx(metrics.result()[metric], rel=1e-9)


def test_labels_of_a_resample_that_are_all_equal_have_no_r2() -> None:
    """Rounding leaves them a variance of 1e-17 of their square."""
    noise, truth = np.random.default_rng(1), np.zeros((12, 1), np.float32)
    truth[0] = 0.7
    r2 = TASKS["mse"].metric("r2")
    ours, theirs = (
        r2.of_samples(truth + noise.normal(0, 0.3, truth.shape), truth) for _ in range(2)
    )
    found = paired_bootstrap(ours, theirs, r2.figure, tick=lambda: None)
    assert -10 < found.low < found.high < 10


def test_the_bootstrap_of_a_figure_resamples_both_models_alike() -> None:
    """Against resampling one set at a time."""
    declared = TASKS["cross_entropy"].metric("macro_f1")
    ours, theirs = (declared.of_samples(each, CLASSES) for each in (LOGITS, LOGITS[:, ::-1]))
    generator, drawn = np.random.Generator(np.random.PCG64(SEED)), []
    for _ in range(RESAMPLES):
        chosen = generator.integers(0, 40, 40)
        drawn.append(declared.of_mean(ours[chosen]) - declared.of_mean(theirs[chosen]))
    found = paired_bootstrap(ours, theirs, declared.figure, tick=lambda: None)
    ends = (np.percentile(drawn, [2.5, 97.5]) - found.difference) * widening(40) + found.difference
    assert [found.low, found.high] == pytest.approx(ends.tolist())
