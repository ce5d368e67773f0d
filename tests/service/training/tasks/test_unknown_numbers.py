"""Labels of which some numbers are not known: every figure is of those that are."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from service.preprocess.moments import mean_and_std
from service.training.evaluation.evaluate import by_sample
from service.training.label_scale import known_mean_and_std
from service.training.tasks import TASKS
from service.training.tasks.task import figure_of

NAMES = ("a", "b", "c")
UNNAMED = TASKS["huber"].target_spec((3,), None)
RNG = np.random.default_rng(7)
KNOWN = RNG.random((60, 3)) < [0.9, 0.5, 0.2]
KNOWN[:, 0] |= ~KNOWN.any(axis=1)
OUTPUT = RNG.normal(size=(60, 3)).astype(np.float32)
NUMBERS = np.where(KNOWN, OUTPUT + RNG.normal(size=(60, 3)) * 0.5 + 40, np.nan).astype(np.float32)
YES_NO = np.where(KNOWN, RNG.random((60, 3)) < 0.4, np.nan).astype(np.float32)


def passed(name: str, output: Any, target: Any) -> dict[str, Any]:
    """The metrics of a pass in batches of seven."""
    task = TASKS[name]
    metrics = task.pass_metrics(task.target_spec((3,), NAMES))
    for start in range(0, 60, 7):
        metrics.update(output[start : start + 7], target[start : start + 7])
    return metrics.result()


def of_columns(figure: Any) -> NDArray[np.float64]:
    """A figure of each column's known numbers. figure: of outputs and labels."""
    columns = [(OUTPUT[known, at] + 40, NUMBERS[known, at]) for at, known in enumerate(KNOWN.T)]
    return np.array([figure(output.astype(float), label) for output, label in columns])


def test_errors_are_of_the_known_numbers() -> None:
    found = passed("mse", OUTPUT + 40, NUMBERS)
    error = (NUMBERS - (OUTPUT + 40)).astype(np.float64)
    assert found["mae"] == pytest.approx(np.nanmean(np.abs(error)), rel=1e-6)
    assert found["rmse"] == pytest.approx(np.sqrt(np.nanmean(error**2)), rel=1e-6)
    r2 = of_columns(lambda o, t: 1 - ((t - o) ** 2).sum() / ((t - t.mean()) ** 2).sum())
    assert found["r2"] == pytest.approx(r2.mean(), rel=1e-6)
    assert found["r2_by_label"] == pytest.approx(r2, rel=1e-6)
    mae = of_columns(lambda o, t: np.abs(t - o).mean())
    rmse = of_columns(lambda o, t: np.sqrt(((t - o) ** 2).mean()))
    assert found["mae_by_label"] == pytest.approx(mae, rel=1e-6)
    assert found["rmse_by_label"] == pytest.approx(rmse, rel=1e-6)
    assert found["error_quantiles"]["0.5"] == pytest.approx(np.nanmedian(np.abs(error)), rel=0.02)


def test_a_number_that_no_sample_knows_has_no_figures() -> None:
    some = np.c_[NUMBERS[:, :2], np.full(60, np.nan, np.float32)]
    found = passed("huber", OUTPUT + 40, some)
    assert [found[f"{name}_by_label"][2] for name in ("mae", "rmse", "r2")] == [None] * 3
    assert "mae_by_label" not in TASKS["huber"].pass_metrics(UNNAMED).result()


def test_decisions_are_of_the_known_labels() -> None:
    found, given, yes = passed("multilabel", OUTPUT, YES_NO), (OUTPUT > 0) & KNOWN, YES_NO == 1
    assert found["accuracy"] == pytest.approx((given == yes)[KNOWN].mean())
    hits, both = (given & yes).sum(axis=0), given.sum(axis=0) + yes.sum(axis=0)
    assert found["f1"] == pytest.approx(2 * hits / both)
    assert found["precision"] == pytest.approx(hits / given.sum(axis=0))
    assert found["recall"] == pytest.approx(hits / yes.sum(axis=0))
    assert found["micro_f1"] == pytest.approx(2 * hits.sum() / both.sum())


@pytest.mark.parametrize(
    ("name", "output", "target"), [("mse", OUTPUT + 40, NUMBERS), ("multilabel", OUTPUT, YES_NO)]
)
def test_what_the_gate_makes_of_single_samples_is_the_figure_of_all(
    name: str, output: Any, target: Any
) -> None:
    task, found = TASKS[name], passed(name, output, target)
    weights = task.pass_metrics(task.target_spec((3,), NAMES)).weights(target)
    for metric in task.metrics:
        scores = metric.of_samples(output, target)
        if not metric.of_set:
            scores = by_sample(np.arange(60), weights, scores)
        if metric.name != "loss":
            assert metric.of_mean(scores) == pytest.approx(found[metric.name], rel=1e-6)
    for metric, place in product(task.by_class, range(3)):
        of_one = task.metric(metric.name, place=place)
        scores = metric.of_samples(output, target)
        if not metric.of_set:
            scores = by_sample(np.arange(60), weights, scores)
        told = figure_of(found, metric.name, place)
        assert of_one.of_mean(scores) == pytest.approx(told, rel=1e-6)


def test_labels_are_standardized_by_the_known_numbers() -> None:
    some = np.c_[NUMBERS[:, :2], np.full(60, np.nan, np.float32)]
    mean, deviation = known_mean_and_std(some)
    expected = [mean_and_std(some[KNOWN[:, at], at][:, None]) for at in range(2)]
    assert mean == pytest.approx([*(float(each[0][0]) for each in expected), 0])
    assert deviation == pytest.approx([*(float(each[1][0]) for each in expected), 1])
