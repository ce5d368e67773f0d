"""Each mended operator computes what it did, and its gradient is that of finite differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from service.training.messages import Prepared

node = helper.make_node
ROWS = 4


def one(op_type: str, *inputs: str, **attributes: Any) -> list[onnx.NodeProto]:
    """h → the operator → g."""
    return [node(op_type, [*(inputs or ("h",))], ["g"], name="op", **attributes)]


def spatial(*nodes: onnx.NodeProto) -> list[onnx.NodeProto]:
    """h (batch, 16) → s (batch, 4, 2, 2) → the nodes → t → g (batch, all the rest)."""
    return [
        node("Reshape", ["h", "to_spatial"], ["s"], name="to"),
        *nodes,
        node("Flatten", ["t"], ["g"], name="flat"),
    ]


def normal(*shape: int, seed: int = 5) -> np.ndarray:
    return (np.random.default_rng(seed).standard_normal(shape) * 0.5).astype(np.float32)


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


SPATIAL = {"to_spatial": ints(-1, 4, 2, 2)}

PLAIN: dict[str, tuple[list[onnx.NodeProto], dict[str, Any]]] = {
    "Celu": (one("Celu", alpha=0.7), {}),
    "Elu": (one("Elu", alpha=1.3), {}),
    "HardSigmoid": (one("HardSigmoid", alpha=0.3), {}),
    "HardSwish": (one("HardSwish"), {}),
    "LpNormalization1": (one("LpNormalization", p=1), {}),
    "LpNormalization2": (one("LpNormalization"), {}),
    "Max3": (one("Max", "h", "m1", "m2"), {"m1": normal(5), "m2": normal(5, seed=6)}),
    "Mean": (one("Mean", "h", "m1", "h"), {"m1": normal(5)}),
    "Mish": (one("Mish"), {"opset": 18}),
    "PRelu": (one("PRelu", "h", "slope"), {"slope": normal(5)}),
    "Selu": (one("Selu"), {}),
    "Softplus": (one("Softplus"), {}),
    "Softsign": (one("Softsign"), {}),
    "Sum": (one("Sum", "h", "m1", "h"), {"m1": normal(5)}),
    "ThresholdedRelu": (one("ThresholdedRelu", alpha=0.2), {}),
    "Gelu": (one("Gelu"), {"opset": 20}),
    "GeluTanh": (one("Gelu", approximate="tanh"), {"opset": 21}),
    "LayerNormalization": (
        one("LayerNormalization", "h", "scale", "shift"),
        {"scale": normal(5) + 1, "shift": normal(5)},
    ),
    "BatchNormalization": (
        one("BatchNormalization", "h", "scale", "shift", "mean", "variance"),
        {
            "scale": normal(5) + 1,
            "shift": normal(5),
            "mean": normal(5, seed=7),
            "variance": np.abs(normal(5, seed=8)) + 0.5,
        },
    ),
    "Dropout": (one("Dropout", "h", "ratio"), {"ratio": np.array(0.5, np.float32)}),
    "Einsum": (one("Einsum", "h", "m", equation="bi,ji->bj"), {"m": normal(5, 5)}),
    "EinsumThree": (
        one("Einsum", "h", "m", "h", equation="bi,kij,bj->bk"),
        {"m": normal(3, 5, 5), "out": 3},
    ),
    "EinsumShedding": (
        one("Einsum", "h", "m", equation="bi,jk->bj"),
        {"m": normal(4, 2), "out": 4},
    ),
    "Split": (
        [
            node("Split", ["x"], ["p", "unused"], name="op", num_outputs=2, axis=1),
            node("MatMul", ["p", "m"], ["q"], name="mm"),
            node("Add", ["q", "h"], ["g"], name="add"),
        ],
        {"m": normal(3, 5), "opset": 18},
    ),
    "SplitSizes": (
        [node("Split", ["h", "sizes"], ["unused", "g"], name="op", axis=1)],
        {"sizes": ints(3, 2), "out": 2},
    ),
}

SPATIAL_OPERATORS: dict[str, tuple[list[onnx.NodeProto], dict[str, Any]]] = {
    "DepthToSpace": ([node("DepthToSpace", ["s"], ["t"], name="op", blocksize=2)], {}),
    "DepthToSpaceCRD": (
        [node("DepthToSpace", ["s"], ["t"], name="op", blocksize=2, mode="CRD")],
        {},
    ),
    "SpaceToDepth": ([node("SpaceToDepth", ["s"], ["t"], name="op", blocksize=2)], {}),
    "GlobalMaxPool": ([node("GlobalMaxPool", ["s"], ["t"], name="op")], {"out": 4}),
    "InstanceNormalization": (
        [node("InstanceNormalization", ["s", "scale", "shift"], ["t"], name="op")],
        {"scale": normal(4) + 1, "shift": normal(4)},
    ),
    "GroupNormalization21": (
        [node("GroupNormalization", ["s", "scale", "shift"], ["t"], name="op", num_groups=2)],
        {"scale": normal(4) + 1, "shift": normal(4), "opset": 21},
    ),
    "MeanVarianceNormalization": (
        [node("MeanVarianceNormalization", ["s"], ["t"], name="op", axes=[2, 3])],
        {},
    ),
    "ReduceL1": ([node("ReduceL1", ["s"], ["t"], name="op", axes=[2])], {"out": 8}),
    "ReduceL2": ([node("ReduceL2", ["s"], ["t"], name="op", axes=[2, 3])], {"out": 4}),
    "ReduceLogSum": (
        [node("Exp", ["s"], ["e"], name="e"), node("ReduceLogSum", ["e"], ["t"], axes=[-1])],
        {"out": 8},
    ),
    "ReduceSumSquare": (
        [node("ReduceSumSquare", ["s", "axes"], ["t"], name="op", keepdims=0)],
        {"axes": ints(3), "out": 8, "opset": 18},
    ),
    "ReduceMax": (
        [node("ReduceMax", ["s"], ["t"], name="op", axes=[1, 3], keepdims=0)],
        {"out": 2},
    ),
    "ReduceMaxAxesInput": (
        [node("ReduceMax", ["s", "axes"], ["t"], name="op")],
        {"axes": ints(-1), "out": 8, "opset": 18},
    ),
    "ReduceMin": ([node("ReduceMin", ["s"], ["t"], name="op", axes=[2])], {"out": 8}),
    "AveragePool": (
        [node("AveragePool", ["s"], ["t"], name="op", kernel_shape=[2, 2])],
        {"out": 4},
    ),
    "ConvTranspose": (
        [node("ConvTranspose", ["s", "k", "c"], ["t"], name="op", strides=[2, 2])],
        {"k": normal(4, 3, 2, 2), "c": normal(3), "out": 48},
    ),
    "ConvTransposeGrouped": (
        [
            node(
                "ConvTranspose",
                ["s", "k"],
                ["t"],
                name="op",
                strides=[2, 3],
                group=2,
                pads=[1, 0, 0, 1],
                output_padding=[1, 1],
                dilations=[1, 2],
            )
        ],
        {"k": normal(4, 1, 3, 2), "out": 60},
    ),
    "ResizeNearest": (
        [node("Resize", ["s", "", "scales"], ["t"], name="op", mode="nearest")],
        {"scales": np.array([1, 1, 2, 3], np.float32), "out": 96},
    ),
    "ResizeLinear": (
        [
            node(
                "Resize",
                ["s", "", "", "sizes"],
                ["t"],
                name="op",
                mode="linear",
                axes=[2, 3],
                coordinate_transformation_mode="align_corners",
            )
        ],
        {"sizes": ints(3, 4), "out": 48, "opset": 18},
    ),
    "ResizeCubicAxes": (
        [node("Resize", ["s", "", "scales"], ["t"], name="op", mode="cubic", axes=[2, 3])],
        {"scales": np.array([2, 2], np.float32), "out": 64, "opset": 18},
    ),
    "AveragePoolPads": (
        [node("AveragePool", ["s"], ["t"], kernel_shape=[2, 2], pads=[1, 0, 0, 1])],
        {},
    ),
    "AveragePoolPadsCounted": (
        [
            node(
                "AveragePool",
                ["s"],
                ["t"],
                kernel_shape=[2, 2],
                pads=[1, 0, 0, 1],
                count_include_pad=1,
            )
        ],
        {},
    ),
    "AveragePoolSame": (
        [node("AveragePool", ["s"], ["t"], kernel_shape=[2, 2], auto_pad="SAME_LOWER")],
        {},
    ),
    "GlobalAveragePool": ([node("GlobalAveragePool", ["s"], ["t"], name="op")], {"out": 4}),
    "MaxPoolSame": (
        [node("MaxPool", ["s"], ["t"], kernel_shape=[2, 2], auto_pad="SAME_UPPER")],
        {},
    ),
    "MaxPoolPads": (
        [node("MaxPool", ["s"], ["t"], kernel_shape=[2, 2], pads=[1, 1, 0, 0])],
        {},
    ),
    "MaxPool": ([node("MaxPool", ["s"], ["t"], name="op", kernel_shape=[2, 1])], {"out": 8}),
    "Conv": (
        [node("Conv", ["s", "k"], ["t"], name="op", auto_pad="SAME_UPPER")],
        {"k": normal(4, 4, 2, 2)},
    ),
    "ConvSameLower": (
        [node("Conv", ["s", "k"], ["t"], name="op", auto_pad="SAME_LOWER")],
        {"k": normal(4, 4, 2, 2)},
    ),
    "ConvDilated": (
        [node("Conv", ["s", "k"], ["t"], name="op", pads=[1, 1, 2, 2], dilations=[2, 2])],
        {"k": normal(4, 4, 2, 2), "out": 36},
    ),
    "ConvPadsStrides": (
        [node("Conv", ["s", "k"], ["t"], name="op", pads=[1, 1, 1, 1], group=2, strides=[2, 2])],
        {"k": normal(4, 2, 3, 3), "out": 4},
    ),
    "Pad": (
        [node("Pad", ["s", "pads"], ["t"], name="op")],
        {"pads": ints(0, 0, 1, 0, 0, 0, 0, 0), "out": 24},
    ),
}

NATIVE: dict[str, tuple[list[onnx.NodeProto], dict[str, Any]]] = {
    "Abs": (one("Abs"), {}),
    "AddBroadcast": (one("Add", "h", "m"), {"m": normal(1, 5)}),
    "Cast": (
        [node("Cast", ["h"], ["d"], to=11), node("Cast", ["d"], ["g"], name="back", to=1)],
        {},
    ),
    "Clip": (one("Clip", "h", "low", "high"), {"low": np.float32(-0.7), "high": np.float32(0.9)}),
    "ClipLow": (one("Clip", "h", "low"), {"low": np.float32(-0.5)}),
    "Concat": (one("Concat", "h", "h", axis=-1), {"out": 10}),
    "Cos": (one("Cos"), {}),
    "Div": (one("Div", "m", "h"), {"m": normal(5)}),
    "Erf": (one("Erf"), {}),
    "Expand": (one("Expand", "h", "shape"), {"shape": ints(1, 1)}),
    "Gather": (one("Gather", "h", "index", axis=1), {"index": ints(0, 2, 2, 4), "out": 4}),
    "GatherNegative": (one("Gather", "h", "index", axis=-1), {"index": ints(0, -1), "out": 2}),
    "Gemm": (
        one("Gemm", "h", "m", "c", alpha=0.5, beta=2.0, transB=1),
        {"m": normal(5, 5), "c": normal(5)},
    ),
    "LeakyRelu": (one("LeakyRelu", alpha=0.2), {}),
    "LogSoftmax": (one("LogSoftmax"), {}),
    "Max2": (one("Max", "h", "m"), {"m": normal(5)}),
    "Min2": (one("Min", "h", "m"), {"m": normal(5)}),
    "Pow": (one("Pow", "h", "three"), {"three": np.float32(3)}),
    "Reciprocal": ([node("Exp", ["h"], ["e"]), node("Reciprocal", ["e"], ["g"])], {}),
    "ReduceLogSumExp": (
        one("ReduceLogSumExp", axes=[1], keepdims=1),
        {"out": 1},
    ),
    "ReduceMeanAxesInput": (
        one("ReduceMean", "h", "axes"),
        {"axes": ints(-1), "out": 1, "opset": 18},
    ),
    "ReduceSumKept": (one("ReduceSum", "h", "axes"), {"axes": ints(1), "out": 1}),
    "Sin": (one("Sin"), {}),
    "Slice": (
        one("Slice", "h", "start", "end", "axes"),
        {"start": ints(1), "end": ints(2**62), "axes": ints(-1), "out": 4},
    ),
    "SliceBackwards": (
        one("Slice", "h", "start", "end", "axes", "steps"),
        {"start": ints(-1), "end": ints(-6), "axes": ints(1), "steps": ints(-2), "out": 3},
    ),
    "Softmax": (one("Softmax"), {}),
    "Softmax12": (one("Softmax", axis=1), {"opset": 12}),
    "Tanh": (one("Tanh"), {}),
    "Tile": (one("Tile", "h", "repeats"), {"repeats": ints(1, 2), "out": 10}),
    "TopK": ([node("TopK", ["h", "k"], ["g", "which"], name="op")], {"k": ints(2), "out": 2}),
    "Where": (
        [node("Greater", ["h", "m"], ["c"]), node("Where", ["c", "h", "m"], ["g"], name="op")],
        {"m": normal(5)},
    ),
    "SpatialSoftmax": (spatial(node("Softmax", ["s"], ["t"], axis=1)), {**SPATIAL, "out": 16}),
    "SpatialReduceMean": (
        spatial(node("ReduceMean", ["s"], ["t"], axes=[-1, 2], keepdims=0)),
        {**SPATIAL, "out": 4},
    ),
    "SpatialReduceMax": (
        spatial(node("ReduceMax", ["s"], ["t"], axes=[3, 1])),
        {**SPATIAL, "out": 2},
    ),
    "SpatialTranspose": (spatial(node("Transpose", ["s"], ["t"], perm=[0, 2, 3, 1])), SPATIAL),
    "SpatialMatMul": (
        spatial(node("MatMul", ["s", "m"], ["t"], name="op")),
        {**SPATIAL, "m": normal(4, 2, 2)},
    ),
    "SpatialSqueeze": (
        spatial(
            node("Unsqueeze", ["s", "axes"], ["u"], name="un"),
            node("Squeeze", ["u", "axes"], ["t"], name="op"),
        ),
        {**SPATIAL, "axes": ints(-1)},
    ),
    "SpatialTrilu": (spatial(node("Trilu", ["s"], ["t"], upper=0)), SPATIAL),
    "SpatialPadReflect": (
        spatial(node("Pad", ["s", "pads"], ["t"], mode="reflect")),
        {**SPATIAL, "pads": ints(0, 0, 1, 0, 0, 0, 0, 0), "out": 24},
    ),
    "SpatialPadEdge": (
        spatial(node("Pad", ["s", "pads"], ["t"], mode="edge")),
        {**SPATIAL, "pads": ints(0, 0, 0, 1, 0, 0, 0, 1), "out": 32},
    ),
    "SpatialConv1": (
        [
            node("Reshape", ["h", "to"], ["s"], name="to"),
            node("Conv", ["s", "k", "c"], ["t"], name="op", dilations=[2]),
            node("Flatten", ["t"], ["g"]),
        ],
        {"to": ints(-1, 2, 8), "k": normal(3, 2, 3), "c": normal(3), "out": 12},
    ),
    "SpatialConv3": (
        [
            node("Reshape", ["h", "to"], ["s"], name="to"),
            node("Conv", ["s", "k"], ["t"], name="op", pads=[1, 0, 0, 1, 0, 0]),
            node("Flatten", ["t"], ["g"]),
        ],
        {"to": ints(-1, 2, 2, 2, 2), "k": normal(3, 2, 2, 2, 2), "out": 9},
    ),
    "SpatialMaxPool1": (
        [
            node("Reshape", ["h", "to"], ["s"], name="to"),
            node("MaxPool", ["s"], ["t"], name="op", kernel_shape=[3], strides=[2], dilations=[2]),
            node("Flatten", ["t"], ["g"]),
        ],
        {"to": ints(-1, 2, 8), "out": 4},
    ),
}
"""Operators whose gradient is the engine's own."""

