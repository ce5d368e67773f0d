"""EmbeddingBag, which TorchScript's exporter writes as a Loop over bags."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from gradients import OPSET, check, reference
from onnx import TensorProto, helper, numpy_helper
from onnx.helper import make_node, make_tensor_value_info

from service.training.errors import GraphRefused
from service.training.graph.passes.bags import lay_out_bags
from service.training.preparation.bounds import require_bounded

ROWS, WIDTH = 9, 3
TABLE = np.random.default_rng(0).normal(size=(ROWS, WIDTH))
INDICES = np.array([4, 1, 1, 8, 0, 2, 5])
OFFSETS = np.array([0, 3, 4])


def body(reduction: str, opset: int) -> onnx.GraphProto:
    """Of the loop: the rows of one bag."""
    reduces: dict[str, Any] = {"keepdims": 0}
    axes = ["zeros"] if reduction == "ReduceSum" or opset >= 18 else []
    if not axes:
        reduces["axes"] = [0]
    nodes = [
        make_node("Gather", ["starts", "n"], ["a"], axis=0),
        make_node("Gather", ["ends", "n"], ["b"], axis=0),
        make_node("Unsqueeze", ["a", "zeros"], ["start"]),
        make_node("Unsqueeze", ["b", "zeros"], ["end"]),
        make_node("Slice", ["indices", "start", "end", "zeros"], ["own"]),
        make_node("Gather", ["table", "own"], ["rows"], axis=0),
        make_node(reduction, ["rows", *axes], ["result"], **reduces),
        make_node("Cast", ["yes"], ["go"], to=TensorProto.BOOL),
    ]
    number = make_tensor_value_info("n", TensorProto.INT64, [])
    before, after = (make_tensor_value_info(name, TensorProto.BOOL, []) for name in ("c", "go"))
    result = make_tensor_value_info("result", TensorProto.DOUBLE, [WIDTH])
    return helper.make_graph(nodes, "bag", [number, before], [after, result])


def model(reduction: str, *, opset: int = OPSET, goes_on: bool = True) -> onnx.ModelProto:
    """As the exporter writes it: the last bag ends where the indices do."""
    nodes = [
        make_node("Shape", ["indices"], ["size"]),
        make_node("Concat", ["offsets", "size"], ["starts"], axis=0),
        make_node("Slice", ["starts", "one", "far", "zeros"], ["ends"]),
        make_node("Shape", ["ends"], ["counts"]),
        make_node("Squeeze", ["counts", "zeros"], ["count"]),
        make_node("Loop", ["count", "yes"], ["bags"], name="loop", body=body(reduction, opset)),
        make_node("Tanh", ["bags"], ["y"], name="y"),
    ]
    constants = {
        "table": TABLE,
        "zeros": np.array([0]),
        "one": np.array([1]),
        "far": np.array([1 << 60]),
        "yes": np.array(goes_on),
    }
    inputs = [make_tensor_value_info(n, TensorProto.INT64, [n]) for n in ("indices", "offsets")]
    graph = helper.make_graph(
        nodes,
        "embedding bag",
        inputs,
        [helper.make_empty_tensor_value_info("y")],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    opsets = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


@pytest.mark.parametrize("opset", [17, 18])
@pytest.mark.parametrize("reduction", ["ReduceSum", "ReduceMean", "ReduceMax"])
def test_bags_of_different_lengths_are_computed_at_once(reduction: str, opset: int) -> None:
    looped = model(reduction, opset=opset)
    feeds = {"indices": INDICES, "offsets": OFFSETS}
    (expected,) = reference(looped).run(None, feeds)
    plain = onnx.ModelProto()
    plain.CopyFrom(looped)
    lay_out_bags(plain)
    require_bounded(plain)
    (found,) = reference(plain).run(None, feeds)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    table = next(t for t in plain.graph.initializer if t.name == "table")
    plain.graph.initializer.remove(table)
    plain.graph.input.append(make_tensor_value_info("table", TensorProto.DOUBLE, TABLE.shape))
    check(plain, {**feeds, "table": TABLE})


def test_two_loops_without_names_stay_apart() -> None:
    twice = model("ReduceSum")
    loop = next(node for node in twice.graph.node if node.op_type == "Loop")
    loop.name = ""
    other = twice.graph.node.add()
    other.CopyFrom(loop)
    other.output[0] = "more_bags"
    lay_out_bags(twice)
    made = [name for node in twice.graph.node for name in node.output]
    made += [tensor.name for tensor in twice.graph.initializer]
    assert len(made) == len(set(made))


def test_bags_without_rows_are_zeros() -> None:
    plain = model("ReduceMean")
    lay_out_bags(plain)
    feeds = {"indices": INDICES, "offsets": np.array([0, 0, 4])}
    (found,) = reference(plain).run(None, feeds)
    assert not found[0].any()
    np.testing.assert_allclose(found[1], np.tanh(TABLE[INDICES[:4]].mean(0)))


def test_other_loops_stay_and_are_refused() -> None:
    other = model("ReduceSum", goes_on=False)
    lay_out_bags(other)
    assert "Loop" in {node.op_type for node in other.graph.node}
    with pytest.raises(GraphRefused, match="trip count"):
        require_bounded(other)
