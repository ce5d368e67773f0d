"""The base model: a small CNN for colour pictures of 32 by 32, untrained."""

from __future__ import annotations

from math import sqrt

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

SIDE = 32
SHAPES = {
    "conv1.weight": (12, 3, 3, 3),
    "conv1.bias": (12,),
    "conv2.weight": (24, 12, 3, 3),
    "conv2.bias": (24,),
    "head.weight": (3, 24 * 8 * 8),
    "head.bias": (3,),
}
PREPROCESS = {
    "input": "image",
    "kind": "image",
    "size": [SIDE, SIDE],
    "resize": "cover",
    "channels": "rgb",
    "layout": "nchw",
    "scale": 255,
    "mean": [0.5, 0.5, 0.5],
    "std": [0.25, 0.25, 0.25],
}
"""The spec's `preprocess`: how a photo becomes the input."""


def base_model(seed: int = 0) -> bytes:
    """image (N, 3, 32, 32) float32 → logits (N, 3). Weights after He et al. (2015)."""
    generator = np.random.default_rng(seed)
    weights = [
        numpy_helper.from_array(_initial(shape, generator), name) for name, shape in SHAPES.items()
    ]
    same = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    half = {"kernel_shape": [2, 2], "strides": [2, 2]}
    nodes = [
        helper.make_node("Conv", ["image", "conv1.weight", "conv1.bias"], ["conv1"], **same),
        helper.make_node("Relu", ["conv1"], ["relu1"]),
        helper.make_node("MaxPool", ["relu1"], ["pool1"], **half),
        helper.make_node("Conv", ["pool1", "conv2.weight", "conv2.bias"], ["conv2"], **same),
        helper.make_node("Relu", ["conv2"], ["relu2"]),
        helper.make_node("MaxPool", ["relu2"], ["pool2"], **half),
        helper.make_node("Flatten", ["pool2"], ["features"]),
        helper.make_node("Gemm", ["features", "head.weight", "head.bias"], ["logits"], transB=1),
    ]
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, ["N", 3, SIDE, SIDE])
    logits = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["N", 3])
    graph = helper.make_graph(nodes, "photos", [image], [logits], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    content: bytes = model.SerializeToString()
    return content


def _initial(shape: tuple[int, ...], generator: np.random.Generator) -> np.ndarray:
    if len(shape) == 1:
        return np.zeros(shape, np.float32)
    scale = sqrt(2 / np.prod(shape[1:]))
    return (generator.standard_normal(shape) * scale).astype(np.float32)
