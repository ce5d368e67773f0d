"""Gradients that add up are written into one another, without sums of their own."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from gradients import OPSET, check
from onnx import TensorProto, helper

from service.training.graph.step import differentiate

ROWS, WIDTH = 100, 3


@pytest.mark.parametrize("is_tied", [False, True])
def test_rows_of_a_table_that_is_read_twice_are_added_into_one_gradient(*, is_tied: bool) -> None:
    """is_tied: whether the table is also a matrix that results are multiplied with."""
    nodes = [
        helper.make_node("Gather", ["w", "i"], ["a"], name="a"),
        helper.make_node("Gather", ["w", "j"], ["b"], name="b"),
        helper.make_node("Mul", ["a", "b"], ["z"], name="z"),
    ]
    if is_tied:
        nodes.append(helper.make_node("Gemm", ["z", "w"], ["logits"], name="head", transB=1))
    last = nodes[-1].output[0]
    places = [
        helper.make_tensor_value_info(name, TensorProto.INT64, ["batch"]) for name in ("i", "j")
    ]
    table = helper.make_tensor_value_info("w", TensorProto.DOUBLE, [ROWS, WIDTH])
    result = helper.make_empty_tensor_value_info(last)
    graph = helper.make_graph(nodes, "lookups", [*places, table], [result])
    opsets = [helper.make_opsetid("", OPSET)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    rng = np.random.default_rng(0)
    i, j = rng.integers(0, 5, (2, 8))
    check(model, {"w": rng.normal(size=(ROWS, WIDTH)), "i": i, "j": j})
    step = differentiate(model, loss=last, parameters=["w"])
    kinds = Counter(node.op_type for node in step.graph.node)
    assert kinds["ScatterElements"] == 2
    assert kinds["Add"] == 0
