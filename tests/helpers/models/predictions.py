"""Asking a daemon for predictions."""

from __future__ import annotations

from typing import Any

import httpx
import numpy as np
from onnx import TensorProto, helper, numpy_helper, parser
from support import Served

X = np.random.default_rng(3).standard_normal((5, 8)).astype(np.float32)
"""Five samples of eight features."""

PRODUCTS = 400


def never_ending(bias: float) -> bytes:
    """A model of inputs (n, 8) that multiplies square matrices, as large as its first input says.

    bias: makes the files differ.
    """
    products = "\n".join(f"a{n + 1} = MatMul(a{n}, a0)" for n in range(PRODUCTS))
    text = f"""
    <ir_version: 8, opset_import: ["" : 17]>
    slow (float[batch, 8] x) => (float[batch, 3] logits)
    <float[8, 3] w = {{{"1, " * 23} 1}}, float[3] b = {{{bias}, 0, 0}}, int64[1] one = {{1}}>
    {{
        largest = ReduceMax<keepdims = 0>(x)
        as_integer = Cast<to = 7>(largest)
        size = Reshape(as_integer, one)
        shape = Concat<axis = 0>(size, size)
        a0 = ConstantOfShape<value = float[1] {{0.0001}}>(shape)
        {products}
        mean = ReduceMean<keepdims = 0>(a{PRODUCTS})
        moved = Add(x, mean)
        logits = Gemm(moved, w, b)
    }}
    """
    return parser.parse_model(text).SerializeToString()


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
