"""The base model: a transformer of one layer that reads sixteen words, in int8 but for its head."""

from __future__ import annotations

import re
import zlib
from math import sqrt
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

WORDS, BUCKETS, WIDTH, INNER = 16, 2048, 64, 128
OPSET, IR_VERSION = 17, 8
Floats = NDArray[np.float32]
CONSTANTS = {
    "nothing": np.array(0, np.int64),
    "second": np.array([1], np.int64),
    "last": np.array([2], np.int64),
    "far": np.array(-1e4, np.float32),
    "one": np.array(1, np.float32),
    "scale": np.array(1 / sqrt(WIDTH), np.float32),
}


def tokenize(text: str) -> list[int]:
    """The first sixteen words, each as the number of its bucket; 0 is no word."""
    words = re.findall(r"[a-z0-9']+", text.lower())[:WORDS]
    tokens = [1 + zlib.crc32(word.encode()) % (BUCKETS - 1) for word in words]
    return tokens + [0] * (WORDS - len(tokens))


def initial_weights(classes: int, seed: int = 0) -> dict[str, Floats]:
    """Matrices of variance 1/inputs, biases of 0."""
    generator = np.random.default_rng(seed)
    shapes = {
        "embedding": (BUCKETS, WIDTH),
        "position": (WORDS, WIDTH),
        **{f"attn.{name}": (WIDTH, WIDTH) for name in ("query", "key", "value", "out")},
        "ffn.up": (WIDTH, INNER),
        "ffn.down": (INNER, WIDTH),
        "head.weight": (WIDTH, classes),
    }
    drawn = {
        name: (generator.standard_normal(shape) / sqrt(WIDTH)).astype(np.float32)
        for name, shape in shapes.items()
    }
    ones = {f"norm{n}.scale": np.ones(WIDTH, np.float32) for n in (1, 2)}
    zeros = {f"norm{n}.bias": np.zeros(WIDTH, np.float32) for n in (1, 2)}
    return {**drawn, **ones, **zeros, "head.bias": np.zeros(classes, np.float32)}


def network(weights: dict[str, Floats]) -> onnx.ModelProto:
    """tokens (N, 16) int64 → logits (N, classes)."""
    nodes = [
        _node("Gather", ["embedding", "tokens"], "words"),
        _node("Add", ["words", "position"], "x"),
        _node("Equal", ["tokens", "nothing"], "is_nothing"),
        _node("Cast", ["is_nothing"], "absent", to=TensorProto.FLOAT),
        _node("Mul", ["absent", "far"], "penalty"),
        _node("Unsqueeze", ["penalty", "second"], "mask"),
        *(_node("MatMul", ["x", f"attn.{name}"], name) for name in ("query", "key", "value")),
        _node("Transpose", ["key"], "turned", perm=[0, 2, 1]),
        _node("MatMul", ["query", "turned"], "products"),
        _node("Mul", ["products", "scale"], "scaled"),
        _node("Add", ["scaled", "mask"], "masked"),
        _node("Softmax", ["masked"], "shares", axis=-1),
        _node("MatMul", ["shares", "value"], "mixed"),
        _node("MatMul", ["mixed", "attn.out"], "attended"),
        _node("Add", ["x", "attended"], "sum1"),
        _node("LayerNormalization", ["sum1", "norm1.scale", "norm1.bias"], "normal1"),
        _node("MatMul", ["normal1", "ffn.up"], "up"),
        _node("Relu", ["up"], "active"),
        _node("MatMul", ["active", "ffn.down"], "down"),
        _node("Add", ["normal1", "down"], "sum2"),
        _node("LayerNormalization", ["sum2", "norm2.scale", "norm2.bias"], "normal2"),
        _node("Sub", ["one", "absent"], "present"),
        _node("Unsqueeze", ["present", "last"], "kept"),
        _node("Mul", ["normal2", "kept"], "said"),
        _node("ReduceMax", ["said"], "features", axes=[1], keepdims=0),
        _node("Gemm", ["features", "head.weight", "head.bias"], "logits"),
    ]
    graph = helper.make_graph(
        nodes,
        "voice commands",
        [helper.make_tensor_value_info("tokens", TensorProto.INT64, ["N", WORDS])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["N", None])],
        [numpy_helper.from_array(a, n) for n, a in (CONSTANTS | weights).items()],
    )
    opset = [helper.make_opsetid("", OPSET)]
    model = helper.make_model(graph, ir_version=IR_VERSION, opset_imports=opset)
    onnx.checker.check_model(model, full_check=True)
    return model


def _node(op_type: str, inputs: list[str], output: str, **attributes: object) -> onnx.NodeProto:
    return helper.make_node(op_type, inputs, [output], name=output, **attributes)


BASE = Path(__file__).with_name("base.onnx")
