"""The scale of labels: what a job finds, and what steps with it compute."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from onnx.helper import make_node
from step_models import model_of

from service.training.data.batches import Batches
from service.training.engines import checkpoint
from service.training.engines.manifest import Files, read_manifest
from service.training.engines.sessions.engine import SessionsEngine
from service.training.label_scale import LabelScale, fitted
from service.training.loss import LABEL_MEAN, LABEL_SCALE
from service.training.optimizer.options import OptimizerOptions
from service.training.preparation.prepare import prepare
from service.training.protocol.messages.preparation import Prepare, Prepared

FEATURES, OUTPUTS, CHANNELS = 5, 2, 16
LAST = make_node("Gemm", ["x", "w", "b"], ["y"], "last")
SCALE, MEAN = np.array([[10.0, 0.01]], np.float32), np.array([[50.0, -3.0]], np.float32)
Array = np.ndarray[Any, Any]
Make = Callable[..., Prepared]


class Rows(Batches):
    """Samples in memory."""

    def __init__(self, x: Array, labels: Array, weights: Array | None = None) -> None:
        ids = np.arange(len(x))
        super().__init__(ids, labels, row_bytes=x[0].nbytes, weights=weights)
        self._x = x

    def inputs(self, chosen: Array) -> tuple[Array, ...]:
        return (self._x[chosen],)


def linear(*nodes: onnx.NodeProto, weight: Array | None = None, output: str = "y") -> Any:
    """x (batch, 5) → two numbers, by a last layer and what follows it."""
    weight = normal(FEATURES, OUTPUTS) if weight is None else weight
    weights = {"w": weight, "b": np.array([0.5, -0.5]), "one": np.full((1, 2), 1.5)}
    read = {name for node in (LAST, *nodes) for name in node.input}
    tensors = [
        numpy_helper.from_array(np.asarray(array, np.float32), name)
        for name, array in weights.items()
        if name in read
    ]
    shapes = {"x": ["batch", FEATURES]}, {output: ["batch", OUTPUTS]}
    return model_of([LAST, *nodes], *shapes, tensors)


def normal(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@pytest.fixture
def make(tmp_path: Path) -> Make:
    def prepared(model: onnx.ModelProto | Path, loss: str = "mse") -> Prepared:
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        folder.mkdir()
        path = model
        if not isinstance(path, Path):
            path = folder / "upload.onnx"
            onnx.save(model, path)
        answer = prepare(Prepare(str(path), "forward", str(folder), loss=loss))
        assert isinstance(answer, Prepared), answer
        return answer

    return prepared


def open_engine(made: Prepared, at: Path | None = None, recipe: str = "sgd") -> SessionsEngine:
    files = Files.of(made.artifacts)
    return SessionsEngine(
        files, optimizer_options=OptimizerOptions(recipe), threads=1, checkpoint=at
    )


def scaled(made: Prepared, path: Path, scale: Array = SCALE, mean: Array = MEAN) -> Path:
    """A checkpoint of the first parameters with this scale."""
    first = Path(made.artifacts.checkpoint)
    tensors = {**checkpoint.read(first), LABEL_SCALE: scale, LABEL_MEAN: mean}
    checkpoint.save(path, checkpoint.read_head(first), tensors)
    return path


def statistics(made: Prepared) -> list[str]:
    assert made.artifacts.manifest is not None
    return [statistic.name for statistic in read_manifest(Path(made.artifacts.manifest)).statistics]


LOSSES = {
    "mse": lambda error: error**2,
    "l1": np.abs,
    "huber": lambda error: (
        np.minimum(np.abs(error), 1) * (np.abs(error) - np.minimum(np.abs(error), 1) / 2)
    ),
}
GRADIENTS = {
    "mse": lambda error: 2 * error / SCALE,
    "l1": np.sign,
    "huber": lambda error: np.clip(error, -1, 1) / np.minimum(SCALE, 1),
}


@pytest.mark.parametrize("loss", LOSSES)
def test_steps_are_those_on_standardized_labels_and_the_loss_has_the_labels_unit(
    loss: str, make: Make, tmp_path: Path
) -> None:
    made = make(linear(), loss)
    engine = open_engine(made, scaled(made, tmp_path / "scaled"))
    w, b = normal(FEATURES, OUTPUTS).astype(float), np.array([0.5, -0.5])
    for step in range(4):
        x = normal(8, FEATURES, seed=step)
        target = normal(8, OUTPUTS, seed=step + 10) * SCALE + MEAN
        error = (x @ w + b) * SCALE + MEAN - target
        found = engine.train_batch([x], target)
        assert found == pytest.approx(LOSSES[loss](error).mean(), rel=1e-4)
        assert engine.evaluate([x], target)[0] == pytest.approx(found, rel=1e-5)
        engine.step(0.1)
        slope = GRADIENTS[loss](error) / error.size
        w, b = w - 0.1 * x.T @ slope, b - 0.1 * slope.sum(axis=0)
    x = normal(8, FEATURES, seed=99)
    output = engine.evaluate([x], np.zeros((8, OUTPUTS), np.float32))[1]
    np.testing.assert_allclose((output - MEAN) / SCALE, x @ w + b, rtol=1e-3, atol=1e-3)


def test_channels_of_a_convolution_are_scaled_in_the_layout_of_this_processor(
    make: Make, tmp_path: Path
) -> None:
    """There, factors of channels are moved into the weights, which are reordered once a batch."""
    places, rows = (CHANNELS, 3, 3), CHANNELS * 9
    w, b = (normal(CHANNELS, *places) / 12).astype(float), np.linspace(-1, 1, CHANNELS)
    conv = make_node("Conv", ["x", "w", "b"], ["y"], "last")
    tensors = [numpy_helper.from_array(a.astype(np.float32), n) for n, a in (("w", w), ("b", b))]
    shapes = {"x": ["batch", *places]}, {"y": ["batch", CHANNELS, 1, 1]}
    made = make(model_of([conv], *shapes, tensors))
    scale, mean = np.linspace(0.5, 20, CHANNELS), np.linspace(-9, 90, CHANNELS)
    form = (1, CHANNELS, 1, 1)
    first = [array.reshape(form).astype(np.float32) for array in (scale, mean)]
    engine = open_engine(made, scaled(made, tmp_path / "scaled", *first))
    for step in range(4):
        x, noise = normal(8, *places, seed=step), normal(8, CHANNELS, seed=step + 10)
        target, flat = (noise * scale + mean).astype(np.float32), x.reshape(8, rows)
        error = (flat @ w.reshape(CHANNELS, rows).T + b) * scale + mean - target
        found = engine.train_batch([x], target.reshape(8, CHANNELS, 1, 1))
        assert found == pytest.approx((error**2).mean(), rel=1e-4)
        engine.step(0.1)
        gradient = 2 * error / scale / error.size
        w, b = w - 0.1 * (gradient.T @ flat).reshape(w.shape), b - 0.1 * gradient.sum(axis=0)


@pytest.mark.parametrize(
    ("nodes", "is_scaled"),
    [
        ((), True),
        ([make_node("Mul", ["y", "one"], ["z"], "end")], True),
        (
            [
                make_node("Identity", ["y"], ["h"], "id"),
                make_node("Tanh", ["y"], ["t"], "tanh"),
                make_node("Add", ["h", "t"], ["z"], "end"),
            ],
            True,
        ),
        ([make_node("Sigmoid", ["y"], ["z"], "end")], False),
        (
            [make_node("Relu", ["y"], ["h"], "relu"), make_node("Mul", ["h", "one"], ["z"], "end")],
            False,
        ),
    ],
    ids=["linear", "times", "sum", "sigmoid", "times relu"],
)
def test_outputs_of_a_limited_range_keep_it(nodes: Any, is_scaled: bool, make: Make) -> None:
    made = make(linear(*nodes, output="z" if nodes else "y"))
    assert statistics(made) == ([LABEL_SCALE, LABEL_MEAN] if is_scaled else [])


def test_losses_that_are_not_of_numbers_in_any_unit_scale_nothing(make: Make) -> None:
    assert statistics(make(linear(), "bce_with_logits")) == []
    assert statistics(make(linear(), "cross_entropy")) == []


def test_the_scale_is_exported_and_a_version_registered_as_a_model_keeps_it(
    make: Make, tmp_path: Path
) -> None:
    made = make(linear())
    engine = open_engine(made, scaled(made, tmp_path / "scaled"))
    engine.export(tmp_path / "version.onnx")
    again = make(tmp_path / "version.onnx")
    assert (statistics(again), again.trainable) == ([LABEL_SCALE, LABEL_MEAN], made.trainable)
    x, target = normal(8, FEATURES), normal(8, OUTPUTS)
    before, after = (each.evaluate([x], target)[1] for each in (engine, open_engine(again)))
    np.testing.assert_allclose(after, before, rtol=1e-6)
    open_engine(again).export(tmp_path / "again.onnx")
    kinds = [node.op_type for node in onnx.load(tmp_path / "again.onnx").graph.node]
    assert kinds == ["Gemm", "Mul", "Add"]


@pytest.mark.parametrize("loss", ["bce_with_logits", "multilabel", "cross_entropy", "supcon"])
def test_a_version_registered_for_another_task_trains_on_labels_as_they_are(
    loss: str, make: Make, tmp_path: Path
) -> None:
    made = make(linear())
    open_engine(made, scaled(made, tmp_path / "scaled")).export(tmp_path / "version.onnx")
    again = make(tmp_path / "version.onnx", loss)
    assert statistics(again) == []
    assert again.trainable == made.trainable


def test_parameters_of_others_go_with_the_registered_models_scale(
    make: Make, tmp_path: Path
) -> None:
    made = make(linear())
    engine = open_engine(made)
    engine.load_parameters(scaled(made, tmp_path / "scaled"))
    x, target = normal(8, FEATURES), normal(8, OUTPUTS)
    assert np.abs(engine.evaluate([x], target)[1]).max() > 20
    shared = {"w": normal(FEATURES, OUTPUTS, seed=4), "b": np.zeros(OUTPUTS, np.float32)}
    checkpoint.save_file(shared, tmp_path / "shared")
    engine.load_parameters(tmp_path / "shared")
    np.testing.assert_allclose(engine.evaluate([x], target)[1], x @ shared["w"], rtol=1e-5)


def test_a_resumed_engine_ends_with_the_same_bytes(make: Make, tmp_path: Path) -> None:
    made = make(linear())
    engine = open_engine(made, scaled(made, tmp_path / "scaled"), "adamw")
    batches = [(normal(8, FEATURES, seed=s), normal(8, OUTPUTS, seed=s) + 50) for s in range(6)]
    for step, (x, target) in enumerate(batches):
        if step == 3:
            engine.save(tmp_path / "half")
        engine.train_batch([x], target)
        engine.step(0.02)
    resumed = open_engine(made, tmp_path / "half", "adamw")
    for x, target in batches[3:]:
        resumed.train_batch([x], target)
        resumed.step(0.02)
    for name, each in (("a", engine), ("b", resumed)):
        each.save(tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def find(
    made: Prepared, labels: Array, *, at: Path | None = None, weights: Array | None = None
) -> LabelScale:
    engine = open_engine(made, at)
    known = LabelScale(*(engine._state.statistics[n] for n in (LABEL_SCALE, LABEL_MEAN)))
    rows = Rows(normal(len(labels), FEATURES, seed=5), labels, weights)
    return fitted(known, engine, rows, tick=lambda: None)


def test_a_fresh_model_gets_mean_and_deviation_of_each_label(make: Make) -> None:
    made = make(linear(weight=0.01 * normal(FEATURES, OUTPUTS)))
    labels = normal(500, OUTPUTS, seed=6) * SCALE + MEAN
    found = find(made, labels)
    np.testing.assert_allclose(found.scale, labels.std(axis=0, keepdims=True), rtol=1e-3)
    # The last layer's bias is 0.5 and -0.5.
    np.testing.assert_allclose((found.mean - MEAN) / SCALE, [[-0.5, 0.5]], atol=0.1)


def test_outputs_larger_than_the_labels_are_brought_to_them(make: Make) -> None:
    made = make(linear(weight=40 * normal(FEATURES, OUTPUTS)))
    labels = normal(500, OUTPUTS, seed=6) + 7
    found = find(made, labels)
    output = (40 * normal(500, FEATURES, seed=5) @ normal(FEATURES, OUTPUTS)) * found.scale
    np.testing.assert_allclose(output.std(axis=0), labels.std(axis=0), rtol=0.1)


def test_an_output_that_explains_its_label_keeps_its_scale(make: Make) -> None:
    made = make(linear(weight=20 * normal(FEATURES, OUTPUTS)))
    labels = normal(300, FEATURES, seed=5) @ (20 * normal(FEATURES, OUTPUTS))
    labels[:, 1] = 1000 + normal(300, seed=8)
    found = find(made, labels)
    assert (found.scale[0, 0], found.mean[0, 0]) == (1, 0)
    assert found.mean[0, 1] == pytest.approx(1000, abs=1)


def test_labels_that_are_all_the_same_are_shifted_alone(make: Make) -> None:
    made = make(linear(weight=np.zeros((FEATURES, OUTPUTS))))
    found = find(made, np.full((50, OUTPUTS), 1234.5, np.float32))
    assert found.scale.tolist() == [[1, 1]]
    assert found.mean.tolist() == [[1234, 1235]]


def test_samples_without_weight_do_not_count(make: Make) -> None:
    made = make(linear(weight=np.zeros((FEATURES, OUTPUTS))))
    labels = normal(100, OUTPUTS) + 5
    labels[50:] = 1e6
    weights = np.repeat([1, 0], 50).astype(np.float32)
    found = find(made, labels, weights=weights)
    np.testing.assert_allclose(found.scale, labels[:50].std(axis=0, keepdims=True), rtol=1e-4)


def test_outputs_that_are_not_finite_are_standardized_as_those_of_a_fresh_model(
    make: Make, tmp_path: Path
) -> None:
    made = make(linear())
    lost = scaled(made, tmp_path / "lost", np.full((1, 2), np.inf, np.float32), 0 * MEAN)
    labels = normal(100, OUTPUTS) * SCALE + MEAN
    found = find(made, labels, at=lost)
    np.testing.assert_allclose(found.scale, labels.std(axis=0, keepdims=True), rtol=1e-4)
    np.testing.assert_allclose(found.mean, labels.mean(axis=0, keepdims=True), rtol=1e-4)
