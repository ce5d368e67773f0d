"""A small model that finds things on photos, photos of them, and their boxes."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

SIDE, CELLS = 32, 8
"""Of the model's input, and of the grid that it answers."""
CLASSES = ["square", "bar"]
PREPROCESS = {"input": "image", "kind": "image", "mean": [0.5], "std": [0.25]}
COLOURS = ((220, 220, 220), (220, 30, 30))


def box_model(classes: int = len(CLASSES), *, side: int = SIDE) -> bytes:
    """`image` (n, 3, side, side) → three convolutions → `maps` (n, classes + 4, cells, cells)."""
    generator = np.random.default_rng(0)
    sizes = {"a": (16, 3, 3, 3), "b": (32, 16, 3, 3), "c": (classes + 4, 32, 3, 3)}
    weights = []
    for name, shape in sizes.items():
        values = generator.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))
        start = np.zeros(shape[0])
        start[:classes] = -2 if name == "c" else 0  # few cells are the middle of a thing
        weights.append(numpy_helper.from_array(values.astype(np.float32), f"{name}.w"))
        weights.append(numpy_helper.from_array(start.astype(np.float32), f"{name}.b"))
    nodes = [
        helper.make_node("Conv", ["image", "a.w", "a.b"], ["a"], pads=[1] * 4, strides=[2, 2]),
        helper.make_node("Relu", ["a"], ["ra"]),
        helper.make_node("Conv", ["ra", "b.w", "b.b"], ["b"], pads=[1] * 4, strides=[2, 2]),
        helper.make_node("Relu", ["b"], ["rb"]),
        helper.make_node("Conv", ["rb", "c.w", "c.b"], ["maps"], pads=[1] * 4),
    ]
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, ["n", 3, side, side])
    shape = ["n", classes + 4, side // 4, side // 4]
    maps = helper.make_tensor_value_info("maps", TensorProto.FLOAT, shape)
    graph = helper.make_graph(nodes, "boxes", [image], [maps], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    content: bytes = model.SerializeToString()
    return content


def street(
    seed: int, *, size: tuple[int, int] = (48, 64)
) -> tuple[np.ndarray, list[dict[str, Any]]]:
    """Pixels (height, width, 3) of up to three squares and bars, and their boxes as a label."""
    generator = np.random.default_rng(seed)
    pixels = generator.integers(30, 70, (*size, 3))
    boxes: list[dict[str, Any]] = []
    taken = np.zeros(size, bool)
    for kind in generator.integers(0, 2, generator.integers(1, 4)).tolist():
        high, wide = (12, 12) if kind == 0 else (8, 20)
        top = int(generator.integers(0, size[0] - high))
        left = int(generator.integers(0, size[1] - wide))
        where = np.s_[top : top + high, left : left + wide]
        if not taken[where].any():
            taken[where], pixels[where] = True, COLOURS[kind]
            boxes.append({"box": [left, top, wide, high], "label": CLASSES[kind]})
    return pixels.astype(np.uint8), boxes
