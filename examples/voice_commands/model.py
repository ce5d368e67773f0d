"""The base model: a transformer of one layer that reads sixteen words, in int8 but for its head."""

from __future__ import annotations

import re
import zlib
from math import sqrt
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper, parser

WORDS, BUCKETS, WIDTH, INNER = 16, 2048, 64, 128
Floats = NDArray[np.float32]
NETWORK = f"""
<ir_version: 8, opset_import: ["" : 17]>
"voice commands" (int64[N, {WORDS}] tokens) => (float[N, ?] logits)
<int64 nothing = {{0}}, int64[1] second = {{1}}, int64[1] last = {{2}},
 float far = {{-10000}}, float one = {{1}}, float scale = {{{1 / sqrt(WIDTH)}}}> {{
    words = Gather (embedding, tokens)
    x = Add (words, position)
    is_nothing = Equal (tokens, nothing)
    absent = Cast <to = 1> (is_nothing)
    penalty = Mul (absent, far)
    mask = Unsqueeze (penalty, second)
    query = MatMul (x, "attn.query")
    key = MatMul (x, "attn.key")
    value = MatMul (x, "attn.value")
    turned = Transpose <perm = [0, 2, 1]> (key)
    products = MatMul (query, turned)
    scaled = Mul (products, scale)
    masked = Add (scaled, mask)
    shares = Softmax <axis = -1> (masked)
    mixed = MatMul (shares, value)
    attended = MatMul (mixed, "attn.out")
    sum1 = Add (x, attended)
    normal1 = LayerNormalization (sum1, "norm1.scale", "norm1.bias")
    up = MatMul (normal1, "ffn.up")
    active = Relu (up)
    down = MatMul (active, "ffn.down")
    sum2 = Add (normal1, down)
    normal2 = LayerNormalization (sum2, "norm2.scale", "norm2.bias")
    present = Sub (one, absent)
    kept = Unsqueeze (present, last)
    said = Mul (normal2, kept)
    features = ReduceMax <axes = [1], keepdims = 0> (said)
    logits = Gemm (features, "head.weight", "head.bias")
}}
"""


def tokenize(text: str) -> list[int]:
    """The first sixteen words, each as the number of its bucket; 0 is no word."""
    words = re.findall(r"[a-z0-9']+", text.lower())[:WORDS]
    tokens = [1 + zlib.crc32(word.encode()) % (BUCKETS - 1) for word in words]
    return tokens + [0] * (WORDS - len(tokens))


def initial_weights(classes: int) -> dict[str, Floats]:
    """Matrices of variance 1/inputs, biases of 0."""
    generator = np.random.default_rng(0)
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
    model = parser.parse_model(NETWORK)
    for node in model.graph.node:
        node.name = node.output[0]
    model.graph.initializer.extend(numpy_helper.from_array(a, n) for n, a in weights.items())
    onnx.checker.check_model(model, full_check=True)
    return model


BASE = Path(__file__).with_name("base.onnx")
