"""Zeros around what a convolution reads are pads of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from gradients import OPSET, Array, check
from onnx import TensorProto, helper, numpy_helper

from service.training.graph.passes.prepare import prepare


def padded(
    around: list[int], *, value: float = 0.0, mode: str = "constant", **conv: Any
) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """x (2, 3, 6, 5), with pads, then a convolution."""
    rng = np.random.default_rng(0)
    feeds = {"x": rng.normal(size=(2, 3, 6, 5)), "w": rng.normal(size=(4, 3, 2, 3))}
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.DOUBLE, array.shape)
        for name, array in feeds.items()
    ]
    constants = [
        numpy_helper.from_array(np.array(around), "pads"),
        numpy_helper.from_array(np.array(value), "value"),
    ]
    nodes = [
        helper.make_node("Pad", ["x", "pads", "value"], ["p"], name="p", mode=mode),
        helper.make_node("Conv", ["p", "w"], ["y"], name="y", **conv),
    ]
    outputs = [helper.make_empty_tensor_value_info("y")]
    graph = helper.make_graph(nodes, "padded", inputs, outputs, constants)
    opsets = [helper.make_opsetid("", OPSET)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10), feeds


@pytest.mark.parametrize("conv", [{}, {"pads": [1, 0, 0, 2], "strides": [2, 1]}])
def test_pads_of_zeros_become_those_of_the_convolution(conv: dict[str, Any]) -> None:
    model, feeds = padded([0, 0, 2, 0, 0, 0, 1, 3], **conv)
    (node,) = prepare(model).graph.node
    assert node.op_type == "Conv"
    check(model, feeds)


@pytest.mark.parametrize(
    "given",
    [
        {"around": [0, 0, 1, 1, 0, 0, 1, 1], "value": 0.5},
        {"around": [0, 0, 1, 1, 0, 0, 1, 1], "mode": "reflect"},
        {"around": [0, 0, 1, -1, 0, 0, 1, 1]},
        {"around": [1, 0, 1, 1, 0, 0, 1, 1]},
        {"around": [0, 0, 1, 1, 0, 0, 1, 1], "auto_pad": "SAME_UPPER"},
    ],
)
def test_other_pads_stay(given: dict[str, Any]) -> None:
    model, feeds = padded(**given)
    assert [node.op_type for node in prepare(model).graph.node] == ["Pad", "Conv"]
    check(model, feeds)
