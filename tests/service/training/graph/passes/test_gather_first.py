"""Slices of transposed tensors, taken before the transposition."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from gradients import OPSET, check
from onnx import TensorProto, helper, numpy_helper

from service.training.graph.passes.prepare import prepare

node = helper.make_node


def model_of(nodes: list[onnx.NodeProto], **numbers: int | list[int]) -> onnx.ModelProto:
    """From x [batch, 2, 3, 4] to y."""
    graph = helper.make_graph(
        nodes,
        "slices",
        [helper.make_tensor_value_info("x", TensorProto.DOUBLE, ["batch", 2, 3, 4])],
        [helper.make_empty_tensor_value_info("y")],
        [numpy_helper.from_array(np.array(number), name) for name, number in numbers.items()],
    )
    opsets = [helper.make_opsetid("", OPSET)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def attention() -> list[onnx.NodeProto]:
    """Query, key and value as PyTorch's attention takes them from one tensor."""
    return [
        node("Unsqueeze", ["x", "zero"], ["a"]),
        node("Transpose", ["a"], ["b"], perm=[3, 1, 2, 0, 4]),
        node("Squeeze", ["b", "dropped"], ["c"]),
        *(node("Gather", ["c", name], [name + "s"], axis=0) for name in "qkv"),
        node("Mul", ["qs", "ks"], ["qk"]),
        node("Sub", ["qk", "vs"], ["y"]),
    ]


def operators(model: onnx.ModelProto) -> set[str]:
    return {node.op_type for node in prepare(model).graph.node}


@pytest.mark.parametrize("dropped", [3, -2])
def test_query_key_and_value_are_sliced_where_they_lie(dropped: int) -> None:
    model = model_of(attention(), zero=[0], dropped=[dropped], q=0, k=1, v=-1)
    assert operators(model) == {"Gather", "Mul", "Sub"}
    check(model, {"x": np.random.default_rng(0).normal(size=(2, 2, 3, 4))})


@pytest.mark.parametrize(
    ("order", "axis", "place", "kept"),
    [
        ([1, 0, 2, 3], 0, 1, False),
        ([0, 3, 1, 2], -3, -1, False),
        ([1, 0, 2, 3], 2, 1, True),  # batch and the second axis still change places
        ([1, 0, 2, 3], 0, [1], True),  # the axis stays
    ],
)
def test_a_transposition_stays_where_it_moves_more_than_what_is_sliced(
    order: list[int], axis: int, place: int | list[int], kept: bool
) -> None:
    nodes = [
        node("Transpose", ["x"], ["t"], perm=order),
        node("Gather", ["t", "place"], ["y"], axis=axis),
    ]
    model = model_of(nodes, place=place)
    assert ("Transpose" in operators(model)) == kept
    check(model, {"x": np.random.default_rng(0).normal(size=(2, 2, 3, 4))})
