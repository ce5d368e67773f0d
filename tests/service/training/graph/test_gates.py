"""Products of a tensor and its own gate, and GELU as exporters spell it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import onnx
import pytest
from gradients import LOSS, OPSET, check, reference, weighted
from onnx import TensorProto, helper, numpy_helper

from service.training.graph.gates import write_gelu
from service.training.graph.passes.prepare import prepare
from service.training.graph.step import differentiate

X = np.random.default_rng(0).normal(scale=2, size=(4, 5))
ROOT, HALF = ("Mul", "x", 0.5**0.5), ("Mul", "x", 0.5)
Node = tuple[str, "str | float", "str | float"]
GELUS: dict[str, list[Node]] = {
    "torchscript": [
        ("Div", "x", 2**0.5),
        ("Erf", "0", ""),
        ("Add", "1", 1.0),
        ("Mul", "x", "2"),
        ("Mul", "3", 0.5),
    ],
    "dynamo": [ROOT, ("Erf", "0", ""), ("Add", "1", 1.0), ("Mul", 0.5, "2"), ("Mul", "x", "3")],
    "half_first": [HALF, ROOT, ("Erf", "1", ""), ("Add", 1.0, "2"), ("Mul", "0", "3")],
}
OTHERS: dict[str, list[Node]] = {
    "silu": [("Sigmoid", "x", ""), ("Mul", "x", "0")],
    "quick_gelu": [("Mul", "x", 1.702), ("Sigmoid", "0", ""), ("Mul", "1", "x")],
}
UNLIKE: dict[str, list[Node]] = {
    "of_others": [
        ("Sub", 1.0, "x"),
        ("Erf", "0", ""),
        ("Add", "1", 1.0),
        ("Mul", "x", "2"),
        ("Mul", "3", 0.5),
    ],
    "twice_as_much": [ROOT, ("Erf", "0", ""), ("Add", "1", 1.0), ("Mul", "x", "2")],
    "another_number": [
        ROOT,
        ("Erf", "0", ""),
        ("Add", "1", 2.0),
        ("Mul", "x", "2"),
        ("Mul", "3", 0.5),
    ],
    "squared": [
        ROOT,
        ("Erf", "0", ""),
        ("Add", "1", 1.0),
        ("Mul", "x", "2"),
        ("Mul", "3", "x"),
        ("Mul", "4", 0.5),
    ],
    "divided_by": [("Div", 1.0, "x"), ("Sigmoid", "0", ""), ("Mul", "x", "1")],
}


def model_of(nodes: list[Node]) -> onnx.ModelProto:
    """From x to the last node's result; others go by their numbers."""
    numbers = {f"c{each}": each for node in nodes for each in node[1:] if isinstance(each, float)}
    protos = [
        helper.make_node(
            op_type,
            [f"c{value}" if isinstance(value, float) else value for value in inputs if value != ""],
            [str(place)],
        )
        for place, (op_type, *inputs) in enumerate(nodes)
    ]
    graph = helper.make_graph(
        protos,
        "gate",
        [helper.make_tensor_value_info("x", TensorProto.DOUBLE, [4, 5])],
        [helper.make_tensor_value_info(protos[-1].output[0], TensorProto.DOUBLE, [4, 5])],
        [numpy_helper.from_array(np.array(value), name) for name, value in numbers.items()],
    )
    opsets = [helper.make_opsetid("", OPSET)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def written_of(model: onnx.ModelProto, parameters: Sequence[str] = ()) -> onnx.ModelProto:
    """As a step has it."""
    prepared = prepare(model, parameters=parameters)
    write_gelu(prepared, parameters)
    return prepared


def passes(model: onnx.ModelProto) -> int:
    """Nodes of forward and backward pass, without those of the loss."""
    loss = weighted(model, {"x": X})
    counts = Counter(
        node.op_type for node in differentiate(loss, loss=LOSS, parameters=["x"]).graph.node
    )
    return counts.total() - counts["ReduceSum"] - counts["Sum"] - counts["Expand"]


@pytest.mark.parametrize("name", GELUS)
def test_gelu_becomes_a_product_with_its_gate_however_it_is_spelled(name: str) -> None:
    model = model_of(GELUS[name])
    written = written_of(model)
    assert [node.op_type for node in written.graph.node][1:] == ["Erf", "HardSigmoid", "Mul"]
    before, after = (reference(each).run(None, {"x": X})[0] for each in (model, written))
    np.testing.assert_allclose(after, before, rtol=1e-6, atol=1e-9)
    check(written, {"x": X})
    assert passes(written) < passes(model) - 4


@pytest.mark.parametrize("name", OTHERS)
def test_a_gate_has_the_slope_that_differences_show(name: str) -> None:
    check(model_of(OTHERS[name]), {"x": X})


@pytest.mark.parametrize("name", UNLIKE)
def test_what_only_looks_like_a_gate_is_left_and_differentiated_node_by_node(name: str) -> None:
    model = model_of(UNLIKE[name])
    written = written_of(model)
    assert [each.op_type for each in written.graph.node] == [each[0] for each in UNLIKE[name]]
    check(written, {"x": np.abs(X) + 0.5})


def test_a_gate_with_another_reader_gets_that_ones_gradient_too() -> None:
    model = model_of([("Sigmoid", "x", ""), ("Mul", "x", "0"), ("Add", "1", "0")])
    check(model, {"x": X})


def test_a_factor_that_trains_gets_its_gradient() -> None:
    model = model_of([("Mul", "x", 0.7), ("Sigmoid", "0", ""), ("Mul", "x", "1")])
    (factor,) = model.graph.initializer
    model.graph.input.append(helper.make_tensor_value_info(factor.name, TensorProto.DOUBLE, []))
    del model.graph.initializer[:]
    model.graph.node[0].input[1] = model.graph.input[1].name = "factor"
    check(model, {"x": X, "factor": np.array(0.7)})


def test_gelu_with_a_factor_that_trains_is_left() -> None:
    model = model_of(GELUS["torchscript"])
    half = next(each.name for each in model.graph.initializer if each.name == "c0.5")
    written = written_of(model, [half])
    assert [each.op_type for each in written.graph.node] == [
        each[0] for each in GELUS["torchscript"]
    ]
