"""Models exported from PyTorch train in sessions as they do in PyTorch (see ../graphs/make.py)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx.helper import make_node
from onnx.numpy_helper import from_array
from step_models import FLOAT, model_of, perceptron

from service.training.engines.manifest import Files, read_manifest
from service.training.engines.runtime import open_session
from service.training.engines.sessions.engine import SessionsEngine
from service.training.errors import GraphRefused
from service.training.optimizer.options import OptimizerOptions
from service.training.preparation.prepare import prepare
from service.training.preparation.step_models import make_step_models
from service.training.protocol.messages.preparation import Prepare, Prepared, Refused
from service.training.tasks import TASKS

GRAPHS = Path(__file__).parent.parent / "graphs"
CURVES: list[dict[str, Any]] = json.loads((GRAPHS / "curves.json").read_text())
BATCH, ROWS = 16, 48
TOLERANCE = 5e-6
"""Of every loss of 30 steps without random operators."""
RANDOM_TOLERANCE = 0.05
"""Of the mean loss of the last epoch with Dropout, whose random bits are each engine's own."""
Make = Callable[..., Prepared]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    def prepared(source: Path | onnx.ModelProto, **spec: Any) -> Prepared:
        if isinstance(source, onnx.ModelProto):
            onnx.save(source, tmp_path / "upload.onnx")
            source = tmp_path / "upload.onnx"
        order = Prepare(
            source=str(source),
            form="forward",
            work_dir=str(tmp_path / "made"),
            engine="sessions",
            **{"loss": "cross_entropy", **spec},
        )
        return make_step_models(source, order)

    return prepared


ADAMW = OptimizerOptions()


def open_engine(
    prepared: Prepared, *, optimizer_options: OptimizerOptions = ADAMW, threads: int = 1
) -> SessionsEngine:
    return SessionsEngine(
        Files.of(prepared.artifacts), optimizer_options=optimizer_options, threads=threads
    )


@pytest.mark.parametrize("case", CURVES, ids=[case["name"] for case in CURVES])
def test_an_exported_model_follows_the_loss_curve_of_pytorch(
    case: dict[str, Any], make: Make
) -> None:
    prepared = make(GRAPHS / f"{case['name']}.onnx", loss=case["loss"], optimizer=case["optimizer"])
    assert prepared.trainable_parameters == case["parameters"]
    engine = open_engine(prepared, optimizer_options=OptimizerOptions(case["optimizer"]), threads=2)
    with np.load(GRAPHS / "data.npz") as data:
        x = data[case["input"]]
        y = data["label" if case["loss"] == "cross_entropy" else "value"]
    batches = [slice(start, start + BATCH) for start in range(0, ROWS, BATCH)]
    losses = []
    for _ in range(len(case["losses"]) // len(batches)):
        for part in batches:
            losses.append(engine.train_batch([x[part]], y[part]))
            engine.step(case["learning_rate"])
    if case["random"]:
        ends = [np.mean(each[-3:]) for each in (losses, case["losses"])]
        assert ends[0] == pytest.approx(ends[1], abs=RANDOM_TOLERANCE)
        assert ends[0] < np.mean(losses[:3])
    else:
        np.testing.assert_allclose(losses, case["losses"], rtol=0, atol=TOLERANCE)


def test_what_is_frozen_below_is_cut_off_and_comes_back_with_the_export(
    make: Make, tmp_path: Path
) -> None:
    prepared = make(perceptron(), trainable=("w1", "b1"), divide=True)
    assert prepared.artifacts.prefix_model is not None
    x = np.random.default_rng(0).standard_normal((9, 6)).astype(np.float32)
    prefix = open_session(prepared.artifacts.prefix_model, threads=1)
    features = prefix.run(None, {"x": x})
    engine = open_engine(prepared, threads=2)
    labels = np.arange(9) % 3
    before, _ = engine.evaluate(features, labels)
    for _ in range(30):
        engine.train_batch(features, labels)
        engine.step(0.01)
    after, expected = engine.evaluate(features, labels)
    assert after < before
    engine.export(tmp_path / "model.onnx")
    session = open_session(tmp_path / "model.onnx", threads=1)
    (logits,) = session.run(None, {"x": x})
    np.testing.assert_allclose(logits, expected, rtol=1e-4, atol=1e-6)


def test_other_outputs_come_back_with_the_export(make: Make, tmp_path: Path) -> None:
    model = perceptron()
    model.graph.node.append(make_node("Softmax", ["logits"], ["probabilities"], "softmax"))
    value = onnx.helper.make_tensor_value_info("probabilities", FLOAT, ["batch", 3])
    model.graph.output.append(value)
    prepared = make(model, output="logits")
    engine = open_engine(prepared)
    engine.export(tmp_path / "model.onnx")
    session = open_session(tmp_path / "model.onnx", threads=1)
    assert [output.name for output in session.get_outputs()] == ["logits", "probabilities"]
    _, probabilities = session.run(None, {"x": np.ones((2, 6), np.float32)})
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-5)


