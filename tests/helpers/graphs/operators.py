"""Operators that are mended, each between h and g."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import onnx
from graph_parts import ints, node, normal, one

weights = partial(normal, seed=5)

Operator = tuple[list[onnx.NodeProto], dict[str, Any]]
"""Nodes between `h` and `g`, and weights beside the model's own, its opset or its width."""

PLAIN: dict[str, Operator] = {
    "Celu": (one("Celu", alpha=0.7), {}),
    "Elu": (one("Elu", alpha=1.3), {}),
    "HardSigmoid": (one("HardSigmoid", alpha=0.3), {}),
    "HardSwish": (one("HardSwish"), {}),
    "LpNormalization1": (one("LpNormalization", p=1), {}),
    "LpNormalization2": (one("LpNormalization"), {}),
    "Max3": (one("Max", "h", "m1", "m2"), {"m1": weights(5), "m2": weights(5, seed=6)}),
    "Mean": (one("Mean", "h", "m1", "h"), {"m1": weights(5)}),
    "Mish": (one("Mish"), {"opset": 18}),
    "PRelu": (one("PRelu", "h", "slope"), {"slope": weights(5)}),
    "Selu": (one("Selu"), {}),
    "Softplus": (one("Softplus"), {}),
    "Softsign": (one("Softsign"), {}),
    "Sum": (one("Sum", "h", "m1", "h"), {"m1": weights(5)}),
    "ThresholdedRelu": (one("ThresholdedRelu", alpha=0.2), {}),
    "Gelu": (one("Gelu"), {"opset": 20}),
    "GeluTanh": (one("Gelu", approximate="tanh"), {"opset": 21}),
    "LayerNormalization": (
        one("LayerNormalization", "h", "scale", "shift"),
        {"scale": weights(5) + 1, "shift": weights(5)},
    ),
    "BatchNormalization": (
        one("BatchNormalization", "h", "scale", "shift", "mean", "variance"),
        {
            "scale": weights(5) + 1,
            "shift": weights(5),
            "mean": weights(5, seed=7),
            "variance": np.abs(weights(5, seed=8)) + 0.5,
        },
    ),
    "Dropout": (one("Dropout", "h", "ratio"), {"ratio": np.array(0.5, np.float32)}),
    "Einsum": (one("Einsum", "h", "m", equation="bi,ji->bj"), {"m": weights(5, 5)}),
    "EinsumThree": (
        one("Einsum", "h", "m", "h", equation="bi,kij,bj->bk"),
        {"m": weights(3, 5, 5), "out": 3},
    ),
    "EinsumShedding": (
        one("Einsum", "h", "m", equation="bi,jk->bj"),
        {"m": weights(4, 2), "out": 4},
    ),
    "Split": (
        [
            node("Split", ["x"], ["p", "unused"], name="op", num_outputs=2, axis=1),
            node("MatMul", ["p", "m"], ["q"], name="mm"),
            node("Add", ["q", "h"], ["g"], name="add"),
        ],
        {"m": weights(3, 5), "opset": 18},
    ),
    "SplitSizes": (
        [node("Split", ["h", "sizes"], ["unused", "g"], name="op", axis=1)],
        {"sizes": ints(3, 2), "out": 2},
    ),
}

SPATIAL_OPERATORS: dict[str, Operator] = {
    "DepthToSpace": ([node("DepthToSpace", ["s"], ["t"], name="op", blocksize=2)], {}),
    "DepthToSpaceCRD": (
        [node("DepthToSpace", ["s"], ["t"], name="op", blocksize=2, mode="CRD")],
        {},
    ),
    "SpaceToDepth": ([node("SpaceToDepth", ["s"], ["t"], name="op", blocksize=2)], {}),
    "GlobalMaxPool": ([node("GlobalMaxPool", ["s"], ["t"], name="op")], {"out": 4}),
    "InstanceNormalization": (
        [node("InstanceNormalization", ["s", "scale", "shift"], ["t"], name="op")],
        {"scale": weights(4) + 1, "shift": weights(4)},
    ),
    "GroupNormalization21": (
        [node("GroupNormalization", ["s", "scale", "shift"], ["t"], name="op", num_groups=2)],
        {"scale": weights(4) + 1, "shift": weights(4), "opset": 21},
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
        {"k": weights(4, 3, 2, 2), "c": weights(3), "out": 48},
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
        {"k": weights(4, 1, 3, 2), "out": 60},
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
        {"k": weights(4, 4, 2, 2)},
    ),
    "ConvSameLower": (
        [node("Conv", ["s", "k"], ["t"], name="op", auto_pad="SAME_LOWER")],
        {"k": weights(4, 4, 2, 2)},
    ),
    "ConvDilated": (
        [node("Conv", ["s", "k"], ["t"], name="op", pads=[1, 1, 2, 2], dilations=[2, 2])],
        {"k": weights(4, 4, 2, 2), "out": 36},
    ),
    "ConvPadsStrides": (
        [node("Conv", ["s", "k"], ["t"], name="op", pads=[1, 1, 1, 1], group=2, strides=[2, 2])],
        {"k": weights(4, 2, 3, 3), "out": 4},
    ),
    "Pad": (
        [node("Pad", ["s", "pads"], ["t"], name="op")],
        {"pads": ints(0, 0, 1, 0, 0, 0, 0, 0), "out": 24},
    ),
}
