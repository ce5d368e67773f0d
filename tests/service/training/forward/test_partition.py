"""What is frozen is cut off, and both halves compute what the whole did."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from graph_parts import DEEP, deep, node, normal
from halves import Halves, check, run, with_weights
from onnx import TensorProto

from service.training.protocol.messages.preparation import Prepared

GRAPHS = Path(__file__).parent.parent / "graphs"
CURVES: list[dict[str, Any]] = json.loads((GRAPHS / "curves.json").read_text())
CURVES = [case for case in CURVES if case["name"] != "cnn_bn_live_ts13"]
"""Whose opset 13 onnx cannot convert: its BatchNormalization has five outputs."""
DEEPER = ("cnn", "gru", "lstm", "transformer", "zoo")
"""Architectures with something below their last two layers."""
KINDS = {(re.sub(r"\d+$", "", case["name"]), case["exporter"]): case for case in CURVES}
"""One export of each network by each exporter, of whatever opset."""
CUTS = [(case, "last:2" if case["name"].startswith(DEEPER) else "head") for case in KINDS.values()]
Accept = Callable[..., Prepared]


@pytest.fixture
def halves(accept: Accept, trainer: Any) -> Callable[..., Halves]:
    def make(model: Any, *trainable: str, **choices: Any) -> Halves:
        return Halves(accept(model, trainable=trainable, divide=True, **choices), trainer)

    return make


@pytest.mark.parametrize(("case", "trainable"), CUTS, ids=[f"{c['name']}-{t}" for c, t in CUTS])
def test_an_exported_model_computes_the_same_cut_and_whole(
    case: dict[str, Any], trainable: str, accept: Accept, trainer: Any, tmp_path: Path
) -> None:
    source = GRAPHS / f"{case['name']}.onnx"
    prepared = accept(
        source,
        loss=case["loss"],
        optimizer=case["optimizer"],
        trainable=(trainable,),
        divide=True,
    )
    with np.load(GRAPHS / "data.npz") as data:
        x = data[case["input"]][:8]
        y = data["label" if case["loss"] == "cross_entropy" else "value"][:8]
    cut = Halves(prepared, trainer)

    losses = cut.train(y, **{case["input"]: x})
    joined = cut.join(tmp_path)

    assert np.isfinite(losses).all()
    (expected,) = run(with_weights(source, cut.weights()), **{case["input"]: x})
    (found,) = run(joined, **{case["input"]: x})
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    exported = onnx.load(joined)
    assert [value.name for value in exported.graph.input] == [case["input"]]
    assert [value.name for value in exported.graph.output] == [prepared.output]
    onnx.checker.check_model(exported)


def test_a_skip_connection_across_the_cut_is_a_second_feature(
    graphs: Any, halves: Callable[..., Halves], tmp_path: Path
) -> None:
    model = graphs.model(
        [
            node("Gemm", ["x", "w"], ["h"], name="first"),
            node("Relu", ["h"], ["r"], name="relu"),
            node("MatMul", ["r", "m"], ["n"], name="middle"),
            node("Add", ["n", "h"], ["s"], name="skip"),
            node("MatMul", ["s", "v"], ["y"], name="last"),
        ],
        {"w": normal(6, 4), "m": normal(4, 4, seed=1), "v": normal(4, 3, seed=2)},
    )
    cut = halves(model, "m", "v")
    assert cut.prepared.cut is not None
    assert set(cut.prepared.cut.tensors) == {"r", "h"}
    check(cut, model, tmp_path)


def test_an_input_that_reaches_both_sides_is_passed_through(
    graphs: Any, halves: Callable[..., Halves], tmp_path: Path
) -> None:
    model = graphs.model(
        [
            *deep("x", "h"),
            node("Gemm", ["x", "u"], ["c"], name="from_input"),
            node("MatMul", ["h", "v"], ["d"], name="from_features"),
            node("Add", ["c", "d"], ["y"], name="sum"),
        ],
        {**DEEP, "u": normal(6, 3, seed=4), "v": normal(6, 3, seed=5)},
    )
    cut = halves(model, "u", "v")
    assert cut.prepared.cut is not None
    assert set(cut.prepared.cut.tensors) == {"h", "x"}
    check(cut, model, tmp_path)


def test_a_shape_that_is_told_from_a_frozen_tensor_is_told_from_the_features(
    graphs: Any, halves: Callable[..., Halves], tmp_path: Path
) -> None:
    model = graphs.model(
        [
            *deep("x", "h"),
            node("MatMul", ["h", "m"], ["t"], name="trained"),
            node("Shape", ["x"], ["shape"], name="shape"),
            node("Gather", ["shape", "zero"], ["rows"], name="rows"),
            node("Unsqueeze", ["rows", "axis"], ["rows1"], name="rows1"),
            node("Concat", ["rows1", "two", "minus"], ["target"], name="target", axis=0),
            node("Reshape", ["t", "target"], ["split"], name="split"),
            node("ReduceMean", ["split"], ["g"], name="mean", axes=[1], keepdims=0),
            node("MatMul", ["g", "v"], ["y"], name="last"),
        ],
        {
            **DEEP,
            "m": normal(6, 8, seed=1),
            "v": normal(4, 3, seed=2),
            "zero": np.array(0),
            "axis": np.array([0]),
            "two": np.array([2]),
            "minus": np.array([-1]),
        },
    )
    cut = halves(model, "m", "v")
    assert cut.prepared.cut is not None
    assert cut.prepared.cut.tensors == ("h",)
    check(cut, model, tmp_path)


@pytest.mark.parametrize("layout", ["batch_second", "batch_folded"])
def test_features_are_rows_of_samples_whatever_the_layout(
    layout: str, graphs: Any, halves: Callable[..., Halves], tmp_path: Path
) -> None:
    """Time before batch, as recurrences have it; heads folded into the batch, as attention has."""
    second = [
        node("Reshape", ["h", "by_two"], ["h3"], name="split"),
        node("Transpose", ["h3"], ["f"], name="turn", perm=[1, 0, 2]),
        node("MatMul", ["f", "m"], ["t"], name="trained"),
        node("ReduceMean", ["t"], ["g"], name="mean", axes=[0], keepdims=0),
    ]
    folded = [
        node("Reshape", ["h", "fold"], ["f"], name="fold_rows"),
        node("MatMul", ["f", "m"], ["t"], name="trained"),
        node("Reshape", ["t", "unfold"], ["g"], name="unfold_rows"),
    ]
    chosen = second if layout == "batch_second" else folded
    out = 4 if layout == "batch_second" else 8
    model = graphs.model(
        [*deep("x", "h"), *chosen, node("MatMul", ["g", "v"], ["y"], name="last")],
        {
            **DEEP,
            "m": normal(3, 4, seed=1),
            "v": normal(out, 3, seed=2),
            "by_two": np.array([-1, 2, 3]),
            "fold": np.array([-1, 3]),
            "unfold": np.array([-1, 8]),
        },
    )
    check(halves(model, "m", "v"), model, tmp_path)


@pytest.mark.parametrize("activation", ["HardSwish", "Mish", "Selu", "Elu"])
def test_a_frozen_operator_needs_no_gradient_and_no_mending(
    activation: str, graphs: Any, halves: Callable[..., Halves], tmp_path: Path
) -> None:
    model = graphs.model(
        [*deep("x", "h", activation), node("MatMul", ["h", "v"], ["y"], name="last")],
        {**DEEP, "v": normal(6, 3, seed=2)},
        opset=18,
    )
    cut = halves(model, "v")
    assert any(node.op_type == activation for node in onnx.load(cut.prefix).graph.node)
    check(cut, model, tmp_path)


def test_a_quantized_frozen_part_stays_quantized(
    graphs: Any, halves: Callable[..., Halves], tmp_path: Path
) -> None:
    scales = {"scale": np.float32(0.02), "zero": np.array(0, np.int8)}
    model = graphs.model(
        [
            node("DequantizeLinear", ["q", "scale", "zero"], ["w"], name="weights"),
            node("MatMul", ["x", "w"], ["h0"], name="product"),
            node("QuantizeLinear", ["h0", "scale", "zero"], ["h1"], name="quantize"),
            node("DequantizeLinear", ["h1", "scale", "zero"], ["h"], name="dequantize"),
            node("MatMul", ["h", "v"], ["y"], name="last"),
        ],
        {
            "q": np.random.default_rng(0).integers(-90, 90, (6, 5)).astype(np.int8),
            "v": normal(5, 3, seed=2),
            **scales,
        },
    )
    cut = halves(model, "v")
    kinds = {node.op_type for node in onnx.load(cut.prefix).graph.node}
    assert {"QuantizeLinear", "DequantizeLinear"} <= kinds
    check(cut, model, tmp_path)


def test_dropout_right_below_the_head_goes_on_dropping_and_deeper_ones_do_not(
    graphs: Any, halves: Callable[..., Halves], tmp_path: Path
) -> None:
    model = graphs.model(
        [
            node("Dropout", ["x", "ratio", "on"], ["x0"], name="deep_dropout"),
            *deep("x0", "h"),
            node("Dropout", ["h", "ratio", "on"], ["d"], name="dropout"),
            node("MatMul", ["d", "v"], ["y"], name="last"),
        ],
        {**DEEP, "v": normal(6, 3, seed=2), "ratio": np.float32(0.5), "on": np.array(True)},
    )
    cut = halves(model, "v")
    assert cut.prepared.cut is not None
    assert cut.prepared.cut.tensors == ("h",)
    suffix = onnx.load(cut.prepared.artifacts.training_model)
    assert [value.name for value in suffix.graph.input if "random" in value.name] == [
        "hone.random.dropout"
    ]
    x = normal(4, 6, seed=1)
    first, again = run(cut.prefix, x=x), run(cut.prefix, x=x)
    np.testing.assert_array_equal(first[0], again[0])


def test_features_that_cost_more_to_read_than_to_make_are_not_stored(
    graphs: Any, accept: Accept
) -> None:
    model = graphs.model(
        [
            node("Gather", ["table", "x"], ["e"], name="embed"),
            node("ReduceMean", ["e"], ["m"], name="mean", axes=[1], keepdims=0),
            node("MatMul", ["m", "w"], ["k"], name="trained"),
            node("MatMul", ["e", "u"], ["p"], name="wide"),
            node("ReduceMean", ["p"], ["q"], name="mean2", axes=[1], keepdims=0),
            node("Add", ["k", "q"], ["y"], name="sum"),
        ],
        {"table": normal(50, 4096), "w": normal(4096, 3, seed=1), "u": normal(4096, 3, seed=2)},
        x=("batch", 6),
        x_type=TensorProto.INT64,
    )
    prepared = accept(model, trainable=("w", "u"), divide=True)
    assert prepared.cut is not None
    assert not prepared.cut.pays
    assert prepared.artifacts.prefix_model is None
    assert any("to store those would cost more" in note for note in prepared.notes)


def test_a_model_whose_weights_all_train_is_left_whole(graphs: Any, accept: Accept) -> None:
    prepared = accept(graphs.around(node("Relu", ["h"], ["g"], name="r")), divide=True)
    assert prepared.cut is None
    assert prepared.artifacts.prefix_model is None


def test_rows_that_depend_on_the_rows_beside_them_are_not_cut_off(
    graphs: Any, accept: Accept
) -> None:
    model = graphs.model(
        [
            *deep("x", "h"),
            node("ReduceMean", ["h"], ["c"], name="centre", axes=[0], keepdims=1),
            node("Sub", ["h", "c"], ["d"], name="centred"),
            node("MatMul", ["d", "v"], ["y"], name="last"),
        ],
        {**DEEP, "v": normal(6, 3, seed=2)},
    )
    prepared = accept(model, trainable=("v",), divide=True)
    assert prepared.artifacts.prefix_model is None
