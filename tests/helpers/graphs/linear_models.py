"""Models of one product, right or wrong on the fixtures' samples, and how they are measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from service.training.protocol.messages.shared import Measurement

FEATURES, CLASSES = 6, 3
GOOD = np.random.default_rng(3).standard_normal((FEATURES, CLASSES)).astype(np.float32)
"""What the labels of the fixtures were made with."""
BAD = -GOOD


def linear(
    path: Path,
    weights: Any,
    *,
    rows: int | str = "batch",
    ends_with: str | None = None,
    unused_input: bool = False,
) -> Path:
    value = helper.make_tensor_value_info
    nodes = [helper.make_node("MatMul", ["x", "w"], ["logits"], name="product")]
    inputs = [value("x", TensorProto.FLOAT, [rows, FEATURES])]
    output = "logits"
    if ends_with is not None:
        nodes.append(helper.make_node(ends_with, ["logits"], ["end"], name="end"))
        output = "end"
    if unused_input:
        inputs.append(value("unused", TensorProto.FLOAT, [rows, 1]))
        nodes.append(helper.make_node("Add", [output, "unused"], ["sum"], name="sum"))
        output = "sum"
    graph = helper.make_graph(
        nodes,
        "linear",
        inputs,
        [value(output, TensorProto.FLOAT, [rows, CLASSES])],
        [numpy_helper.from_array(np.asarray(weights, np.float32), "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    helper.set_model_props(model, {"author": "me", "hone.job_id": "7"})
    onnx.save(model, path)
    return path


def measurement(workshop: Any, *, loss: str = "cross_entropy", **more: Any) -> Measurement:
    return Measurement(
        signature=workshop.signature,
        loss=loss,
        output="logits",
        database=str(workshop.store.database),
        packs=str(workshop.store.packs_dir),
        model_id=workshop.model_id,
        **{"metric": "accuracy", **more},
    )
