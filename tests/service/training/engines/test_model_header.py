"""Outputs and metadata of ONNX files are read as onnx reads them, and without it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import onnx
import pytest
from onnx import helper

from service.training.engines.model_header import DTYPES, read_header
from storage.records.signatures import TensorSpec


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A model that passes on an input of every type."""
    values = [
        helper.make_tensor_value_info(f"{side}{kind}", kind, ["batch", *range(1, kind % 4)])
        for side in "xy"
        for kind in DTYPES
    ]
    half = len(values) // 2
    nodes = [helper.make_node("Identity", [f"x{kind}"], [f"y{kind}"]) for kind in DTYPES]
    graph = helper.make_graph(nodes, "all", values[:half], values[half:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    helper.set_model_props(model, {"hone.feature_dtype": "float16", "author": "é"})
    onnx.save(model, tmp_path / "model.onnx")
    return tmp_path / "model.onnx"


def test_names_types_and_shapes_are_those_that_onnx_reads(path: Path) -> None:
    outputs, metadata = read_header(path)
    expected = [
        TensorSpec(
            value.name,
            str(helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)),
            tuple(dim.dim_value for dim in value.type.tensor_type.shape.dim[1:]),
        )
        for value in onnx.load(path).graph.output
    ]
    assert list(outputs) == expected
    assert metadata == {"hone.feature_dtype": "float16", "author": "é"}


def test_a_frozen_part_is_opened_without_onnx(path: Path) -> None:
    code = (
        "import sys, pathlib; from service.training.data import features;"
        "features.read_header(pathlib.Path(sys.argv[1])); print('onnx' in sys.modules)"
    )
    command = [sys.executable, "-c", code, str(path)]
    assert subprocess.run(command, check=True, capture_output=True).stdout.strip() == b"False"
