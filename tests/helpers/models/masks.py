"""A small model that gives each pixel of a photo a class, photos of squares, and their masks."""

from __future__ import annotations

import io

import numpy as np
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

SIDE = 16
"""Of the model's input."""
CLASSES = ["ground", "square", "rim"]
PREPROCESS = {"input": "image", "kind": "image", "mean": [0.5], "std": [0.25]}


def mask_model(classes: int = len(CLASSES), *, side: int = SIDE) -> bytes:
    """`image` (n, 3, side, side) → two convolutions → `logits` (n, classes, side, side)."""
    generator = np.random.default_rng(0)
    shapes = {"a.w": (8, 3, 3, 3), "a.b": (8,), "b.w": (classes, 8, 3, 3), "b.b": (classes,)}
    weights = [
        numpy_helper.from_array((generator.standard_normal(s) / 6).astype(np.float32), name)
        for name, s in shapes.items()
    ]
    nodes = [
        helper.make_node("Conv", ["image", "a.w", "a.b"], ["a"], pads=[1] * 4),
        helper.make_node("Relu", ["a"], ["relu"]),
        helper.make_node("Conv", ["relu", "b.w", "b.b"], ["logits"], pads=[1] * 4),
    ]
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, ["n", 3, side, side])
    shape = ["n", classes, side, side]
    logits = helper.make_tensor_value_info("logits", TensorProto.FLOAT, shape)
    graph = helper.make_graph(nodes, "masks", [image], [logits], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    content: bytes = model.SerializeToString()
    return content


def scene(seed: int, *, size: tuple[int, int] = (24, 32)) -> tuple[np.ndarray, np.ndarray]:
    """Pixels (height, width, 3) of a bright square with a red rim, and their classes."""
    generator = np.random.default_rng(seed)
    height, width = size
    classes = np.zeros(size, np.uint8)
    side = height // 3
    top, left = generator.integers(0, height - side), generator.integers(0, width - side)
    classes[top : top + side, left : left + side] = 2
    classes[top + 2 : top + side - 2, left + 2 : left + side - 2] = 1
    colours = np.array([[60, 60, 60], [220, 220, 220], [220, 30, 30]])
    noise = generator.integers(-20, 20, (*size, 3))
    return (colours[classes] + noise).clip(0, 255).astype(np.uint8), classes


def png(values: np.ndarray, *, palette: bool = False) -> bytes:
    """A file of these pixels; palette: with colours for indices."""
    picture = Image.fromarray(values)
    if palette:
        picture = picture.convert("P")
        picture.putdata(values.ravel().tolist())
        picture.putpalette([0, 0, 0, 255, 255, 255, 255, 0, 0])
    buffer = io.BytesIO()
    picture.save(buffer, "PNG")
    return buffer.getvalue()
