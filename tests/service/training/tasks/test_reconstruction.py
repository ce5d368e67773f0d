"""Anomalies: the loss and gradient by hand, scikit-learn's AUROC, DeLong's variance, thresholds."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from gradients import reference
from onnx import helper, numpy_helper

from service.training.evaluation.anomalies import Alarms, calibrate
from service.training.evaluation.drift import Drifted, compare
from service.training.evaluation.significance import paired_bootstrap
from service.training.graph.step import build_step
from service.training.loss import Loss
from service.training.tasks import TASKS
from service.training.tasks.reconstruction import AnomalyMetrics, ScoreThreshold, area, placed

TASK, LOSS = TASKS["reconstruction"], Loss("reconstruction")
X = np.random.default_rng(0).standard_normal((4, 2, 3))
LABELS = np.array([0, 1, 0, 0])
AREAS = {(200, 0.2, 0): 0.8160569105691057, (120, 0.3, 0.5): 0.7833507488679904}
"""By sklearn.metrics.roc_auc_score of scikit-learn 1.9: samples, share of anomalous ones, and what
scores were rounded to, so that many are equal.
"""


def shifted() -> onnx.ModelProto:
    """y = x + w, with a row of w for each sample, so that its gradient is that of y."""
    values = [
        helper.make_tensor_value_info(name, onnx.TensorProto.DOUBLE, ["batch", 2, 3])
        for name in ("x", "y")
    ]
    weight = numpy_helper.from_array(np.zeros((4, 2, 3)), "w")
    nodes = [helper.make_node("Add", ["x", "w"], ["y"], name="add")]
    graph = helper.make_graph(nodes, "forward", values[:1], values[1:], [weight])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def scored(samples: int, share: float, step: float, seed: int = 5) -> tuple[np.ndarray, np.ndarray]:
    """Scores, and which are of anomalous samples."""
    rng = np.random.default_rng(seed)
    odd = rng.random(samples) < share
    found = rng.standard_normal(samples) + odd * 1.2
    return np.round(found / step) * step if step else found, odd


def test_the_loss_is_the_squared_error_of_normal_samples() -> None:
    step = build_step(shifted(), loss=LOSS, parameters=["w"])
    target = TASK.targets(LABELS, (X,))
    assert target.shape == (4, 7)
    error = np.random.default_rng(1).standard_normal(X.shape)
    scale = np.full((1, 1, 1), 1 / TASK.weight(LOSS, target))
    feeds = {"x": X, "target": target, "hone.loss_scale": scale, "w": error}
    value, gradient = reference(step.model).run(None, feeds)
    normal = LABELS == 0
    assert float(value) == pytest.approx(np.square(error[normal]).mean())
    expected = 2 * error * normal[:, None, None] / (3 * 6)
    np.testing.assert_allclose(gradient, expected, atol=1e-12)


def test_metrics_of_a_pass_count_normal_samples_alone() -> None:
    output = X + np.array([0.1, 5, 0.2, 0.3])[:, None, None]
    target = TASK.targets(LABELS, (X,))
    metrics = AnomalyMetrics()
    metrics.read({})
    metrics.update(output, target)
    weights, losses = metrics.weights(target), TASK.metric("loss").of_samples(output, target)
    assert weights @ losses / weights.sum() == pytest.approx((0.01 + 0.04 + 0.09) / 3)
    assert metrics.result() == {"auroc": 1.0}
    with_threshold = AnomalyMetrics()
    said = {"threshold": 0.05, "false_alarm_rate": 0.01, "threshold_samples": 10}
    with_threshold.read({name: str(value) for name, value in said.items()})
    with_threshold.update(output, target)
    assert with_threshold.result() == {
        "auroc": 1.0,
        "threshold": 0.05,
        "false_alarm_rate": pytest.approx(1 / 3),
        "detection_rate": 1.0,
    }


@pytest.mark.parametrize(("samples", "share", "step"), AREAS)
def test_the_area_is_that_of_scikit_learn(samples: int, share: float, step: float) -> None:
    found = placed(*scored(samples, share, step))
    assert area(found.mean(axis=0)) == pytest.approx(AREAS[samples, share, step], abs=1e-12)


def test_the_bootstrap_of_two_areas_has_the_variance_of_delong() -> None:
    ours, odd = scored(400, 0.3, 0)
    theirs = ours + np.random.default_rng(1).standard_normal(400)
    interval = paired_bootstrap(placed(ours, odd), placed(theirs, odd), area, tick=lambda: None)
    # By the definition: of all pairs of an anomalous and a normal sample.
    pairs = [
        (each[odd][:, None] > each[~odd]) + 0.5 * (each[odd][:, None] == each[~odd])
        for each in (ours, theirs)
    ]
    change = pairs[0] - pairs[1]
    of_odd, of_normal = change.mean(axis=1), change.mean(axis=0)
    error = np.sqrt(of_odd.var(ddof=1) / len(of_odd) + of_normal.var(ddof=1) / len(of_normal))
    assert interval.difference == pytest.approx(change.mean(), abs=1e-12)
    assert (interval.high - interval.low) / (2 * 1.96 * error) == pytest.approx(1, abs=0.05)


def test_an_area_of_one_kind_alone_is_not_measured() -> None:
    metrics = AnomalyMetrics()
    assert metrics.result() == {"auroc": None}
    metrics.update(X, TASK.targets(np.zeros(4), (X,)))
    assert metrics.result() == {"auroc": None}
    target = TASK.target_spec((3,), None)
    assert TASK.metric_on(lambda: (5, 0), "auroc", target).name == "loss"
    assert TASK.metric_on(lambda: (5, 1), "auroc", target).name == "auroc"


def test_a_new_normal_sample_exceeds_the_threshold_as_rarely_as_declared() -> None:
    rng = np.random.default_rng(0)
    above = []
    for _ in range(2000):
        found = calibrate(rng.standard_normal(99), 0.05)
        assert found is not None
        above.append(rng.standard_normal() > found.threshold)
    assert np.mean(above) == pytest.approx(0.05, abs=0.012)
    assert calibrate(np.arange(10.0), 0.01) == ScoreThreshold(9.0, 0.01, 10)
    assert calibrate(np.empty(0), 0.01) is None


@pytest.mark.parametrize(("above", "is_drifted"), [(3, False), (12, False), (60, True)])
def test_a_threshold_has_drifted_when_far_more_scores_are_above_it(
    above: int, is_drifted: bool
) -> None:
    same = {"x": np.random.default_rng(0).standard_normal((300, 1))}
    alarms = Alarms(ScoreThreshold(1.0, 0.01, 200), np.arange(300) < above)
    found: Drifted = compare(same, same, alarms=alarms)
    assert found.compared == 2
    assert found.drifted == is_drifted
    (score,) = (feature for feature in found.features if feature.input == "score")
    assert (score.training_mean, score.recent_mean) == (0.01, above / 300)
