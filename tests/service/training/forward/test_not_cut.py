"""Where a frozen part cannot be left in the graph, or not be cut off, and what is said then."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from graph_parts import DEEP, deep, node, normal
from halves import Halves, check
from onnx import ModelProto, TensorProto, helper

from service.training.protocol.messages.preparation import Prepared

Accept = Callable[..., Prepared]
Refuse = Callable[..., dict[str, str]]


@pytest.mark.parametrize("choice", [{}, {"trainable": ("head",)}, {"divide": True}])
def test_a_quantized_part_that_does_not_pay_stays_below_what_trains(
    choice: dict[str, Any], graphs: Any, accept: Accept, trainer: Any
) -> None:
    prepared = accept(_quantized(graphs), **choice)

    assert prepared.trainable == ("v",)
    assert prepared.artifacts.prefix_model is None
    engine = trainer(prepared.artifacts)
    x, target = normal(8, 6), normal(8, 3, seed=1)
    losses = [engine.step(x, target, learning_rate=0.01) for _ in range(3)]
    assert losses[-1] < losses[0]


def _quantized(graphs: Any) -> ModelProto:
    """Two pairs share a zero point, as ORT's tools write it, below 24000 tiny features."""
    weights = {"scale": np.float32(1e-6), "zero": np.array(128, np.uint8)}
    steps = [
        node("QuantizeLinear", ["x", "scale", "zero"], ["a0"], name="quantize0"),
        node("DequantizeLinear", ["a0", "scale", "zero"], ["a"], name="dequantize0"),
        node("Tile", ["a", "times"], ["b"], name="repeat"),
        node("QuantizeLinear", ["b", "scale", "zero"], ["c0"], name="quantize1"),
        node("DequantizeLinear", ["c0", "scale", "zero"], ["c"], name="dequantize1"),
        node("MatMul", ["c", "v"], ["y"], name="last"),
    ]
    weights |= {"times": np.array([1, 4000]), "v": normal(24000, 3, scale=0.01)}
    model: ModelProto = graphs.model(steps, weights)
    return model


def test_rows_that_depend_on_the_rows_beside_them_are_the_reason_for_no_cut(
    graphs: Any, accept: Accept
) -> None:
    model = graphs.model(
        [
            *deep("x", "h"),
            node("Softmax", ["h"], ["s"], name="over_the_batch", axis=0),
            node("MatMul", ["s", "v"], ["y"], name="last"),
        ],
        {**DEEP, "v": normal(6, 3, seed=2)},
    )
    prepared = accept(model, trainable=("v",), divide=True)

    assert prepared.cut is None
    assert prepared.notes == ("not cut: a sample's row of s depends on the rows beside it",)


def test_a_tensor_without_one_row_a_sample_is_the_reason_for_no_cut(
    graphs: Any, accept: Accept
) -> None:
    model = graphs.model(
        [
            node("ReduceMean", ["x"], ["mean"], name="mean", axes=[0], keepdims=1),
            *deep("mean", "h"),
            node("MatMul", ["x", "v"], ["p"], name="trained"),
            node("MatMul", ["h", "u"], ["q"], name="of_all"),
            node("Add", ["p", "q"], ["y"], name="sum"),
        ],
        {**DEEP, "v": normal(6, 3, seed=2), "u": normal(6, 3, seed=3)},
    )
    prepared = accept(model, trainable=("v", "u"), divide=True)

    assert prepared.cut is None
    (note,) = prepared.notes
    assert note == "not cut: h, below what trains, does not hold one row for each sample"


@pytest.mark.parametrize("divide", [True, False])
def test_a_choice_by_what_the_samples_are_stays_below_what_trains(
    divide: bool, graphs: Any, accept: Accept
) -> None:
    condition = [
        node("ReduceMean", ["x"], ["mean"], name="mean", keepdims=0),
        node("Greater", ["mean", "number"], ["flag"], name="greater"),
    ]
    model = _choosing(graphs, condition, np.float32(0))
    assert accept(model, trainable=("v",), divide=divide).trainable == ("v",)


def test_a_choice_by_how_many_samples_there_are_is_cut_off(
    graphs: Any, accept: Accept, trainer: Any, tmp_path: Any
) -> None:
    condition = [
        node("Size", ["x"], ["size"], name="size"),
        node("Greater", ["size", "number"], ["flag"], name="greater"),
    ]
    model = _choosing(graphs, condition, np.array(0))
    check(Halves(accept(model, trainable=("v",), divide=True), trainer), model, tmp_path)


@pytest.mark.parametrize("taken", ["Gather", "Slice", "Shape"])
def test_a_choice_by_a_size_that_is_fixed_stays_below_what_trains(
    taken: str, graphs: Any, accept: Accept
) -> None:
    limits = {"start": 1, "end": 2} if taken == "Shape" else {}
    steps = [node("Shape", ["x"], ["shape"], name="shape", **limits)]
    if taken == "Gather":
        steps += [node("Gather", ["shape", "one"], ["size"], name="size")]
    elif taken == "Slice":
        steps += [
            node("Slice", ["shape", "ones", "twos"], ["sizes"], name="slice"),
            node("Squeeze", ["sizes"], ["size"], name="size"),
        ]
    else:
        steps += [node("Squeeze", ["shape"], ["size"], name="size")]
    steps += [node("Equal", ["size", "number"], ["flag"], name="equal")]
    model = _choosing(graphs, steps, np.array(6))

    assert accept(model, trainable=("v",)).trainable == ("v",)


def _choosing(graphs: Any, condition: list[onnx.NodeProto], number: Any) -> ModelProto:
    """x → the condition's flag; h = x·w → If → g → v, and numbers to choose by."""

    def branch(name: str, op_type: str) -> onnx.GraphProto:
        made = node(op_type, ["h"], [name], name=f"{name}_{op_type}")
        return helper.make_graph(
            [made], name, [], [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 5])]
        )

    choice = node(
        "If", ["flag"], ["g"], name="choose",
        then_branch=branch("then", "Relu"), else_branch=branch("else", "Tanh"),
    )  # fmt: skip
    model: ModelProto = graphs.model(
        [
            node("MatMul", ["x", "w"], ["h"], name="first"),
            *condition,
            choice,
            node("MatMul", ["g", "v"], ["y"], name="last"),
        ],
        {
            "w": normal(6, 5),
            "v": normal(5, 3, seed=1),
            "number": number,
            "one": np.array(1),
            "ones": np.array([1]),
            "twos": np.array([2]),
        },
    )
    return model


def test_two_frozen_operators_whose_first_outputs_have_no_name_both_stay(
    graphs: Any, accept: Accept
) -> None:
    """GRUs of which only the last state is read."""
    states, weights = [], {"v": normal(4, 3), "first": np.array([0])}
    for name in ("a", "b"):
        weights |= {f"{name}.w": normal(1, 6, 6), f"{name}.r": normal(1, 6, 2)}
        read = ["series", f"{name}.w", f"{name}.r"]
        states.append(node("GRU", read, ["", f"{name}.last"], name=name, hidden_size=2))
    nodes = [
        node("Unsqueeze", ["x", "first"], ["series"]),
        *states,
        node("Concat", ["a.last", "b.last"], ["c"], axis=2),
        node("Squeeze", ["c", "first"], ["s"]),
        node("MatMul", ["s", "v"], ["y"]),
    ]
    assert accept(graphs.model(nodes, weights), trainable=("v",)).trainable == ("v",)
