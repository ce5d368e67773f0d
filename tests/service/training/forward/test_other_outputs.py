"""A model's outputs that do not train are in every version, computed with the trained weights."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from service.training.engines.opening import open_engine
from service.training.protocol.messages.preparation import Prepared

node = helper.make_node
SOFTMAX = node("Softmax", ["y"], ["probabilities"], name="softmax", axis=1)
HEADS = [
    node("MatMul", ["h", "r"], ["height"], name="second_head"),
    node("ReduceL2", ["h"], ["size"], name="size", axes=[1]),
    node("Div", ["h", "size"], ["embedding"], name="embedding"),
]
RELU = node("Relu", ["h"], ["g"], name="relu")


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def with_outputs(model: onnx.ModelProto, names: list[str], *nodes: onnx.NodeProto) -> Any:
    model.graph.node.extend(nodes)
    del model.graph.output[:]
    model.graph.output.extend(
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", None]) for name in names
    )
    return model


def run(model: onnx.ModelProto | Path | str, x: np.ndarray) -> dict[str, np.ndarray]:
    source = model.SerializeToString() if isinstance(model, onnx.ModelProto) else str(model)
    session = onnxruntime.InferenceSession(source, providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_outputs()]
    return dict(zip(names, session.run(None, {"x": x}), strict=True))


def train_and_export(prepared: Prepared, folder: Path, *, steps: int) -> Path:
    engine = open_engine(prepared.artifacts, output=prepared.output, threads=1)
    shape = prepared.signature.target.shape
    for step in range(steps):
        feeds = [normal(8, *spec.shape, seed=step) for spec in prepared.signature.inputs]
        if prepared.artifacts.prefix_model is not None:
            feeds = list(run(prepared.artifacts.prefix_model, feeds[0]).values())
        engine.train_batch(feeds, normal(8, *shape, seed=100 + step))
        engine.step(0.05)
    path = folder / f"after-{steps}.onnx"
    engine.export(path)
    return path


def with_weights_of(uploaded: onnx.ModelProto, exported: Path) -> onnx.ModelProto:
    """The upload, each initializer as the exported model has it under the same name."""
    trained = {t.name: t for t in onnx.load_model(exported).graph.initializer}
    copy = onnx.ModelProto()
    copy.CopyFrom(uploaded)
    for tensor in copy.graph.initializer:
        if tensor.data_type == TensorProto.FLOAT:
            tensor.CopyFrom(trained[tensor.name])
    return copy


@pytest.mark.parametrize("trainable", [None, ["v"]], ids=["whole", "cut"])
def test_all_outputs_are_given_in_their_order_with_trained_weights(
    trainable: list[str] | None, graphs: Any, accept: Callable[..., Prepared], tmp_path: Path
) -> None:
    model = graphs.around(RELU, r=normal(5, 2, seed=9))
    names = ["height", "y", "embedding"]
    uploaded = with_outputs(model, names, *HEADS)
    prepared = accept(uploaded, output="y", optimizer="sgd", trainable=trainable, divide=True)
    assert (prepared.artifacts.prefix_model is not None) == (trainable is not None)

    fresh = train_and_export(prepared, tmp_path, steps=0)
    trained = train_and_export(prepared, tmp_path, steps=3)

    x = normal(7, 6, seed=50)
    before, after = run(uploaded, x), run(trained, x)
    assert list(after) == names
    for name, values in run(fresh, x).items():
        np.testing.assert_allclose(values, before[name], rtol=1e-4, atol=1e-5)
    for name, values in run(with_weights_of(uploaded, trained), x).items():
        np.testing.assert_allclose(after[name], values, rtol=1e-4, atol=1e-5)
    assert not np.allclose(after["y"], before["y"])
    assert np.allclose(after["embedding"], before["embedding"]) == (trainable is not None)


def test_an_inner_tensor_that_trains_is_one_output_more_in_every_version(
    graphs: Any, accept: Callable[..., Prepared], tmp_path: Path
) -> None:
    uploaded = with_outputs(graphs.around(RELU), ["probabilities"], SOFTMAX)
    prepared = accept(uploaded, output="y")

    trained = run(train_and_export(prepared, tmp_path, steps=3), x := normal(4, 6, seed=3))
    first = run(prepared.base_model, x)

    assert list(trained) == list(first) == ["probabilities", "y"]
    for version in (first, trained):
        powers = np.exp(version["y"])
        expected = powers / powers.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(version["probabilities"], expected, rtol=1e-4)
    np.testing.assert_array_equal(first["probabilities"], run(uploaded, x)["probabilities"])
    assert any('one output more, "y"' in note for note in prepared.notes)


def test_a_model_with_one_output_is_version_1_as_it_came(
    graphs: Any, accept: Callable[..., Prepared]
) -> None:
    uploaded = graphs.around(RELU)
    prepared = accept(uploaded)

    assert Path(prepared.base_model).read_bytes() == uploaded.SerializeToString()
    assert prepared.artifacts.remainder_model is None


def test_an_output_of_another_input_is_lost_and_the_model_says_so(
    graphs: Any, accept: Callable[..., Prepared], tmp_path: Path
) -> None:
    model = graphs.around(RELU, r=normal(3, 2))
    model.graph.input.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, ["batch", 3]))
    other = node("MatMul", ["z", "r"], ["other"], name="other")
    uploaded = with_outputs(model, ["y", "other"], other)

    prepared = accept(uploaded, output="y")

    assert list(run(train_and_export(prepared, tmp_path, steps=1), normal(2, 6))) == ["y"]
    (note,) = [note for note in prepared.notes if "do not have the outputs" in note]
    assert "other" in note


def test_an_output_of_a_rewritten_weight_is_computed_right_or_lost(
    graphs: Any, accept: Callable[..., Prepared], tmp_path: Path
) -> None:
    """BatchNormalization is folded away in training; what reads its input must not go wrong."""
    bn = node("BatchNormalization", ["h", "s", "t", "m", "q"], ["g"], name="bn")
    weights = {"s": normal(5) + 2, "t": normal(5, seed=1), "m": normal(5, seed=2)}
    model = graphs.around(bn, **weights, q=np.abs(normal(5, seed=3)) + 1)
    uploaded = with_outputs(model, ["y", "h", "g"])

    prepared = accept(uploaded, output="y")
    fresh = run(train_and_export(prepared, tmp_path, steps=0), x := normal(3, 6, seed=8))

    expected = run(uploaded, x)
    assert set(fresh) | {
        name for note in prepared.notes for name in ("h", "g") if name in note
    } >= {
        "y",
        "h",
        "g",
    }
    for name, values in fresh.items():
        np.testing.assert_allclose(values, expected[name], rtol=1e-4, atol=1e-5)


def test_of_weights_only_those_that_training_lacks_are_kept_twice(
    graphs: Any, accept: Callable[..., Prepared]
) -> None:
    model = graphs.around(RELU, r=normal(5, 2, seed=9))
    prepared = accept(with_outputs(model, ["y", "height"], HEADS[0]), output="y")
    folder = Path(prepared.artifacts.training_model).parent
    fragment = onnx.load_model(folder / "remainder_model.onnx")

    (kept,) = fragment.graph.initializer
    np.testing.assert_array_equal(numpy_helper.to_array(kept), normal(5, 2, seed=9))


def test_an_output_that_shares_its_node_with_the_trained_part_is_given(
    graphs: Any, accept: Callable[..., Prepared], tmp_path: Path
) -> None:
    """Training slices the part that it needs out of the Split; the other part is the app's."""
    parts = node("Split", ["h", "sizes"], ["g", "rest"], name="split", axis=1)
    model = graphs.around(parts, out=3, sizes=np.array([3, 2], np.int64))
    uploaded = with_outputs(model, ["y", "rest"])
    prepared = accept(uploaded, output="y", optimizer="sgd")

    trained = train_and_export(prepared, tmp_path, steps=2)

    x = normal(4, 6, seed=5)
    expected = run(with_weights_of(uploaded, trained), x)
    assert list(run(trained, x)) == ["y", "rest"]
    for name, values in run(trained, x).items():
        np.testing.assert_allclose(values, expected[name], rtol=1e-4, atol=1e-5)


def test_an_output_that_is_no_tensor_is_lost_and_refuses_nothing(
    graphs: Any, accept: Callable[..., Prepared], tmp_path: Path
) -> None:
    uploaded = graphs.around(RELU)
    uploaded.graph.node.append(node("SequenceConstruct", ["h", "g"], ["list"], name="list"))
    tensor = helper.make_tensor_type_proto(TensorProto.FLOAT, None)
    uploaded.graph.output.append(
        helper.make_value_info("list", helper.make_sequence_type_proto(tensor))
    )

    prepared = accept(uploaded, output="y")

    assert list(run(train_and_export(prepared, tmp_path, steps=1), normal(2, 6))) == ["y"]
    assert any("do not have the outputs list" in note for note in prepared.notes)
