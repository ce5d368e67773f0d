"""Models that compute their loss themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx
from graph_parts import normal
from onnx import TensorProto, helper, numpy_helper

node = helper.make_node
FEATURES, OUTPUTS = 6, 3


def own_loss(
    *tail: onnx.NodeProto,
    loss: Sequence[int | str] = (),
    label: Sequence[int | str] | None = ("batch", OUTPUTS),
    label_type: int = TensorProto.FLOAT,
    constants: dict[str, Any] | None = None,
    outputs: Sequence[str] = ("y", "loss"),
    loss_type: int = TensorProto.FLOAT,
) -> onnx.ModelProto:
    """`x` → two layers → `y`; the tail makes `loss` of `y`, the input `t` and inner tensors.

    loss, label: shapes; without a label there is no `t`.
    """
    weights = {"w": normal(FEATURES, 5), "b": normal(5, seed=1), "v": normal(5, OUTPUTS, seed=2)}
    numbers = weights | (constants or {})
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", FEATURES])]
    if label is not None:
        inputs.append(helper.make_tensor_value_info("t", label_type, list(label)))
    shapes = {"y": ["batch", OUTPUTS], "loss": list(loss), "h": ["batch", 5]}
    types = {"loss": loss_type}
    graph = helper.make_graph(
        [
            node("Gemm", ["x", "w", "b"], ["h"], name="first"),
            node("Tanh", ["h"], ["g"], name="tanh"),
            node("Gemm", ["g", "v"], ["y"], name="last"),
            *tail,
        ],
        "own_loss",
        inputs,
        [
            helper.make_tensor_value_info(name, types.get(name, TensorProto.FLOAT), shapes[name])
            for name in outputs
        ],
        [numpy_helper.from_array(array, name) for name, array in numbers.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def squared(reduce: str = "ReduceMean", **attributes: Any) -> list[onnx.NodeProto]:
    """The mean squared error of `y` and `t`, over all numbers."""
    return [
        node("Sub", ["y", "t"], ["error"], name="error"),
        node("Mul", ["error", "error"], ["square"], name="square"),
        node(reduce, ["square"], ["loss"], name="mean", **{"keepdims": 0, **attributes}),
    ]


def renamed(model: onnx.ModelProto, names: dict[str, str]) -> bytes:
    """The model with other names of inputs and outputs."""
    graph = model.graph
    for value in (*graph.input, *graph.output):
        value.name = names.get(value.name, value.name)
    for node in graph.node:
        for tensors in (node.input, node.output):
            tensors[:] = [names.get(tensor, tensor) for tensor in tensors]
    content: bytes = model.SerializeToString()
    return content
