"""The base model: an autoencoder for windows of 128 rows, untrained."""

from __future__ import annotations

from itertools import pairwise
from math import sqrt

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

LENGTH, STRIDE, CHANNELS = 128, 64, 3
"""Of a window, in rows: a third of a second, half of which the next window shares."""
SIZES = (CHANNELS * LENGTH, 64, CHANNELS * LENGTH)
PREPROCESS = {
    "input": "vibration",
    "kind": "windows",
    "layout": "channels_first",
    "stride": STRIDE,
    "label": "majority",
}
"""The spec's `preprocess`; mean and deviation of each channel are learned."""


def base_model(seed: int = 0) -> bytes:
    """vibration (N, 3, 128) float32 → again (N, 3, 128). Weights after He et al. (2015)."""
    generator = np.random.default_rng(seed)
    weights = [numpy_helper.from_array(np.array([-1, CHANNELS, LENGTH]), "shape")]
    for layer, (size, count) in enumerate(pairwise(SIZES)):
        matrix = generator.standard_normal((size, count)) * sqrt(2 / size)
        weights.append(numpy_helper.from_array(matrix.astype(np.float32), f"weight{layer}"))
        weights.append(numpy_helper.from_array(np.zeros(count, np.float32), f"bias{layer}"))
    nodes = [
        helper.make_node("Flatten", ["vibration"], ["flat"]),
        helper.make_node("Gemm", ["flat", "weight0", "bias0"], ["narrow"]),
        helper.make_node("Relu", ["narrow"], ["code"]),
        helper.make_node("Gemm", ["code", "weight1", "bias1"], ["wide"]),
        helper.make_node("Reshape", ["wide", "shape"], ["again"]),
    ]
    values = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", CHANNELS, LENGTH])
        for name in ("vibration", "again")
    ]
    graph = helper.make_graph(nodes, "pump", values[:1], values[1:], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    content: bytes = model.SerializeToString()
    return content
