"""Three networks that read digits: the one that a device has, a better one, and a broken one."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper, parser

DIGITS = Path(__file__).parent.parent / "digits"
sys.path.insert(0, str(DIGITS))

from dataset import split  # noqa: E402
from pretrain import train  # noqa: E402

HIDDEN = 24
NETWORK = """
<ir_version: 8, opset_import: ["" : 17]>
digits (float[N, 1, 8, 8] image) => (float[N, 10] logits) {
    pixels = Flatten (image)
    hidden = Gemm (pixels, "hidden.weight", "hidden.bias")
    active = Relu (hidden)
    logits = Gemm (active, "head.weight", "head.bias")
}
"""
Weights = dict[str, NDArray[np.float32]]


def perceptron(weights: Weights) -> onnx.ModelProto:
    """image (N, 1, 8, 8) float32 in [0, 1] → logits (N, 10)."""
    model = parser.parse_model(NETWORK)
    model.graph.initializer.extend(numpy_helper.from_array(a, n) for n, a in weights.items())
    return model


def first() -> bytes:
    """The network of the device: a small perceptron, pre-trained on 400 clean digits."""
    draw = np.random.default_rng(7).standard_normal
    untrained = {
        "hidden.weight": (draw((64, HIDDEN)) * 64**-0.5).astype(np.float32),
        "hidden.bias": np.zeros(HIDDEN, np.float32),
        "head.weight": (draw((HIDDEN, 10)) * HIDDEN**-0.5).astype(np.float32),
        "head.bias": np.zeros(10, np.float32),
    }
    with tempfile.TemporaryDirectory() as folder:
        trained = train(perceptron(untrained), split()[0], Path(folder))
    return perceptron({name: trained[name] for name in untrained}).SerializeToString()


def better() -> bytes:
    """The vendor's next network: a convolutional one, pre-trained on the same digits."""
    return (DIGITS / "base.onnx").read_bytes()


def broken() -> bytes:
    """The same, exported with an empty first layer: whatever it sees, it answers the same."""
    model = onnx.load_model_from_string(better())
    for weight in model.graph.initializer:
        if weight.name.startswith("conv1"):
            empty = np.zeros(tuple(weight.dims), np.float32)
            weight.CopyFrom(numpy_helper.from_array(empty, weight.name))
    content: bytes = model.SerializeToString()
    return content
