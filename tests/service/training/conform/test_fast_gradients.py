"""Operators that have a gradient, but a slow one, are written anew, with the same gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from graph_parts import SPATIAL, ints, node, normal
from operators import weights

from service.training.protocol.messages.preparation import Prepared


def index(value: int) -> np.ndarray:
    return np.array(value, np.int64)


SHAPED = node("Reshape", ["h", "to_spatial"], ["s"], name="to")
FLAT = node("Flatten", ["t"], ["g"], name="flat")
LAST = node("Gather", ["s", "last"], ["t"], name="last_row", axis=2)
POOLED = [
    SHAPED,
    node("Conv", ["s", "k"], ["c"], name="conv", pads=[1, 1, 1, 1]),
    node("Relu", ["c"], ["r"], name="relu"),
    node("MaxPool", ["r"], ["t"], name="pool", kernel_shape=[2, 2]),
    FLAT,
]
PARTS = [
    SHAPED,
    *(
        node("Gather", ["s", f"i{at}"], [f"p{at}"], name=f"part{at}", axis=-3)
        for at in (2, 0, 3, 1)
    ),
    node("Mul", ["p0", "p1"], ["a"], name="a"),
    node("Mul", ["p2", "p3"], ["d"], name="d"),
    node("Sub", ["a", "d"], ["t"], name="sub"),
    FLAT,
]
POSITIONS = {f"i{at}": index(at if at else -4) for at in range(4)}

CASES: dict[str, tuple[list[onnx.NodeProto], dict[str, Any], str, str]] = {
    "Relu": ([node("Relu", ["h"], ["g"], name="relu")], {}, "ReluGrad", "HardSigmoid"),
    "ReluOfConvUnderMaxPool": (
        POOLED,
        {**SPATIAL, "k": weights(3, 4, 3, 3), "out": 3, "size": 16},
        "ReluGrad",
        "HardSigmoid",
    ),
    "GatherOfOne": (
        [SHAPED, LAST, FLAT],
        {**SPATIAL, "last": index(-1), "out": 8, "size": 16},
        "GatherGrad",
        "Slice",
    ),
    "GatherOfEach": (
        PARTS,
        {**SPATIAL, **POSITIONS, "out": 4, "size": 16},
        "GatherGrad",
        "Split",
    ),
    "GatherOfOneTwice": (
        [
            SHAPED,
            LAST,
            node("Gather", ["s", "last"], ["u"], name="again", axis=2),
            node("Mul", ["t", "u"], ["v2"], name="square"),
            node("Flatten", ["v2"], ["g"], name="flat"),
        ],
        {**SPATIAL, "last": index(1), "out": 8, "size": 16},
        "",
        "Slice",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_what_was_written_anew_has_the_gradient_of_finite_differences(
    name: str,
    graphs: Any,
    accept: Callable[..., Prepared],
    check_gradients: Callable[..., None],
) -> None:
    nodes, extra, gone, stead = CASES[name]
    model = graphs.around(*nodes, **extra)
    prepared = accept(model, optimizer="sgd")

    operators = {n.op_type for n in onnx.load(prepared.artifacts.training_model).graph.node}
    assert gone not in operators
    assert stead in operators
    check_gradients(model, prepared, 1e-3)


@pytest.mark.parametrize(("opset", "stays"), [(14, True), (15, False), (17, False)])
def test_the_gradient_of_a_bias_is_a_product(
    opset: int,
    stays: bool,
    graphs: Any,
    accept: Callable[..., Prepared],
    check_gradients: Callable[..., None],
) -> None:
    model = graphs.around(node("Tanh", ["h"], ["g"], name="tanh"), opset=opset)
    prepared = accept(model, optimizer="sgd")

    training = onnx.load(prepared.artifacts.training_model)
    sums = [n for n in training.graph.node if n.op_type == "ReduceSum"]
    assert any(n.op_type == "Gemm" for n in training.graph.node)
    assert bool(sums) == stays
    read = {name for n in training.graph.node for name in n.input}
    assert {tensor.name for tensor in training.graph.initializer} <= read
    check_gradients(model, prepared, 1e-3)


@pytest.mark.parametrize(("halves", "vectors"), [(False, 1), (True, 3)])
def test_biases_share_their_ones_where_the_graph_tells_the_same_rows(
    halves: bool,
    vectors: int,
    graphs: Any,
    accept: Callable[..., Prepared],
    check_gradients: Callable[..., None],
) -> None:
    """With halves, a layer has twice the rows, and Reshape hides that it is not more."""
    nodes = [
        node("Gemm", ["h", "k", "c"], ["i"], name="second"),
        node("Tanh", ["i"], ["j"], name="tanh"),
        node("Gemm", ["j", "m", "d"], ["g"], name="third"),
    ]
    extra = {"k": normal(8, 8, seed=3), "c": normal(8, seed=4)}
    if halves:
        nodes[0] = node("Gemm", ["p", "k", "c"], ["q"], name="second")
        nodes.insert(0, node("Reshape", ["h", "to_halves"], ["p"], name="to"))
        nodes.insert(2, node("Reshape", ["q", "to_whole"], ["i"], name="back"))
        extra = {"k": normal(4, 4, seed=3), "c": normal(4, seed=4)}
        extra |= {"to_halves": ints(-1, 4), "to_whole": ints(-1, 8)}
    last = {"m": normal(8, 5, seed=5), "d": normal(5, seed=6)}
    model = graphs.around(*nodes, **extra, **last, size=8, out=5)
    prepared = accept(model, optimizer="sgd")

    operators = [n.op_type for n in onnx.load(prepared.artifacts.training_model).graph.node]
    assert operators.count("ConstantOfShape") == vectors
    check_gradients(model, prepared, 1e-3)


def test_a_gather_of_one_position_is_told(graphs: Any, accept: Callable[..., Prepared]) -> None:
    nodes, extra, _, _ = CASES["GatherOfEach"]

    prepared = accept(graphs.around(*nodes, **extra))

    (note,) = [note for note in prepared.notes if "Gather" in note]
    assert all(f"part{at}" in note for at in range(4))


def test_embeddings_and_old_opsets_keep_their_gather(
    graphs: Any, accept: Callable[..., Prepared]
) -> None:
    several = node("Gather", ["h", "index"], ["g"], name="several", axis=1)
    positions = np.array([0, 3], np.int64)
    kept = accept(graphs.around(several, index=positions, out=2))
    nodes, extra, _, _ = CASES["GatherOfOne"]
    old = accept(graphs.around(*nodes, **extra, opset=12))

    for prepared in (kept, old):
        operators = {n.op_type for n in onnx.load(prepared.artifacts.eval_model).graph.node}
        assert "Gather" in operators
