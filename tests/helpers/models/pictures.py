"""Small real photos, and a model that takes them."""

from __future__ import annotations

import io

import numpy as np
import onnx
from onnx import TensorProto, helper
from PIL import Image as Pillow
from support import mlp

SIDE = 8
SHAPE = (1, SIDE, SIDE)


def photo(brightness: int, seed: int, *, kind: str = "PNG", side: int = 24) -> bytes:
    """A noisy gray picture, bright or dark."""
    noise = np.random.default_rng(seed).integers(-20, 20, (side, side))
    buffer = io.BytesIO()
    pixels = np.clip(brightness + noise, 0, 255).astype(np.uint8)
    Pillow.fromarray(pixels).save(buffer, kind)
    return buffer.getvalue()


def image_model(seed: int = 0, *, side: int = SIDE) -> bytes:
    """A model whose input `image` has shape (1, 8, 8): flattened, then an MLP."""
    model = onnx.load_from_string(mlp(side * side, 8, 2, seed=seed, inputs="flat"))
    graph = model.graph
    graph.node.insert(0, helper.make_node("Flatten", ["image"], ["flat"], name="flatten"))
    del graph.input[:]
    shape = ["batch", 1, side, side]
    graph.input.append(helper.make_tensor_value_info("image", TensorProto.FLOAT, shape))
    onnx.checker.check_model(model)
    content: bytes = model.SerializeToString()
    return content


PREPROCESS = {"input": "image", "kind": "image", "channels": "gray", "mean": [0.5], "std": [0.25]}
