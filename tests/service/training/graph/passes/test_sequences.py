"""Sequences of tensors are written as their tensors, with the same gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from gradients import check
from onnx import TensorProto, helper, numpy_helper


def taken_apart(
    places: list[int], split: list[int] | int | None, **attributes: Any
) -> onnx.ModelProto:
    """x (2, 7) into a sequence, of which some parts are taken and changed."""
    numbers = {f"at{i}": place for i, place in enumerate(places)}
    names = ["x"] if split is None else ["x", "split"]
    nodes = [helper.make_node("SplitToSequence", names, ["parts"], **attributes)]
    for i in range(len(places)):
        nodes.append(helper.make_node("SequenceAt", ["parts", f"at{i}"], [f"part{i}"]))
        nodes.append(helper.make_node("Exp", [f"part{i}"], [f"y{i}"]))
    if split is not None:
        numbers["split"] = split
    return model(nodes, [f"y{i}" for i in range(len(places))], numbers)


def model(
    nodes: list[onnx.NodeProto], outputs: list[str], numbers: dict[str, Any]
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "sequences",
        [helper.make_tensor_value_info("x", TensorProto.DOUBLE, ["batch", 7])],
        [helper.make_empty_tensor_value_info(name) for name in outputs],
        [numpy_helper.from_array(np.array(n, np.int64), name) for name, n in numbers.items()],
    )
    imports = [helper.make_opsetid("", 18)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


X = np.random.default_rng(0).normal(size=(2, 7))


@pytest.mark.parametrize(
    ("places", "split", "attributes"),
    [
        ([0, 2], 3, {"axis": 1}),  # the last of them is smaller
        ([1], 1, {"axis": 0}),
        ([1, -1], [2, 1, 4], {"axis": -1}),
        ([0, -1], None, {"axis": 1, "keepdims": 0}),
        ([-1, 3], None, {"axis": 1}),
    ],
)
def test_parts_of_a_split_sequence_have_gradients(
    places: list[int], split: list[int] | int | None, attributes: dict[str, int]
) -> None:
    check(taken_apart(places, split, **attributes), {"x": X})


@pytest.mark.parametrize("attributes", [{"axis": 1}, {"axis": -1, "new_axis": 1}])
def test_a_sequence_that_is_joined_again_has_gradients(attributes: dict[str, int]) -> None:
    nodes = [
        helper.make_node("Exp", ["x"], ["e"]),
        helper.make_node("SequenceConstruct", ["x", "e"], ["both"]),
        helper.make_node("ConcatFromSequence", ["both"], ["y"], **attributes),
        helper.make_node("SequenceAt", ["both", "last"], ["z"]),
    ]
    check(model(nodes, ["y", "z"], {"last": -1}), {"x": X})
