"""The base model: an autoencoder for windows of 128 rows, untrained."""

from __future__ import annotations

from itertools import pairwise
from math import sqrt

import numpy as np
import onnx
from onnx import numpy_helper, parser

LENGTH, STRIDE, CHANNELS = 128, 64, 3
"""Of a window, in rows: a third of a second, half of which the next window shares."""
SIZES = (CHANNELS * LENGTH, 64, CHANNELS * LENGTH)
NETWORK = f"""
<ir_version: 8, opset_import: ["" : 17]>
pump (float[N, {CHANNELS}, {LENGTH}] vibration) => (float[N, {CHANNELS}, {LENGTH}] again)
<int64[3] shape = {{-1, {CHANNELS}, {LENGTH}}}> {{
    flat = Flatten (vibration)
    narrow = Gemm (flat, weight0, bias0)
    code = Relu (narrow)
    wide = Gemm (code, weight1, bias1)
    again = Reshape (wide, shape)
}}
"""
PREPROCESS = {
    "input": "vibration",
    "kind": "windows",
    "layout": "channels_first",
    "stride": STRIDE,
    "label": "majority",
}
"""The spec's `preprocess`; mean and deviation of each channel are learned."""


def base_model() -> bytes:
    """vibration (N, 3, 128) float32 → again (N, 3, 128). Weights after He et al. (2015)."""
    generator = np.random.default_rng(0)
    model = parser.parse_model(NETWORK)
    weights = model.graph.initializer
    for layer, (size, count) in enumerate(pairwise(SIZES)):
        matrix = generator.standard_normal((size, count)) * sqrt(2 / size)
        weights.append(numpy_helper.from_array(matrix.astype(np.float32), f"weight{layer}"))
        weights.append(numpy_helper.from_array(np.zeros(count, np.float32), f"bias{layer}"))
    onnx.checker.check_model(model, full_check=True)
    content: bytes = model.SerializeToString()
    return content
