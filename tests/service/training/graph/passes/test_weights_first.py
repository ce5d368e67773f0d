"""Products with large weights, which train with the weights as the first matrix."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import pytest
from gradients import OPSET, Array, check
from onnx import TensorProto, helper

from service.training.graph.passes.weights_first import LARGE
from service.training.graph.step import differentiate

LARGE_SIDE = 260
assert LARGE_SIDE**2 >= LARGE


def normal(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=shape) * 0.1


def layer(
    side: int = LARGE_SIDE, *, bias: int | None = LARGE_SIDE, rows: str | int = "batch"
) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """A dense layer and what follows it. bias: its elements, None for no bias."""
    feeds = {"x": normal(3, side), "w": normal(side, side, seed=1)}
    if bias is not None:
        feeds["b"] = normal(bias, seed=2)
    nodes = [
        helper.make_node("Gemm", list(feeds), ["y"], name="y", transB=1, alpha=0.5, beta=2.0),
        helper.make_node("Tanh", ["y"], ["z"], name="z"),
    ]

    def described(name: str, value: Array) -> onnx.ValueInfoProto:
        sizes: Sequence[str | int] = (rows, side) if name == "x" else value.shape
        return helper.make_tensor_value_info(name, TensorProto.DOUBLE, sizes)

    inputs = [described(*pair) for pair in feeds.items()]
    outputs = [helper.make_empty_tensor_value_info("z")]
    graph = helper.make_graph(nodes, "layer", inputs, outputs)
    opsets = [helper.make_opsetid("", OPSET)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10), feeds


def forward_products(model: onnx.ModelProto, feeds: dict[str, Array]) -> list[list[str]]:
    """The operands of the products of x and w, in order."""
    step = differentiate(model, loss="z", parameters=[name for name in feeds if name != "x"])
    pairs = [list(node.input[:2]) for node in step.graph.node if node.op_type == "Gemm"]
    return [pair for pair in pairs if set(pair) == {"x", "w"}]


@pytest.mark.parametrize("bias", [None, LARGE_SIDE])
def test_large_weights_come_first_and_gradients_stay_right(bias: int | None) -> None:
    model, feeds = layer(bias=bias)
    assert forward_products(model, feeds) == [["w", "x"]]
    check(model, feeds)


@pytest.mark.parametrize(
    ("side", "bias", "rows"),
    [(8, 8, "batch"), (LARGE_SIDE, LARGE_SIDE, 3), (LARGE_SIDE, 1, "batch")],
    ids=["small weights", "as many rows as are known", "a bias for all columns"],
)
def test_other_products_stay_as_they_are(side: int, bias: int, rows: str | int) -> None:
    model, feeds = layer(side, bias=bias, rows=rows)
    assert forward_products(model, feeds) == [["x", "w"]]
    check(model, feeds)
