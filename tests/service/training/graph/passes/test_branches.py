"""An If whose condition hangs on known sizes is written as the branch that it takes."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from gradients import check
from onnx import TensorProto, helper, numpy_helper

from service.training.errors import GraphRefused
from service.training.graph.passes.prepare import prepare
from service.training.graph.step import differentiate


def squeezed(*sizes: int | str, twice: bool = False) -> onnx.ModelProto:
    """TorchScript's squeeze of axis 1: if it is 1 long, Squeeze, else Identity; then Exp."""
    nodes = _squeeze("x", "y")
    if twice:
        nodes += [
            helper.make_node("Unsqueeze", ["y", "axes"], ["z"], name="back"),
            *_squeeze("z", "u"),
        ]
    nodes.append(helper.make_node("Exp", [nodes[-1].output[0]], ["result"]))
    numbers = {"axis": np.array(1), "one": np.array([1]), "axes": np.array([1])}
    graph = helper.make_graph(
        nodes,
        "squeezed",
        [helper.make_tensor_value_info("x", TensorProto.DOUBLE, ["batch", *sizes])],
        [helper.make_empty_tensor_value_info("result")],
        [numpy_helper.from_array(array, name) for name, array in numbers.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


def _squeeze(before: str, after: str) -> list[onnx.NodeProto]:
    then = helper.make_graph(
        [
            helper.make_node("Constant", [], ["inner"], value_ints=[1]),
            helper.make_node("Squeeze", [before, "inner"], ["given"]),
        ],
        "then",
        [],
        [helper.make_empty_tensor_value_info("given")],
    )
    other = helper.make_graph(
        [helper.make_node("Identity", [before], ["given"])],
        "else",
        [],
        [helper.make_empty_tensor_value_info("given")],
    )
    return [
        helper.make_node("Shape", [before], [f"{before}/shape"]),
        helper.make_node("Gather", [f"{before}/shape", "axis"], [f"{before}/size"]),
        helper.make_node("Equal", [f"{before}/size", "one"], [f"{before}/is_one"]),
        helper.make_node(
            "If", [f"{before}/is_one"], [after], name=after, then_branch=then, else_branch=other
        ),
    ]


@pytest.mark.parametrize("size", [1, 3])
def test_the_branch_that_sizes_choose_has_a_gradient(size: int) -> None:
    check(squeezed(size, 2), {"x": np.random.default_rng(0).normal(size=(2, size, 2))})


def test_a_branch_that_tells_the_sizes_of_the_next_is_taken_first() -> None:
    model = squeezed(1, 2, twice=True)
    assert "If" not in {node.op_type for node in prepare(model).graph.node}
    check(model, {"x": np.random.default_rng(0).normal(size=(2, 1, 2))})


def test_a_condition_that_is_not_known_is_refused_by_name() -> None:
    with pytest.raises(GraphRefused, match=r'node "y" \(If\)'):
        differentiate(squeezed("some", 2), loss="result", parameters=["x"])
