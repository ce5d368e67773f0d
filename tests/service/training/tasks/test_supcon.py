"""Embeddings: the loss and gradient of PyTorch, neighbours by hand, batches that stay whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from gradients import reference
from onnx import helper, numpy_helper
from step_models import compiled, perceptron

from service.training.engines.sessions.engine import SessionsEngine
from service.training.errors import GraphRefused
from service.training.graph.step import build_step
from service.training.loss import Loss
from service.training.optimizer.options import OptimizerOptions
from service.training.tasks import TASKS
from service.training.tasks.supcon import right_neighbours, supervised_contrastive

TASK, LOSS = TASKS["supcon"], Loss("supcon")
X = [
    [-2.31, -0.37, -1.06, 1, -0.88],
    [-1.28, -0.62, -0.87, -1.3, 1.52],
    [0.32, 2.02, 1.14, -1.23, 0.07],
    [0.34, 0.15, -0.63, -1.26, -1.22],
    [-1.27, -1.12, 1.17, 0.93, 0.8],
    [0.21, 0.14, 1.87, -0.31, 0.24],
    [-1.35, 0.24, -0.01, -0.2, -1.66],
]
LABELS = np.array([0, 1, 0, 2, 1, 0, 9])
PYTORCH_LOSS = 5.262030044037115
PYTORCH_GRADIENT = [
    [0.2036419506, -0.5368327625, -0.4372975483, -0.1342053616, 0.06539233612],
    [0.2203326968, 0.4335211236, -0.7025633343, -0.4128845343, -0.3928756887],
    [0.5776116431, -0.4364909632, 0.5568334193, -0.03468825861, 0.2774194829],
    [-0.01831282984, 0.0164616042, 0.003192505074, -0.03356549488, 0.02993780642],
    [0.3756903901, 0.2975009166, 0.7292815, 0.5979748045, -0.7488101265],
    [0.4559151457, 0.4111939387, -0.184815754, -0.3166547852, 0.3922214359],
    [-0.3437036724, -0.1874220442, -0.3217102375, 0.3581097632, 0.2112131427],
]
"""By autograd of torch 2 in float64: the mean over samples with positives of
-((dot - logsumexp(dot without itself)) * positives).sum(1) / positives.sum(1), where dot is
normalize(x) @ normalize(x).T / 0.1."""


def shifted() -> onnx.ModelProto:
    """embedding = x + w, with a row of w for each sample, so that its gradient is that of x."""
    values = [
        helper.make_tensor_value_info(name, onnx.TensorProto.DOUBLE, ["batch", 5])
        for name in ("x", "embedding")
    ]
    weight = numpy_helper.from_array(np.zeros((7, 5)), "w")
    nodes = [helper.make_node("Add", ["x", "w"], ["embedding"], name="add")]
    graph = helper.make_graph(nodes, "forward", values[:1], values[1:], [weight])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def test_loss_and_gradient_are_those_of_pytorch() -> None:
    step = build_step(shifted(), loss=LOSS, parameters=["w"])
    assert step.batch_statistics
    scale = np.full((1, 1), 1 / TASK.weight(LOSS, LABELS))
    feeds = {"x": np.array(X), "target": LABELS, "hone.loss_scale": scale, "w": np.zeros((7, 5))}
    value, gradient = reference(step.model).run(None, feeds)
    assert float(value) == pytest.approx(PYTORCH_LOSS, rel=1e-9)
    np.testing.assert_allclose(gradient, PYTORCH_GRADIENT, atol=1e-8)


def test_the_loss_of_each_sample_adds_up_to_that_of_the_batch() -> None:
    losses = supervised_contrastive(np.array(X), LABELS)
    weights = TASK.pass_metrics(TASK.target_spec((5,), None)).weights(LABELS)
    assert weights.tolist() == [1, 1, 1, 0, 1, 1, 0]
    assert losses[weights == 0].tolist() == [0, 0]
    assert losses @ weights / weights.sum() == pytest.approx(PYTORCH_LOSS, rel=1e-9)
    assert TASK.weight(LOSS, LABELS) == weights.sum()


def test_recall_is_the_share_of_samples_whose_nearest_neighbour_has_their_label() -> None:
    angles = np.radians([0, 5, 90, 84, 180, 200, 260])
    embeddings = np.stack([np.cos(angles), np.sin(angles)], axis=1) * [
        [3],
        [1],
        [1],
        [9],
        [1],
        [1],
        [1],
    ]
    labels = np.array([1, 1, 2, 2, 3, 1, 3])
    # The nearest of 200 degrees is 180, of another label; that of 260 is 200, of another too.
    assert right_neighbours(embeddings, labels).tolist() == [1, 1, 1, 1, 0, 0, 0]
    metrics = TASK.pass_metrics(TASK.target_spec((2,), None))
    for part in (slice(3), slice(3, 7)):
        metrics.update(embeddings[part], labels[part])
    assert metrics.result() == {"recall_at_1": pytest.approx(4 / 7)}


def test_samples_without_another_of_their_label_do_not_count() -> None:
    metrics = TASK.pass_metrics(TASK.target_spec((2,), None))
    assert metrics.result() == {"recall_at_1": None}
    metrics.update(np.eye(3)[:, :2], np.array([1, 2, 3]))
    assert metrics.result() == {"recall_at_1": None}
    assert right_neighbours(np.eye(2), np.array([1, 1])).tolist() == [1, 1]
    assert right_neighbours(np.eye(2)[:1], np.array([1])).tolist() == [0]


def test_a_batch_is_not_split_among_threads(tmp_path: Path) -> None:
    files = compiled(perceptron(), tmp_path, loss=LOSS)
    rng = np.random.default_rng(0)
    (shape,) = [value.type.tensor_type.shape.dim[1].dim_value for value in perceptron().graph.input]
    inputs = [rng.normal(size=(64, shape)).astype(np.float32)]
    labels = rng.integers(0, 9, 64)
    losses = []
    for threads in (1, 2):
        engine = SessionsEngine(files, optimizer_options=OptimizerOptions(), threads=threads)
        output = engine.evaluate(inputs, labels)[1]
        expected = supervised_contrastive(output, labels).sum() / TASK.weight(LOSS, labels)
        loss = engine.train_batch(inputs, labels)
        assert loss == pytest.approx(expected, rel=1e-4)
        losses.append(loss)
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


@pytest.mark.parametrize(("row", "classes"), [((3, 4), None), ((1,), None), ((3,), ("a", "a"))])
def test_what_is_no_embedding_is_refused(row: Any, classes: Any) -> None:
    with pytest.raises(GraphRefused):
        TASK.target_spec(row, classes)