CASES = {
    **{name: (nodes, extra, 5) for name, (nodes, extra) in PLAIN.items()},
    **{
        name: (nodes, extra, 16 if name.startswith("Spatial") else 5)
        for name, (nodes, extra) in NATIVE.items()
    },
    **{
        name: (spatial(*nodes), {**SPATIAL, **extra}, 16)
        for name, (nodes, extra) in SPATIAL_OPERATORS.items()
    },
}


@pytest.mark.parametrize("name", CASES)
def test_the_gradient_of_a_mended_operator_is_that_of_finite_differences(
    name: str,
    graphs: Any,
    accept: Callable[..., Prepared],
    trainer: type,
    differences: Callable[..., np.ndarray],
) -> None:
    nodes, extra, size = CASES[name]
    model = graphs.around(*nodes, size=size, **extra)
    prepared = accept(model, optimizer="sgd")
    x, target = normal(ROWS, 6, seed=11) * 2, normal(ROWS, 3, seed=12)

    found = trainer(prepared.artifacts).gradients(prepared.trainable, x, target)

    assert {"w", "b", "v"} <= set(found)
    for parameter in {"b", *prepared.trainable} - {"w", "v"}:
        expected = differences(model, parameter, x, target)
        scale = max(float(np.abs(expected).max()), 1e-3)
        np.testing.assert_allclose(found[parameter], expected, rtol=0, atol=0.03 * scale)


