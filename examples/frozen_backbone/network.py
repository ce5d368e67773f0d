"""A convolutional network with fixed random filters, whose head reads digits."""

from __future__ import annotations

from itertools import pairwise
from math import prod, sqrt

import numpy as np
import onnx
from onnx import numpy_helper, parser

INPUT, SIDE, CLASSES = "image", 64, 10
WIDTHS = (1, 24, 48, 96, 128)
"""Channels before and after each convolution, which halves the sides."""


def network() -> bytes:
    """`image` (batch, 1, 64, 64) → `logits` (batch, 10); the same bytes at every call."""
    rng = np.random.default_rng(0)
    nodes, weights, last = "", [], INPUT
    for layer, (inputs, outputs) in enumerate(pairwise(WIDTHS)):
        kernel = _initial(rng, outputs, inputs, 3, 3)
        weights.append(numpy_helper.from_array(kernel, f"backbone.{layer}.weight"))
        nodes += f"""
            conv{layer} = Conv <pads = [1, 1, 1, 1]> ({last}, "backbone.{layer}.weight")
            active{layer} = HardSwish (conv{layer})
            pooled{layer} = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (active{layer})
        """
        last = f"pooled{layer}"
    size = WIDTHS[-1] * (SIDE >> len(WIDTHS[1:])) ** 2
    weights.append(numpy_helper.from_array(_initial(rng, size, CLASSES).T.copy(), "head.weight"))
    weights.append(numpy_helper.from_array(np.zeros(CLASSES, np.float32), "head.bias"))
    model = parser.parse_model(f"""
        <ir_version: 8, opset_import: ["" : 17]>
        network (float[batch, 1, {SIDE}, {SIDE}] {INPUT}) => (float[batch, {CLASSES}] logits) {{
            {nodes}
            features = Flatten ({last})
            logits = Gemm <transB = 1> (features, "head.weight", "head.bias")
        }}
    """)
    model.graph.initializer.extend(weights)
    onnx.checker.check_model(model)
    content: bytes = model.SerializeToString()
    return content


def _initial(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """After He et al. (2015): variance 2 / fan-in."""
    fan_in = prod(shape[1:]) if len(shape) > 2 else shape[0]
    return (rng.standard_normal(shape) * sqrt(2 / fan_in)).astype(np.float32)
