"""Updates as the daemon writes them and the server reads them, and models that it writes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from honed_flower.onnx_file import Model
from honed_flower.updates import METADATA, BadUpdate, norm, read_update, to_file
from onnx import TensorProto, helper, numpy_helper
from safetensors.numpy import save, save_file
from support import mlp

from service.training.updates import compression

SHAPES = {"layer0.weight": (6, 5), "layer0.bias": (5,), "layer1.weight": (5, 3)}


def tensors(seed: int = 0) -> dict[str, np.ndarray]:
    draws = np.random.default_rng(seed)
    return {name: draws.standard_normal(each).astype(np.float32) for name, each in SHAPES.items()}


def as_sent(**stored: np.ndarray) -> bytes:
    return save(stored, {METADATA: json.dumps({"compression": "none"})})


@pytest.mark.parametrize("kind", ["none", "int8", "top_k"])
def test_an_update_is_read_as_the_daemon_reads_it(kind: str, tmp_path: Path) -> None:
    file = tmp_path / "update.safetensors"
    meant = compression.write_update(file, tensors(), kind, share=0.2, facts={})  # type: ignore[arg-type]
    found = read_update(file.read_bytes(), SHAPES)
    assert list(found) == sorted(SHAPES)
    for name, values in found.items():
        np.testing.assert_array_equal(values, meant[name])


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"layer0.bias": None}, "'layer0.bias' is missing"),
        ({"layer9.bias": np.zeros(2, np.float32)}, "the model trains no 'layer9.bias'"),
        ({"layer0.bias": np.zeros(6, np.float32)}, r"is \[6\], the model has \[5\]"),
        ({"layer0.bias": np.zeros(5, np.int64)}, "is int64, not float32"),
        ({"layer0.bias": np.full(5, np.nan, np.float32)}, "no finite number"),
    ],
)
def test_what_is_no_update_of_the_model_is_named(change: dict[str, object], told: str) -> None:
    changed = {name: each for name, each in {**tensors(), **change}.items() if each is not None}
    with pytest.raises(BadUpdate, match=told):
        read_update(as_sent(**changed), SHAPES)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "content", [b"", b"x" * 40, save({"hone.scales": np.zeros(1, np.float32)})]
)
def test_what_is_no_file_is_refused(content: bytes) -> None:
    with pytest.raises(BadUpdate):
        read_update(content, SHAPES)


def test_places_beyond_the_model_are_refused() -> None:
    about = {METADATA: json.dumps({"compression": "top_k", "shapes": {"x": [10**12]}})}
    places = np.array([10**6], np.uint32)
    content = save({"hone.indices": places, "hone.values": np.ones(1, np.float32)}, about)
    with pytest.raises(BadUpdate, match="IndexError"):
        read_update(content, SHAPES)


def test_the_norm_is_of_all_tensors_as_one_vector() -> None:
    assert norm({"a": np.full(9, 1, np.float32), "b": np.full(16, 1, np.float32)}) == 5.0


def model_file(tmp_path: Path) -> Path:
    path = tmp_path / "m.onnx"
    path.write_bytes(mlp(6, 5, 3))
    return path


def test_what_trains_is_in_the_order_of_its_names(tmp_path: Path) -> None:
    model = Model(model_file(tmp_path), trainable=[], parameters=None)
    names = ["layer0.bias", "layer0.weight", "layer1.bias", "layer1.weight"]
    assert list(model.parameters) == names
    only = Model(model_file(tmp_path), trainable=["layer1.*"], parameters=None)
    assert list(only.parameters) == names[2:]


def test_a_model_is_written_with_other_parameters_and_nothing_else_changed(tmp_path: Path) -> None:
    path = model_file(tmp_path)
    model = Model(path, trainable=["layer1.*"], parameters=None)
    doubled = {name: 2 * values + 1 for name, values in model.parameters.items()}
    model.save(doubled, tmp_path / "runs" / "round.onnx")
    before, after = onnx.load(path), onnx.load(tmp_path / "runs" / "round.onnx")
    weights = {each.name: numpy_helper.to_array(each) for each in after.graph.initializer}
    for initializer in before.graph.initializer:
        expected = doubled.get(initializer.name, numpy_helper.to_array(initializer))
        np.testing.assert_array_equal(weights[initializer.name], expected)
    assert before.graph.node == after.graph.node


def test_running_statistics_do_not_train(tmp_path: Path) -> None:
    names = ["scale", "shift", "mean", "variance"]
    node = helper.make_node("BatchNormalization", ["x", *names], ["y"])
    ends = [helper.make_tensor_value_info(each, TensorProto.FLOAT, ["N", 4]) for each in "xy"]
    weights = [numpy_helper.from_array(np.ones(4, np.float32), name) for name in names]
    graph = helper.make_graph([node], "norm", ends[:1], ends[1:], weights)
    path = tmp_path / "norm.onnx"
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), path)
    assert list(Model(path, trainable=[], parameters=None).parameters) == ["scale", "shift"]


def test_parameters_of_another_model_are_named(tmp_path: Path) -> None:
    path, given = model_file(tmp_path), tmp_path / "given.safetensors"
    save_file({"head": np.zeros(3, np.float32)}, given)
    with pytest.raises(ValueError, match=r"'head', which .* has not"):
        Model(path, trainable=[], parameters=given)
    save_file({"layer1.weight.lora_A": np.zeros((5, 2), np.float32)}, given)
    with pytest.raises(ValueError, match="has not, an adapter: Flower takes models without"):
        Model(path, trainable=[], parameters=given)
    save_file({"layer1.bias": np.zeros(4, np.float32)}, given)
    with pytest.raises(ValueError, match=r"float32 \[4\], .* as float32 \[3\]"):
        Model(path, trainable=[], parameters=given)
    with pytest.raises(ValueError, match="fits no weight"):
        Model(path, trainable=["head.*"], parameters=None)


def test_a_file_of_a_device_says_what_trains(tmp_path: Path) -> None:
    given = tmp_path / "given.safetensors"
    given.write_bytes(to_file({"layer1.bias": np.full(3, 7, np.float32)}))
    model = Model(model_file(tmp_path), trainable=[], parameters=given)
    np.testing.assert_array_equal(model.parameters["layer1.bias"], [7, 7, 7])
    assert len(model.parameters) == 1