@pytest.mark.parametrize("value", [-200.0, 0.0, 200.0])
def test_softplus_and_elu_stay_finite_far_from_zero(
    value: float, graphs: Any, accept: Callable[..., Prepared], trainer: type
) -> None:
    nodes = [
        node("Softplus", ["h"], ["p"], name="softplus"),
        node("Elu", ["p"], ["q"], name="elu"),
        node("Selu", ["h"], ["r"], name="selu"),
        node("Add", ["q", "r"], ["g"], name="add"),
    ]
    prepared = accept(graphs.around(*nodes), optimizer="sgd")
    x = np.full((2, 6), value, np.float32)
    gradients = trainer(prepared.artifacts).gradients(("w",), x, np.zeros((2, 3), np.float32))
    assert np.all(np.isfinite(gradients["w"]))


def test_operators_below_every_trainable_parameter_stay_as_they_are(
    graphs: Any, accept: Callable[..., Prepared]
) -> None:
    softplus = node("Softplus", ["h"], ["g"], name="softplus")
    prepared = accept(graphs.around(softplus), trainable=("v",))
    assert not any("Softplus" in note for note in prepared.notes)
    operators = {n.op_type for n in onnx.load(prepared.artifacts.eval_model).graph.node}
    assert "Softplus" in operators


def test_what_was_mended_is_told_by_node(graphs: Any, accept: Callable[..., Prepared]) -> None:
    prepared = accept(graphs.around(node("Softplus", ["h"], ["g"], name="soft")))
    assert any("Softplus" in note and "soft" in note for note in prepared.notes)
