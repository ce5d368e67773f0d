"""Operators whose gradient is the engine's own, each between h and g."""

from __future__ import annotations

import numpy as np
from graph_parts import SPATIAL, ints, node, one, spatial
from operators import Operator, weights

NATIVE: dict[str, Operator] = {
    "Abs": (one("Abs"), {}),
    "AddBroadcast": (one("Add", "h", "m"), {"m": weights(1, 5)}),
    "Cast": (
        [node("Cast", ["h"], ["d"], to=11), node("Cast", ["d"], ["g"], name="back", to=1)],
        {},
    ),
    "Clip": (one("Clip", "h", "low", "high"), {"low": np.float32(-0.7), "high": np.float32(0.9)}),
    "ClipLow": (one("Clip", "h", "low"), {"low": np.float32(-0.5)}),
    "Concat": (one("Concat", "h", "h", axis=-1), {"out": 10}),
    "Cos": (one("Cos"), {}),
    "Div": (one("Div", "m", "h"), {"m": weights(5)}),
    "Erf": (one("Erf"), {}),
    "Expand": (one("Expand", "h", "shape"), {"shape": ints(1, 1)}),
    "Gather": (one("Gather", "h", "index", axis=1), {"index": ints(0, 2, 2, 4), "out": 4}),
    "GatherNegative": (one("Gather", "h", "index", axis=-1), {"index": ints(0, -1), "out": 2}),
    "Gemm": (
        one("Gemm", "h", "m", "c", alpha=0.5, beta=2.0, transB=1),
        {"m": weights(5, 5), "c": weights(5)},
    ),
    "LeakyRelu": (one("LeakyRelu", alpha=0.2), {}),
    "LogSoftmax": (one("LogSoftmax"), {}),
    "Max2": (one("Max", "h", "m"), {"m": weights(5)}),
    "Min2": (one("Min", "h", "m"), {"m": weights(5)}),
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
        {"m": weights(5)},
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
        {**SPATIAL, "m": weights(4, 2, 2)},
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
        {"to": ints(-1, 2, 8), "k": weights(3, 2, 3), "c": weights(3), "out": 12},
    ),
    "SpatialConv3": (
        [
            node("Reshape", ["h", "to"], ["s"], name="to"),
            node("Conv", ["s", "k"], ["t"], name="op", pads=[1, 0, 0, 1, 0, 0]),
            node("Flatten", ["t"], ["g"]),
        ],
        {"to": ints(-1, 2, 2, 2, 2), "k": weights(3, 2, 2, 2, 2), "out": 9},
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
