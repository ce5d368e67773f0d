"""The base model: a small CNN for colour pictures of 32 by 32, untrained."""

from __future__ import annotations

from math import sqrt

import numpy as np
import onnx
from onnx import numpy_helper, parser

SIDE = 32
SHAPES = {
    "conv1.weight": (12, 3, 3, 3),
    "conv1.bias": (12,),
    "conv2.weight": (24, 12, 3, 3),
    "conv2.bias": (24,),
    "head.weight": (3, 24 * 8 * 8),
    "head.bias": (3,),
}
NETWORK = f"""
<ir_version: 8, opset_import: ["" : 17]>
photos (float[N, 3, {SIDE}, {SIDE}] image) => (float[N, 3] logits) {{
    conv1 = Conv <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (image, "conv1.weight", "conv1.bias")
    relu1 = Relu (conv1)
    pool1 = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (relu1)
    conv2 = Conv <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (pool1, "conv2.weight", "conv2.bias")
    relu2 = Relu (conv2)
    pool2 = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (relu2)
    features = Flatten (pool2)
    logits = Gemm <transB = 1> (features, "head.weight", "head.bias")
}}
"""
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


def base_model() -> bytes:
    """image (N, 3, 32, 32) float32 → logits (N, 3). Weights after He et al. (2015)."""
    generator = np.random.default_rng(0)
    model = parser.parse_model(NETWORK)
    model.graph.initializer.extend(
        numpy_helper.from_array(_initial(shape, generator), name) for name, shape in SHAPES.items()
    )
    onnx.checker.check_model(model, full_check=True)
    content: bytes = model.SerializeToString()
    return content


def _initial(shape: tuple[int, ...], generator: np.random.Generator) -> np.ndarray:
    if len(shape) == 1:
        return np.zeros(shape, np.float32)
    scale = sqrt(2 / np.prod(shape[1:]))
    return (generator.standard_normal(shape) * scale).astype(np.float32)
