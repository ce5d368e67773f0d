"""A convolutional network with fixed random filters, whose head reads digits."""

from __future__ import annotations

from itertools import pairwise
from math import prod, sqrt

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

INPUT, SIDE, CLASSES = "image", 64, 10
WIDTHS = (1, 24, 48, 96, 128)
"""Channels before and after each convolution, which halves the sides."""


def network() -> bytes:
    """`image` (batch, 1, 64, 64) → `logits` (batch, 10); the same bytes at every call."""
    rng = np.random.default_rng(0)
    nodes, weights, last = [], [], INPUT
    for layer, (inputs, outputs) in enumerate(pairwise(WIDTHS)):
        kernel = _initial(rng, outputs, inputs, 3, 3)
        weights.append(numpy_helper.from_array(kernel, f"backbone.{layer}.weight"))
        made, active, pooled = f"conv{layer}", f"active{layer}", f"pooled{layer}"
        nodes += [
            helper.make_node(
                "Conv", [last, f"backbone.{layer}.weight"], [made], made, pads=[1] * 4
            ),
            helper.make_node("HardSwish", [made], [active], active),
            helper.make_node(
                "MaxPool", [active], [pooled], pooled, kernel_shape=[2, 2], strides=[2, 2]
            ),
        ]
        last = pooled
    size = WIDTHS[-1] * (SIDE >> len(WIDTHS[1:])) ** 2
    weights.append(numpy_helper.from_array(_initial(rng, size, CLASSES).T.copy(), "head.weight"))
    weights.append(numpy_helper.from_array(np.zeros(CLASSES, np.float32), "head.bias"))
    nodes.append(helper.make_node("Flatten", [last], ["features"], "flatten"))
    nodes.append(
        helper.make_node(
            "Gemm", ["features", "head.weight", "head.bias"], ["logits"], "head", transB=1
        )
    )
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "network",
        [value(INPUT, TensorProto.FLOAT, ["batch", 1, SIDE, SIDE])],
        [value("logits", TensorProto.FLOAT, ["batch", CLASSES])],
        weights,
    )
    opset = helper.make_opsetid("", 17)
    model = helper.make_model(graph, opset_imports=[opset], ir_version=8)
    onnx.checker.check_model(model)
    content: bytes = model.SerializeToString()
    return content


def _initial(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """After He et al. (2015): variance 2 / fan-in."""
    fan_in = prod(shape[1:]) if len(shape) > 2 else shape[0]
    return (rng.standard_normal(shape) * sqrt(2 / fan_in)).astype(np.float32)
