"""Weights that cannot train where they are read: they are counted as frozen, and it is said why."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from graph_parts import node, normal
from onnx import ModelProto, TensorProto, helper, numpy_helper

from service.training.protocol.messages.preparation import Prepared

Accept = Callable[..., Prepared]
Refuse = Callable[..., dict[str, str]]


def test_weights_of_a_fused_operator_are_counted_as_frozen_and_noted(
    graphs: Any, accept: Accept
) -> None:
    prepared = accept(_fused(graphs))

    assert prepared.trainable == ("v",)
    assert (prepared.trainable_parameters, prepared.frozen_parameters) == (24, 48)
    assert {each.name: each.trains for each in prepared.parameters} == {"w": False, "v": True}
    (note,) = prepared.notes
    assert '"w" does not train: node "fused" (FusedGemm)' in note


def test_weights_that_are_left_out_by_choice_are_counted_and_not_noted(
    graphs: Any, accept: Accept
) -> None:
    prepared = accept(_fused(graphs), trainable=("v",))

    assert prepared.frozen_parameters == 48
    assert prepared.notes == ()


def test_by_default_what_lies_below_weights_that_cannot_train_is_cut_off(
    graphs: Any, accept: Accept
) -> None:
    prepared = accept(_fused(graphs), divide=True)

    assert prepared.cut is not None
    assert prepared.cut.tensors == ("g",)
    assert {each.name: each.below for each in prepared.parameters} == {"w": True, "v": False}


def _fused(graphs: Any) -> ModelProto:
    nodes = [
        node(
            *("FusedGemm", ["x", "w"], ["g"]),
            name="fused",
            domain="com.microsoft",
            activation="Relu",
        ),
        node("MatMul", ["g", "v"], ["y"], name="head"),
    ]
    weights = {"w": normal(6, 8), "v": normal(8, 3, seed=1)}
    model: ModelProto = graphs.model(nodes, weights, domains=["com.microsoft"])
    return model


def test_weights_in_the_body_of_a_loop_are_counted_as_frozen_and_noted(
    graphs: Any, accept: Accept
) -> None:
    value = helper.make_tensor_value_info
    body = helper.make_graph(
        [
            node("MatMul", ["state", "outer"], ["m"], name="m"),
            node("MatMul", ["m", "inner"], ["n"], name="n"),
            node("Identity", ["on"], ["go_on"], name="same"),
        ],
        "body",
        [
            value("step", TensorProto.INT64, []),
            value("on", TensorProto.BOOL, []),
            value("state", TensorProto.FLOAT, None),
        ],
        [value("go_on", TensorProto.BOOL, []), value("n", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(normal(6, 6, seed=1), "inner")],
    )
    nodes = [
        node("Loop", ["trips", "yes", "x"], ["l"], name="loop", body=body),
        node("MatMul", ["l", "v"], ["y"], name="head"),
    ]
    weights = {"trips": np.array(2), "yes": np.array(True)}
    prepared = accept(graphs.model(nodes, {**weights, "outer": normal(6, 6), "v": normal(6, 3)}))

    assert prepared.frozen_parameters == 72
    assert {each.name for each in prepared.parameters if not each.trains} == {"outer", "inner"}
    (note,) = prepared.notes
    assert '"outer", "inner" do not train: node "loop" (Loop) is control flow' in note


def test_a_weight_behind_an_operator_without_a_gradient_is_noted(
    graphs: Any, accept: Accept
) -> None:
    nodes = [
        node("Cast", ["h"], ["i"], to=TensorProto.INT64, name="whole"),
        node("Cast", ["i"], ["g"], to=TensorProto.FLOAT, name="float"),
    ]
    prepared = accept(graphs.around(*nodes))

    assert prepared.frozen_parameters == 35
    assert any(
        '"w", "b" do not train: the gradient ends at node "whole" (Cast)' in note
        for note in prepared.notes
    )


def test_a_table_that_an_operator_with_a_gradient_reads_trains_if_it_is_named(
    graphs: Any, accept: Accept
) -> None:
    """Learned centres: rows are compared with them by subtraction."""
    model = graphs.around(node("Sub", ["h", "centres"], ["g"], name="off"), centres=normal(1, 5))
    prepared = accept(model)

    assert "centres" not in prepared.trainable
    assert prepared.frozen_parameters == 5
    assert any('"centres" does not train by default' in note for note in prepared.notes)
    assert "centres" in accept(model, trainable=("centres", "v")).trainable


def test_operators_that_hold_the_weights_are_told_where_none_trains(
    graphs: Any, refuse: Refuse
) -> None:
    linear = node(
        "LinearRegressor", ["x"], ["y"], name="ridge", domain="ai.onnx.ml",
        coefficients=[0.5] * 6, intercepts=[0.0], targets=1,
    )  # fmt: skip
    model = graphs.model([linear], {}, y=("batch", 1))
    model.opset_import[0].CopyFrom(helper.make_opsetid("ai.onnx.ml", 3))  # as onnxmltools does
    told = refuse(model)["/model/graph/initializer"]
    assert 'node "ridge" (LinearRegressor) is an operator of ai.onnx.ml' in told
    nodes = [node("DequantizeLinear", ["w", "s"], ["d"]), node("MatMul", ["x", "d"], ["y"])]
    weights = {"w": np.ones((6, 3), np.int8), "s": np.float32(0.1)}
    told = refuse(graphs.model(nodes, weights))["/model/graph/initializer"]
    assert "(DequantizeLinear) is quantized and cannot train" in told
    assert "train adapters (lora), or" in told
    scales = {"s": np.float32(0.1), "z": np.int8(0)}
    nodes = [
        node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        node("QLinearMatMul", ["q", "s", "z", "w", "s", "z", "s", "z"], ["r"]),
        node("DequantizeLinear", ["r", "s", "z"], ["y"]),
    ]
    told = refuse(graphs.model(nodes, {"w": weights["w"], **scales}))["/model/graph/initializer"]
    assert "(QLinearMatMul) is quantized" in told, "no adapter could train beside it"
    assert "train adapters (lora) beside its form in QDQ" in told
