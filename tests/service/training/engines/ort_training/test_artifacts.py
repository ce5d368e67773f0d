"""Artifacts train as asked for: loss, optimizer, decay, clipping, frozen parameters."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

from service.training.engines.opening import open_engine
from service.training.protocol.messages.preparation import Prepared

node = helper.make_node
ROWS = 4


@pytest.fixture
def mlp(graphs: Any) -> onnx.ModelProto:
    return graphs.around(node("Tanh", ["h"], ["g"], name="t"))


def batch(columns: int = 3) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(4)
    x = generator.standard_normal((ROWS, 6)).astype(np.float32)
    return x, generator.random((ROWS, columns)).astype(np.float32)


def forward(model: onnx.ModelProto, x: np.ndarray) -> np.ndarray:
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    return session.run(None, {"x": x})[0].astype(np.float64)


LOSSES: dict[str, Callable[[np.ndarray, np.ndarray], float]] = {
    "mse": lambda y, t: float(np.mean((y - t) ** 2)),
    "l1": lambda y, t: float(np.mean(np.abs(y - t))),
    "bce_with_logits": lambda y, t: float(
        np.mean(-t * np.log(1 / (1 + np.exp(-y))) - (1 - t) * np.log(1 / (1 + np.exp(y))))
    ),
    "cross_entropy": lambda y, t: float(
        -np.mean(np.log(np.exp(y) / np.exp(y).sum(1, keepdims=True))[np.arange(len(t)), t])
    ),
}


@pytest.mark.parametrize("loss", LOSSES)
def test_each_loss_is_the_mean_that_its_name_says(
    loss: str, mlp: onnx.ModelProto, accept: Callable[..., Prepared], trainer: type
) -> None:
    x, target = batch()
    if loss == "cross_entropy":
        target = np.array([0, 2, 1, 2])
    engine = trainer(accept(mlp, loss=loss).artifacts)
    found, output = engine.evaluate(x, target)
    expected = forward(mlp, x)
    np.testing.assert_allclose(output, expected, rtol=0, atol=1e-6)
    assert found == pytest.approx(LOSSES[loss](expected, target), rel=1e-5)


def test_bce_stays_finite_for_logits_of_any_size(
    mlp: onnx.ModelProto, accept: Callable[..., Prepared], trainer: type
) -> None:
    prepared = accept(mlp, loss="bce_with_logits", output="h", optimizer="sgd")
    engine = trainer(prepared.artifacts)
    x, target = batch(5)
    gradients = engine.gradients(prepared.trainable, x * 1000, np.round(target))
    assert all(np.all(np.isfinite(value)) for value in gradients.values())


def test_cross_entropy_takes_the_classes_of_axis_1_at_every_position(
    graphs: Any, accept: Callable[..., Prepared], trainer: type
) -> None:
    model = graphs.model(
        [node("Conv", ["x", "k"], ["y"], name="conv")],
        {"k": np.random.default_rng(0).standard_normal((4, 2, 1)).astype(np.float32)},
        x=("batch", 2, 5),
        y=("batch", 4, 5),
    )
    prepared = accept(model, loss="cross_entropy")
    target = prepared.signature.target
    assert (target.dtype, target.shape, target.num_classes) == ("int64", (5,), 4)
    labels = np.random.default_rng(1).integers(0, 4, (3, 5))
    x = np.random.default_rng(2).standard_normal((3, 2, 5)).astype(np.float32)
    assert np.isfinite(trainer(prepared.artifacts).step(x, labels, learning_rate=0.1))


def test_weight_decay_shrinks_the_weights_as_in_pytorch(
    mlp: onnx.ModelProto, accept: Callable[..., Prepared], trainer: type
) -> None:
    x, target = batch()
    moved = []
    for decay in (0.0, 0.5):
        engine = trainer(accept(copy.deepcopy(mlp), weight_decay=decay).artifacts)
        before = engine.parameter("w")
        engine.step(x, target, learning_rate=0.1)
        moved.append(engine.parameter("w"))
    np.testing.assert_allclose(moved[0] - moved[1], 0.1 * 0.5 * before, rtol=0, atol=1e-6)


def test_gradients_are_clipped_to_the_norm(
    mlp: onnx.ModelProto, accept: Callable[..., Prepared], trainer: type
) -> None:
    prepared = accept(mlp, optimizer="sgd", max_grad_norm=0.01)
    x, target = batch()
    gradients = trainer(prepared.artifacts).gradients(prepared.trainable, x, target * 100)
    norm = np.sqrt(sum(float((value**2).sum()) for value in gradients.values()))
    assert norm == pytest.approx(0.01, rel=1e-3)


def test_frozen_parameters_stay_and_are_counted(
    mlp: onnx.ModelProto, accept: Callable[..., Prepared], trainer: type
) -> None:
    prepared = accept(mlp, trainable=("v",))
    assert (prepared.trainable, prepared.trainable_parameters) == (("v",), 15)
    assert prepared.frozen_parameters == 35
    engine = trainer(prepared.artifacts)
    before = engine.parameter("w")
    engine.step(*batch(), learning_rate=0.1)
    np.testing.assert_array_equal(engine.parameter("w"), before)


def test_version_1_is_the_upload_byte_for_byte(
    mlp: onnx.ModelProto, accept: Callable[..., Prepared]
) -> None:
    assert Path(accept(mlp).base_model).read_bytes() == mlp.SerializeToString()


def test_version_1_of_a_model_exported_for_training_infers(
    graphs: Any, accept: Callable[..., Prepared]
) -> None:
    dropout = node("Dropout", ["h", "ratio", "on"], ["g"], name="drop")
    model = graphs.around(dropout, ratio=np.float32(0.5), on=np.array(True))
    prepared = accept(model)
    base = onnx.load(prepared.base_model)
    x, _ = batch()
    np.testing.assert_array_equal(forward(base, x), forward(base, x))


def test_all_files_load_with_the_engines_ir_and_opsets(
    mlp: onnx.ModelProto, accept: Callable[..., Prepared]
) -> None:
    artifacts = accept(mlp).artifacts
    for path in (artifacts.training_model, artifacts.eval_model, artifacts.optimizer_model):
        model = onnx.load(path)
        assert model.ir_version <= 10
        used = {made.domain for made in model.graph.node} | {""}
        assert {opset.domain for opset in model.opset_import} <= used


@pytest.mark.parametrize(("own", "name"), [("t", "target"), ("target", "hone.target")])
def test_the_target_has_one_name_in_both_models_which_apps_rely_on(
    own: str, name: str, mlp: onnx.ModelProto, accept: Callable[..., Prepared]
) -> None:
    for node in mlp.graph.node:
        node.input[:] = [own if read == "g" else read for read in node.input]
        node.output[:] = [own if written == "g" else written for written in node.output]
    artifacts = accept(mlp).artifacts
    for path in (artifacts.training_model, artifacts.eval_model):
        assert onnx.load(path).graph.input[1].name == name


def test_generating_writes_nothing_to_stderr(
    mlp: onnx.ModelProto, accept: Callable[..., Prepared], capfd: pytest.CaptureFixture[str]
) -> None:
    accept(mlp)
    assert capfd.readouterr() == ("", "")


def test_a_refused_graph_tells_its_problems(
    mlp: onnx.ModelProto, refuse: Callable[..., dict[str, str]]
) -> None:
    assert set(refuse(mlp, loss="hinge")) == {"/spec/loss"}


def test_frozen_weights_lie_in_the_checkpoint_and_in_no_model(
    mlp: onnx.ModelProto, accept: Callable[..., Prepared]
) -> None:
    artifacts = accept(mlp, trainable=("v",)).artifacts
    for path in (artifacts.training_model, artifacts.eval_model):
        graph = onnx.load(path).graph
        assert {"w", "b", "v"} <= {value.name for value in graph.input}
        assert not {"w", "b", "v"} & {initializer.name for initializer in graph.initializer}


def test_dropout_repeats_with_its_seed_and_keeps_as_many_as_it_should(
    graphs: Any, accept: Callable[..., Prepared], tmp_path: Path
) -> None:
    """x summed over what is kept: every sample's loss is the sum of its kept numbers."""
    model = graphs.model(
        [
            node("Mul", ["x", "w"], ["h"], name="scale"),
            node("Dropout", ["h", "ratio", "on"], ["y"], name="drop"),
        ],
        {"w": np.ones(600, np.float32), "ratio": np.float32(0.25), "on": np.array(True)},
        x=("batch", 600),
        y=("batch", 600),
    )
    made = accept(model, loss="l1", optimizer="sgd", trainable=("w",))
    engine = open_engine(made.artifacts, output=made.output, threads=1)
    x, zero = np.ones((50, 600), np.float32), np.zeros((50, 600), np.float32)
    losses = []
    for seed in (1, 1, 2):
        engine.seed(seed)
        losses.append(engine.train_batch([x], zero))
    assert losses[0] == losses[1] != losses[2]
    assert losses == pytest.approx([1.0] * 3, abs=0.02)
    assert engine.evaluate([x], zero)[0] == pytest.approx(1.0, rel=1e-6)