def test_a_model_whose_rows_depend_on_each_other_keeps_its_batches_whole(make: Make) -> None:
    nodes = [
        make_node("ReduceMean", ["x"], ["mean"], "mean", axes=[0]),
        make_node("Sub", ["x", "mean"], ["centred"], "centred"),
        make_node("MatMul", ["centred", "w"], ["logits"], "product"),
    ]
    w = from_array(np.random.default_rng(0).standard_normal((6, 3)).astype(np.float32), "w")
    model = model_of(nodes, {"x": ["batch", 6]}, {"logits": ["batch", 3]}, [w])
    prepared = make(model)
    x = np.random.default_rng(1).standard_normal((8, 6)).astype(np.float32)
    labels = np.arange(8) % 3
    losses = [open_engine(prepared, threads=each).train_batch([x], labels) for each in (1, 3)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


def test_a_loss_that_is_no_number_is_refused(make: Make) -> None:
    model = perceptron()
    model.graph.initializer[0].CopyFrom(from_array(np.full((6, 8), np.nan, np.float32), "w0"))
    with pytest.raises(GraphRefused, match="a loss that is not a number"):
        make(model)


def test_every_node_without_a_gradient_is_named_at_once(tmp_path: Path) -> None:
    nodes = [
        make_node("MatMul", ["x", "w"], ["h"], "product"),
        make_node("Det", ["h"], ["d"], "first"),
        make_node("Unsqueeze", ["d", "axis"], ["e"], "second"),
        make_node("Concat", ["e", "e", "e"], ["logits"], "third", axis=1),
    ]
    weights = [from_array(np.eye(3, dtype=np.float32), "w"), from_array(np.array([1]), "axis")]
    model = model_of(nodes, {"x": ["batch", 3, 3]}, {"logits": ["batch", 3]}, weights)
    onnx.save(model, tmp_path / "upload.onnx")
    order = Prepare(
        source=str(tmp_path / "upload.onnx"),
        form="forward",
        work_dir=str(tmp_path / "made"),
        loss="cross_entropy",
        trainable=("w",),
        engine="sessions",
    )
    answer = prepare(order)
    assert isinstance(answer, Refused)
    assert [problem.pointer for problem in answer.problems] == ["/model/graph/node/first"]


@pytest.mark.parametrize("name", ["cnn_bn_live_ts15", "transformer_live_ts17", "lstm_dy18"])
def test_what_was_trained_is_exported_for_plain_inference(
    name: str, make: Make, tmp_path: Path
) -> None:
    """Statistics that moved included, and Dropout switched off."""
    (case,) = (each for each in CURVES if each["name"] == name)
    prepared = make(GRAPHS / f"{name}.onnx", loss=case["loss"])
    engine = open_engine(prepared, optimizer_options=OptimizerOptions(case["optimizer"]), threads=2)
    with np.load(GRAPHS / "data.npz") as data:
        x, y = data[case["input"]][:5], data["label"][:5]
    for _ in range(3):
        engine.train_batch([x], y)
        engine.step(0.05)
    engine.export(tmp_path / "model.onnx")
    onnx.checker.check_model(tmp_path / "model.onnx", full_check=True)
    session = open_session(tmp_path / "model.onnx", threads=1)
    (found,) = session.run([prepared.output], {case["input"]: x})
    np.testing.assert_allclose(found, engine.evaluate([x], y)[1], rtol=1e-4, atol=1e-5)


def normalized() -> onnx.ModelProto:
    """x [batch, 6] → BatchNormalization by kept statistics → logits [batch, 3]."""
    weights = {
        "scale": np.ones(6, np.float32),
        "shift": np.zeros(6, np.float32),
        "mean": np.zeros(6, np.float32),
        "variance": np.ones(6, np.float32),
        "w": np.random.default_rng(0).standard_normal((6, 3)).astype(np.float32),
    }
    names = ["x", "scale", "shift", "mean", "variance"]
    nodes = [
        make_node("BatchNormalization", names, ["h"], "norm", momentum=0.75),
        make_node("MatMul", ["h", "w"], ["logits"], "head"),
    ]
    initializers = [onnx.numpy_helper.from_array(array, name) for name, array in weights.items()]
    return model_of(nodes, {"x": ["batch", 6]}, {"logits": ["batch", 3]}, initializers)


@pytest.mark.parametrize("batch_norm", ["inference", "training"])
def test_batch_normalization_keeps_its_statistics_unless_the_batches_are_asked_for(
    make: Make, tmp_path: Path, batch_norm: str
) -> None:
    prepared = make(normalized(), batch_norm=batch_norm)
    engine = open_engine(prepared)
    x = np.random.default_rng(1).standard_normal((9, 6)).astype(np.float32) + 3
    engine.train_batch([x], np.arange(9) % 3)
    engine.step(0.01)
    engine.export(tmp_path / "model.onnx")
    exported = {
        initializer.name: onnx.numpy_helper.to_array(initializer)
        for initializer in onnx.load_model(tmp_path / "model.onnx").graph.initializer
    }
    moved = 0.25 * x.mean(axis=0) if batch_norm == "training" else np.zeros(6)
    np.testing.assert_allclose(exported["mean"], moved, rtol=1e-5)
    assert not np.allclose(exported["scale"], 1)


def test_a_model_whose_batch_normalization_was_folded_says_that_batches_change_nothing(
    make: Make,
) -> None:
    told = [make(model, batch_norm="training").notes for model in (perceptron(), normalized())]
    assert ["no BatchNormalization" in " ".join(notes) for notes in told] == [True, False]
    assert "no BatchNormalization" not in " ".join(make(perceptron()).notes)


def test_unequal_parts_of_a_sequence_are_exported_so_that_they_run(
    make: Make, tmp_path: Path
) -> None:
    """As PyTorch's exporter writes `split` with optimize=False. One part could be in the memory of
    another.
    """
    w = np.random.default_rng(0).standard_normal((6, 4)).astype(np.float32)
    nodes = [make_node("SplitToSequence", ["w", "sizes"], ["parts"], "split", axis=0)]
    for place in ("first", "second"):
        nodes += [
            make_node("SequenceAt", ["parts", place], [f"{place}.part"], f"{place}.take"),
            make_node("Transpose", [f"{place}.part"], [f"{place}.turned"], perm=[1, 0]),
            make_node("MatMul", ["x", f"{place}.turned"], [f"{place}.logits"], f"{place}.product"),
        ]
    nodes.append(make_node("Concat", ["first.logits", "second.logits"], ["logits"], axis=1))
    numbers = {"sizes": np.array([2, 4]), "first": np.array(0), "second": np.array(1)}
    tensors = [from_array(array, name) for name, array in {"w": w, **numbers}.items()]
    model = model_of(nodes, {"x": ["batch", 4]}, {"logits": ["batch", 6]}, tensors)
    open_engine(make(model)).export(tmp_path / "model.onnx")
    x = np.eye(4, dtype=np.float32)
    (logits,) = open_session(tmp_path / "model.onnx", threads=1).run(None, {"x": x})
    np.testing.assert_allclose(logits, w.T, rtol=1e-6)


def test_huber_is_squared_up_to_one_and_straight_beyond(make: Make) -> None:
    prepared = make(perceptron(), loss="huber")
    engine = open_engine(prepared)
    x = np.random.default_rng(2).standard_normal((8, 6)).astype(np.float32)
    _, output = engine.evaluate([x], np.zeros((8, 3), np.float32))
    target = (output + np.linspace(-3, 3, 24).reshape(8, 3)).astype(np.float32)
    loss, _ = engine.evaluate([x], target)
    error = np.abs(target - output)
    expected = np.where(error < 1, error**2 / 2, error - 0.5)
    assert loss == pytest.approx(expected.mean(), rel=1e-5)
    assert TASKS["huber"].metric("loss").of_samples(output, target) == pytest.approx(
        expected.mean(axis=1), rel=1e-5
    )


def test_shapes_that_only_a_run_tells_hold_for_every_step_of_a_model(tmp_path: Path) -> None:
    """With `allowzero`, ONNX's inference finds no -1: PyTorch's LocalResponseNorm is written so."""
    nodes = [
        make_node("MatMul", ["x", "w"], ["h"], name="first"),
        make_node("Shape", ["x"], ["shape"], name="shape"),
        make_node("ReduceProd", ["shape"], ["numbers"], name="numbers", keepdims=1),
        make_node("Div", ["numbers", "width"], ["rows"], name="rows"),
        make_node("Concat", ["rows", "rest"], ["to"], name="to", axis=0),
        make_node("Reshape", ["h", "to"], ["image"], name="image", allowzero=1),
        make_node("AveragePool", ["image"], ["mean"], name="mean", kernel_shape=[2, 2]),
        make_node("Flatten", ["mean"], ["y"], name="flat"),
    ]
    rng = np.random.default_rng(0)
    weights = [
        from_array(rng.standard_normal((6, 8)).astype(np.float32), "w"),
        from_array(np.array([1, 2, -1]), "rest"),
        from_array(np.array([6]), "width"),
    ]
    model = model_of(nodes, {"x": ["batch", 6]}, {"y": ["batch", 3]}, weights)
    (tmp_path / "model.onnx").write_bytes(model.SerializeToString())
    order = Prepare(str(tmp_path / "model.onnx"), "forward", str(tmp_path), loss="cross_entropy")
    assert isinstance(prepare(order), Prepared), prepare(order)


@pytest.mark.parametrize(
    ("spec", "found"),
    [({}, True), ({"trainable": ("w1", "b1")}, True), ({"trainable": ("w0", "b0")}, False)],
)
def test_the_manifest_tells_the_head_of_a_classifier_if_it_trains(
    make: Make, spec: dict[str, Any], found: bool
) -> None:
    made = make(perceptron(), loss="cross_entropy", **spec)
    head = read_manifest(Path(made.artifacts.manifest or "")).head
    assert (head is not None) is found
    if head is not None:
        assert (head.weight, head.bias, head.features, head.classes) == ("w1", "b1", "t", (0, 1, 2))


def test_a_model_of_numbers_has_no_head(make: Make) -> None:
    made = make(perceptron(), loss="mse")
    assert read_manifest(Path(made.artifacts.manifest or "")).head is None
