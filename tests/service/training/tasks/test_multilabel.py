"""Several labels at once: read by name, measured by F1, compared by a bootstrap of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from service.samples.ingest.labels import LabelReader
from service.training.errors import GraphRefused
from service.training.evaluation.significance import paired_bootstrap
from service.training.tasks import TASKS

TASK = TASKS["multilabel"]
NAMES = ("cat", "dog", "night")
TARGET = TASK.target_spec((3,), NAMES)
RNG = np.random.default_rng(4)
TRUTH = (RNG.random((60, 3)) < [0.5, 0.3, 0.1]).astype(np.float32)
LOGITS = (TRUTH * 2 - 1 + RNG.normal(size=(60, 3)) * 1.2).astype(np.float32)


def f1(truth: Any, given: Any) -> float:
    """As scikit-learn's f1_score of one label."""
    right = (truth * given).sum()
    return float(2 * right / (truth.sum() + given.sum()))


def test_micro_and_macro_f1_are_those_of_their_definition() -> None:
    given = LOGITS > 0
    found = TASK.pass_metrics(TARGET)
    for start in range(0, 60, 7):
        found.update(LOGITS[start : start + 7], TRUTH[start : start + 7])
    metrics = found.result()
    by_label = [f1(TRUTH[:, at], given[:, at]) for at in range(3)]
    assert metrics["f1"] == pytest.approx(by_label)
    assert metrics["macro_f1"] == pytest.approx(np.mean(by_label))
    assert metrics["micro_f1"] == pytest.approx(f1(TRUTH.ravel(), given.ravel()))


@pytest.mark.parametrize("name", ["micro_f1", "macro_f1"])
def test_the_figure_of_all_samples_is_computed_from_what_each_adds(name: str) -> None:
    metric = TASK.metric(name)
    assert metric.figure is not None
    whole = TASK.pass_metrics(TARGET)
    whole.update(LOGITS, TRUTH)
    counts = metric.of_samples(LOGITS, TRUTH)
    assert metric.figure(counts.mean(axis=0)) == pytest.approx(whole.result()[name])
    assert metric.figure(np.zeros(9)) == 0.0


@pytest.mark.parametrize("name", ["micro_f1", "macro_f1"])
def test_a_bootstrap_of_f1_tells_a_clear_difference_from_chance(name: str) -> None:
    metric = TASK.metric(name)
    ours = metric.of_samples(LOGITS, TRUTH)

    def beside(logits: Any) -> Any:
        theirs = metric.of_samples(logits, TRUTH)
        return paired_bootstrap(ours, theirs, metric.figure, tick=lambda: None, resamples=400)

    clear, none = beside(-LOGITS), beside(LOGITS)
    assert clear.low > 0
    assert clear.p_value < 0.01
    assert (none.difference, none.low, none.high, none.p_value) == (0, 0, 0, 1)


def test_a_bootstrap_of_the_mean_is_the_same_by_either_way() -> None:
    ours, theirs = RNG.normal(size=(2, 40))
    plain = paired_bootstrap(ours, theirs, tick=lambda: None, resamples=200)
    by_figure = paired_bootstrap(
        ours[:, None],
        theirs[:, None],
        lambda mean: float(mean[0]),
        tick=lambda: None,
        resamples=200,
    )
    assert by_figure.low == pytest.approx(plain.low)
    assert by_figure.p_value == plain.p_value


@pytest.mark.parametrize(
    ("said", "label"),
    [
        (["night", "cat"], [1, 0, 1]),
        ("dog", [0, 1, 0]),
        ([], [0, 0, 0]),
        ([0, 1, 1], [0, 1, 1]),
    ],
)
def test_a_label_is_a_list_of_names_or_of_numbers(said: Any, label: list[int]) -> None:
    read, complaint = LabelReader(TARGET, TASK).parse(said)
    assert complaint is None
    assert isinstance(read, bytes)
    assert np.frombuffer(read, np.float32).tolist() == label


def test_a_name_that_is_no_label_is_told() -> None:
    _, complaint = LabelReader(TARGET, TASK).parse(["cat", "cow"])
    assert complaint == "label 'cow' is not one of the model's classes: 'cat', 'dog', 'night'"


@pytest.mark.parametrize(("row", "classes"), [((3, 4), None), ((), None), ((3,), ("a", "b"))])
def test_an_output_that_is_no_vector_of_labels_is_refused(row: Any, classes: Any) -> None:
    with pytest.raises(GraphRefused):
        TASK.target_spec(row, classes)
