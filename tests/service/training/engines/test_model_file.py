"""Weights are put into an ONNX file as onnx itself would put them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx.numpy_helper import from_array, to_array
from step_models import perceptron

from service.training.engines.compilation import without
from service.training.engines.model_file import write_with
from service.training.errors import GraphRefused


@pytest.mark.parametrize(
    "array",
    [
        np.array(2.5, np.float32),
        np.zeros((0, 4), np.float32),
        np.arange(6, dtype=np.float32).reshape(2, 3),
        np.ones((3, 130, 70), np.float32),  # lengths of three bytes
    ],
    ids=lambda array: str(array.shape),
)
def test_a_tensor_is_written_as_onnx_writes_it(tmp_path: Path, array: np.ndarray) -> None:
    model = perceptron()
    model.metadata_props.add(key="author", value="me")
    model.doc_string = "behind the graph"
    onnx.save(model, tmp_path / "skeleton.onnx")
    tensors, metadata = {"größe": array}, {"hone.steps": "7", "hone.name": "größe"}
    write_with(tmp_path / "skeleton.onnx", tensors, tmp_path / "model.onnx", metadata)
    model.graph.initializer.append(from_array(array, "größe"))
    for key, value in metadata.items():
        model.metadata_props.add(key=key, value=value)
    assert onnx.load(tmp_path / "model.onnx") == model


def test_what_is_taken_out_can_be_put_back(tmp_path: Path) -> None:
    model = perceptron()
    skeleton, values = without(model, ["w1", "b0"])
    assert [initializer.name for initializer in skeleton.graph.initializer] == ["w0", "b1"]
    onnx.save(skeleton, tmp_path / "skeleton.onnx")
    write_with(tmp_path / "skeleton.onnx", values, tmp_path / "model.onnx")
    back = {
        each.name: to_array(each) for each in onnx.load(tmp_path / "model.onnx").graph.initializer
    }
    for initializer in model.graph.initializer:
        np.testing.assert_array_equal(back[initializer.name], to_array(initializer))


def test_tensors_that_cannot_train_are_refused_by_name() -> None:
    model = perceptron()
    half = to_array(model.graph.initializer[1]).astype(np.float16)
    model.graph.initializer[1].CopyFrom(from_array(half, "b0"))
    with pytest.raises(GraphRefused, match="b0, w7 cannot train: only float32 initializers"):
        without(model, ["w0", "b0", "w7"])
