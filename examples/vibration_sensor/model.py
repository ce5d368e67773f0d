"""The base model: a small one-dimensional CNN for windows of 128 rows, untrained."""

from __future__ import annotations

from math import sqrt

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

LENGTH, STRIDE = 128, 64
"""Of a window, in rows: a third of a second, half of which the next window shares."""
SHAPES = {
    "conv1.weight": (16, 3, 9),
    "conv1.bias": (16,),
    "conv2.weight": (32, 16, 5),
    "conv2.bias": (32,),
    "head.weight": (3, 32),
    "head.bias": (3,),
}
PREPROCESS = {
    "input": "vibration",
    "kind": "windows",
    "layout": "channels_first",
    "stride": STRIDE,
    "label": "majority",
}
"""The spec's `preprocess`; mean and deviation of each channel are learned."""


def base_model(seed: int = 0) -> bytes:
    """vibration (N, 3, 128) float32 → logits (N, 3). Weights after He et al. (2015)."""
    generator = np.random.default_rng(seed)
    weights = [
        numpy_helper.from_array(_initial(shape, generator), name) for name, shape in SHAPES.items()
    ]
    nodes = [
        helper.make_node(
            "Conv", ["vibration", "conv1.weight", "conv1.bias"], ["conv1"], pads=[4, 4], strides=[2]
        ),
        helper.make_node("Relu", ["conv1"], ["relu1"]),
        helper.make_node(
            "Conv", ["relu1", "conv2.weight", "conv2.bias"], ["conv2"], pads=[2, 2], strides=[2]
        ),
        helper.make_node("Relu", ["conv2"], ["relu2"]),
        helper.make_node("GlobalMaxPool", ["relu2"], ["pool"]),
        helper.make_node("Flatten", ["pool"], ["features"]),
        helper.make_node("Gemm", ["features", "head.weight", "head.bias"], ["logits"], transB=1),
    ]
    shape = ["N", 3, LENGTH]
    vibration = helper.make_tensor_value_info("vibration", TensorProto.FLOAT, shape)
    logits = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["N", 3])
    graph = helper.make_graph(nodes, "pump", [vibration], [logits], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    content: bytes = model.SerializeToString()
    return content


def _initial(shape: tuple[int, ...], generator: np.random.Generator) -> np.ndarray:
    if len(shape) == 1:
        return np.zeros(shape, np.float32)
    scale = sqrt(2 / np.prod(shape[1:]))
    return (generator.standard_normal(shape) * scale).astype(np.float32)
