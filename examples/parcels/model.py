"""The model: a tiny network that says of each cell of a grid what is near it, and its `preprocess`.

The grid is what the loss `detection` takes: a map of logits for each class, then four of where the
nearest box is. Untrained, but for the bias of the logits, which begins at a probability of 0.1, as
Lin et al. (2017) have it (Focal Loss for Dense Object Detection).
"""

from __future__ import annotations

from math import log, sqrt

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from scenes import CLASSES

HEIGHT, WIDTH = 64, 96
STRIDE = 4
WIDTHS = (16, 24, 40, 40, 40)
"""Channels of each layer; the second and third halve the size."""
SIDES = 4
PRIOR = 0.1
PREPROCESS = {
    "input": "image",
    "kind": "image",
    "size": [HEIGHT, WIDTH],
    "mean": [0.35, 0.35, 0.35],
    "std": [0.2, 0.2, 0.2],
    "augment": {"flip": 0.5, "brightness": 0.2},
}


def base_model() -> bytes:
    """image (N, 3, 64, 96) float32 → maps (N, 7, 16, 24); weights after He et al. (2015)."""
    generator = np.random.default_rng(0)
    nodes: list[onnx.NodeProto] = []
    weights: list[onnx.TensorProto] = []

    def convolved(x: str, name: str, channels: tuple[int, int], *, stride: int = 1) -> str:
        before, after = channels
        scale = sqrt(2 / (9 * before))
        values = generator.standard_normal((after, before, 3, 3)) * scale
        bias = np.zeros(after)
        if name == "maps":
            bias[: len(CLASSES)] = -log(1 / PRIOR - 1)
            values *= 0.1
        weights.append(numpy_helper.from_array(values.astype(np.float32), f"{name}.weight"))
        weights.append(numpy_helper.from_array(bias.astype(np.float32), f"{name}.bias"))
        inputs = [x, f"{name}.weight", f"{name}.bias"]
        sides = {"kernel_shape": [3, 3], "pads": [1] * 4, "strides": [stride] * 2}
        nodes.append(helper.make_node("Conv", inputs, [name], **sides))
        return name

    x, before = "image", 3
    for at, after in enumerate(WIDTHS):
        made = convolved(x, f"layer{at}", (before, after), stride=2 if at in (1, 2) else 1)
        nodes.append(helper.make_node("Relu", [made], [f"{made}.relu"]))
        x, before = f"{made}.relu", after
    convolved(x, "maps", (before, len(CLASSES) + SIDES))
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, ["N", 3, HEIGHT, WIDTH])
    shape = ["N", len(CLASSES) + SIDES, HEIGHT // STRIDE, WIDTH // STRIDE]
    maps = helper.make_tensor_value_info("maps", TensorProto.FLOAT, shape)
    graph = helper.make_graph(nodes, "parcels", [image], [maps], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    content: bytes = model.SerializeToString()
    return content
