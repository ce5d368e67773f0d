"""The model: a tiny U-Net (Ronneberger et al. 2015), untrained, and its `preprocess`."""

from __future__ import annotations

from math import sqrt

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from scenes import CLASSES

HEIGHT, WIDTH = 48, 64
WIDTHS = (12, 24, 32)
"""Channels at full, half and a quarter of the size."""
PREPROCESS = {
    "input": "image",
    "kind": "image",
    "size": [HEIGHT, WIDTH],
    "mean": [0.45, 0.45, 0.45],
    "std": [0.25, 0.25, 0.25],
    "augment": {"flip": 0.5, "zoom": 0.2, "brightness": 0.2},
}


class _Network:
    """Adds layers one after the other; weights after He et al. (2015)."""

    def __init__(self) -> None:
        self._generator = np.random.default_rng(0)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def add(self, kind: str, inputs: list[str], output: str, **attributes: object) -> str:
        self.nodes.append(helper.make_node(kind, inputs, [output], **attributes))
        return output

    def convolved(self, x: str, name: str, *, channels: tuple[int, int], side: int = 3) -> str:
        """A convolution and a rectifier."""
        before, after = channels
        self._weight(f"{name}.weight", (after, before, side, side), before * side**2)
        self._weight(f"{name}.bias", (after,), 0)
        inputs = [x, f"{name}.weight", f"{name}.bias"]
        made = self.add("Conv", inputs, name, pads=[side // 2] * 4, kernel_shape=[side, side])
        return self.add("Relu", [made], f"{name}.relu")

    def doubled(self, x: str, name: str, *, channels: tuple[int, int]) -> str:
        """Twice the height and width, by a transposed convolution."""
        self._weight(f"{name}.weight", (*channels, 2, 2), channels[0])
        inputs = [x, f"{name}.weight"]
        return self.add("ConvTranspose", inputs, name, kernel_shape=[2, 2], strides=[2, 2])

    def _weight(self, name: str, shape: tuple[int, ...], fan_in: int) -> None:
        scale = sqrt(2 / fan_in) if fan_in else 0
        values = (self._generator.standard_normal(shape) * scale).astype(np.float32)
        self.weights.append(numpy_helper.from_array(values, name))


def base_model() -> bytes:
    """image (N, 3, 48, 64) float32 → logits (N, 3, 48, 64)."""
    net, (full, half, quarter) = _Network(), WIDTHS
    pool = {"kernel_shape": [2, 2], "strides": [2, 2]}
    first = net.convolved("image", "down1", channels=(3, full))
    second = net.convolved(
        net.add("MaxPool", [first], "pool1", **pool), "down2", channels=(full, half)
    )
    deep = net.convolved(
        net.add("MaxPool", [second], "pool2", **pool), "deep", channels=(half, quarter)
    )
    up = net.doubled(deep, "up2", channels=(quarter, half))
    up = net.add("Concat", [up, second], "skip2", axis=1)
    up = net.convolved(up, "up2.conv", channels=(2 * half, half))
    up = net.doubled(up, "up1", channels=(half, full))
    up = net.add("Concat", [up, first], "skip1", axis=1)
    up = net.convolved(up, "up1.conv", channels=(2 * full, full))
    net.convolved(up, "classes", channels=(full, len(CLASSES)), side=1)
    net.nodes[-2].output[0] = "logits"  # without the rectifier
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, ["N", 3, HEIGHT, WIDTH])
    shape = ["N", len(CLASSES), HEIGHT, WIDTH]
    logits = helper.make_tensor_value_info("logits", TensorProto.FLOAT, shape)
    graph = helper.make_graph(net.nodes[:-1], "gardens", [image], [logits], net.weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    content: bytes = model.SerializeToString()
    return content