def test_token_ids_and_several_inputs_keep_their_order_and_types(
    graphs: Any, accept: Callable[..., Prepared]
) -> None:
    generator = np.random.default_rng(0)
    model = graphs.model(
        [
            node("Gather", ["table", "x"], ["e"], name="embed"),
            node("ReduceMean", ["e"], ["m"], name="mean", axes=[1], keepdims=0),
            node("Concat", ["m", "extra"], ["c"], name="join", axis=1),
            node("Gemm", ["c", "w"], ["y"], name="head"),
        ],
        {
            "table": generator.standard_normal((9, 4)).astype(np.float32),
            "w": generator.standard_normal((6, 3)).astype(np.float32),
        },
        x=("batch", 7),
        x_type=onnx.TensorProto.INT64,
    )
    model.graph.input.append(
        helper.make_tensor_value_info("extra", onnx.TensorProto.FLOAT, ["batch", 2])
    )
    prepared = accept(model, loss="cross_entropy", classes=("a", "b", "c"))
    assert [(i.name, i.dtype, i.shape) for i in prepared.signature.inputs] == [
        ("x", "int64", (7,)),
        ("extra", "float32", (2,)),
    ]
    assert prepared.trainable == ("table", "w")
    assert prepared.signature.target.classes == ("a", "b", "c")
