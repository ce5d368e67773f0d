"""Other forms of a model, measured beside it: in a real child, on a real store."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from linear_models import CLASSES, FEATURES, GOOD, linear, measurement
from onnx import TensorProto, helper, numpy_helper

from service.training.protocol.messages.comparison import Convert, Converted
from service.training.protocol.messages.shared import Failed, ResourceLimits


@pytest.fixture
def convert(spawn: Callable[..., Any], tmp_path: Path) -> Callable[..., Any]:
    def convert(workshop: Any, source: Path, variant: Any, **more: Any) -> Any:
        folder = tmp_path / "made"
        folder.mkdir()
        order = Convert(
            source=str(source),
            variant=variant,
            work_dir=str(folder),
            measurement=measurement(workshop, **more),
            limits=ResourceLimits(nice=0),
        )
        return spawn(order).last()

    return convert


def test_an_int8_form_is_measured_beside_its_source_and_keeps_its_provenance(
    make_workshop: Callable[..., Any], convert: Callable[..., Any], tmp_path: Path
) -> None:
    workshop = make_workshop(train=100, validation=60)
    answer = convert(workshop, linear(tmp_path / "source.onnx", GOOD), "int8")
    assert isinstance(answer, Converted), answer
    assert answer.method in ("static", "dynamic")
    assert answer.validation.baseline is not None
    assert answer.validation.baseline["accuracy"] == 1.0
    assert answer.validation.candidate["accuracy"] > 0.9
    model = onnx.load(answer.path)
    onnx.checker.check_model(model)
    assert any(tensor.data_type == TensorProto.INT8 for tensor in model.graph.initializer)
    properties = {entry.key: entry.value for entry in model.metadata_props}
    assert properties["author"] == "me"
    assert properties["hone.job_id"] == "7"
    assert properties["hone.variant"] == "int8"
    assert properties["hone.quantization"] == answer.method


def test_without_calibration_samples_quantization_is_dynamic(
    make_workshop: Callable[..., Any], convert: Callable[..., Any], tmp_path: Path
) -> None:
    workshop = make_workshop(train=0, validation=60)
    answer = convert(workshop, linear(tmp_path / "source.onnx", GOOD), "int8")
    assert isinstance(answer, Converted), answer
    assert answer.method == "dynamic"


def test_an_ort_form_computes_the_same(
    make_workshop: Callable[..., Any], convert: Callable[..., Any], tmp_path: Path
) -> None:
    workshop = make_workshop(train=10, validation=60)
    source = linear(tmp_path / "source.onnx", GOOD)
    answer = convert(workshop, source, "ort")
    assert isinstance(answer, Converted), answer
    x = np.random.default_rng(0).standard_normal((5, FEATURES)).astype(np.float32)
    outputs = [
        onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, {"x": x})[
            0
        ]
        for path in (str(source), answer.path)
    ]
    np.testing.assert_allclose(*outputs, rtol=1e-5)


def test_a_model_without_a_layer_to_quantize_is_refused(
    make_workshop: Callable[..., Any], convert: Callable[..., Any], tmp_path: Path
) -> None:
    workshop = make_workshop(train=10, validation=60)
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Slice", ["x", "start", "end", "axis"], ["logits"], name="part")],
        "slice",
        [value("x", TensorProto.FLOAT, ["batch", FEATURES])],
        [value("logits", TensorProto.FLOAT, ["batch", CLASSES])],
        [
            numpy_helper.from_array(np.array([number]), name)
            for name, number in (("start", 0), ("end", CLASSES), ("axis", 1))
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, tmp_path / "slice.onnx")
    answer = convert(workshop, tmp_path / "slice.onnx", "int8")
    assert isinstance(answer, Failed)
    assert answer.code == "variant_refused"
