"""Three networks that read digits: the one that a device has, a better one, and a broken one."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

DIGITS = Path(__file__).parent.parent / "digits"
sys.path.insert(0, str(DIGITS))

from dataset import split  # noqa: E402
from pretrain import train  # noqa: E402

HIDDEN = 24
Weights = dict[str, NDArray[np.float32]]


def perceptron(weights: Weights) -> onnx.ModelProto:
    """image (N, 1, 8, 8) float32 in [0, 1] → logits (N, 10)."""
    nodes = [
        helper.make_node("Flatten", ["image"], ["pixels"]),
        helper.make_node("Gemm", ["pixels", "hidden.weight", "hidden.bias"], ["hidden"]),
        helper.make_node("Relu", ["hidden"], ["active"]),
        helper.make_node("Gemm", ["active", "head.weight", "head.bias"], ["logits"]),
    ]
    graph = helper.make_graph(
        nodes,
        "digits",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["N", 1, 8, 8])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["N", 10])],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])


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
