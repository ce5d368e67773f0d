"""Small models that take token ids."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

ROWS, LENGTH, WIDTH = 30, 7, 8


def embedding_model(
    plumbing: Sequence[onnx.NodeProto] = (),
    constants: Sequence[onnx.TensorProto] = (),
    *,
    ids: str = "x",
    rows: int = ROWS,
) -> bytes:
    """`x` (batch, 7) int64 → a table of 30 rows → mean → `logits` (batch, 2).

    plumbing: what makes the tensor `ids` of `x`; constants: what that needs.
    """
    generator = np.random.default_rng(0)

    def weight(name: str, *shape: int) -> onnx.TensorProto:
        return numpy_helper.from_array(generator.standard_normal(shape).astype(np.float32), name)

    graph = helper.make_graph(
        [
            *plumbing,
            helper.make_node("Gather", ["table", ids], ["embedded"], name="embed"),
            helper.make_node(
                "ReduceMean", ["embedded"], ["mean"], name="mean", axes=[1], keepdims=0
            ),
            helper.make_node("Gemm", ["mean", "head.weight", "head.bias"], ["logits"], name="head"),
        ],
        "embedding",
        [helper.make_tensor_value_info("x", TensorProto.INT64, ["batch", LENGTH])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 2])],
        [
            weight("table", rows, WIDTH),
            weight("head.weight", WIDTH, 2),
            weight("head.bias", 2),
            *constants,
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    content: bytes = model.SerializeToString()
    return content
