"""Asking a daemon for predictions."""

from __future__ import annotations

from typing import Any

import httpx
import numpy as np
from onnx import TensorProto, helper, numpy_helper
from support import Served

X = np.random.default_rng(3).standard_normal((5, 8)).astype(np.float32)
"""Five samples of eight features."""


def ask(served: Served, name: str, *rows: np.ndarray, **query: Any) -> httpx.Response:
    body: dict[str, Any] = {"instances": [{"inputs": {"x": row.tolist()}} for row in rows]}
    return served.http.post(f"/v1/models/{name}/predict", json=body, params=query)


def segmenter(side: int, classes: int) -> bytes:
    """A convolution: `x` (batch, 1, side, side), `logits` of a class for each pixel."""
    kernels = np.random.default_rng(0).standard_normal((classes, 1, 3, 3)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "kernels"], ["logits"], name="conv", pads=[1, 1, 1, 1])],
        "segmenter",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 1, side, side])],
        [
            helper.make_tensor_value_info(
                "logits", TensorProto.FLOAT, ["batch", classes, side, side]
            )
        ],
        [numpy_helper.from_array(kernels, "kernels")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return model.SerializeToString()
