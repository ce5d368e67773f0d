"""A small network in which the same matrices are stored in fewer bits, in each usual way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx.helper import make_node, make_opsetid, make_tensor_value_info
from onnx.numpy_helper import from_array

FEATURES, WIDTH, CLASSES = 96, 64, 3
Matrix = NDArray[Any]
Stored = tuple[list[onnx.NodeProto], dict[str, Matrix], Matrix]
"""Nodes from x to y, initializers, and the matrix as float32."""


def network(store: Callable[[str, Matrix, str, str], Stored]) -> tuple[onnx.ModelProto, Any]:
    """x (batch, 96) → logits (batch, 3) by attn.w, mlp.w and head.w; and its float32 form."""
    rng = np.random.default_rng(3)
    sizes = {
        "attn.w": (FEATURES, WIDTH),
        "mlp.w": (WIDTH, WIDTH),
        "head.w": (WIDTH, CLASSES),
    }
    models = []
    plain = {}
    for keep in (store, in_float32):
        nodes: list[onnx.NodeProto] = []
        tensors: dict[str, Matrix] = {}
        x = "x"
        rng = np.random.default_rng(3)
        for name, shape in sizes.items():
            matrix = (rng.standard_normal(shape) * shape[0] ** -0.5).astype(np.float32)
            y = "logits" if name == "head.w" else f"{name}:y"
            written, held, float_matrix = keep(name, plain.get(name, matrix), x, y)
            plain.setdefault(name, float_matrix)
            nodes += written
            tensors |= held
            if y != "logits":
                nodes.append(make_node("Tanh", [y], [f"{name}:t"], f"{name}:t"))
            x = f"{name}:t"
        models.append(_model(nodes, tensors))
    return models[0], models[1]


def in_float32(name: str, matrix: Matrix, x: str, y: str) -> Stored:
    """MatMul."""
    return [make_node("MatMul", [x, name], [y], y)], {name: matrix}, matrix


def in_float16(name: str, matrix: Matrix, x: str, y: str) -> Stored:
    """Cast, MatMul."""
    half = matrix.astype(np.float16)
    nodes = [
        make_node("Cast", [name], [f"{y}:w"], f"{y}:w", to=onnx.TensorProto.FLOAT),
        make_node("MatMul", [x, f"{y}:w"], [y], y),
    ]
    return nodes, {name: half}, half.astype(np.float32)


def in_int8(name: str, matrix: Matrix, x: str, y: str) -> Stored:
    """DequantizeLinear by column, MatMul."""
    scale = (np.abs(matrix).max(axis=0) / 127).astype(np.float32)
    packed = np.round(matrix / scale).astype(np.int8)
    nodes = [
        make_node("DequantizeLinear", [name, f"{name}:s"], [f"{y}:w"], f"{y}:w", axis=1),
        make_node("MatMul", [x, f"{y}:w"], [y], y),
    ]
    return nodes, {name: packed, f"{name}:s": scale}, packed * scale


def in_integers(name: str, matrix: Matrix, x: str, y: str) -> Stored:
    """DynamicQuantizeLinear, MatMulInteger, Cast, Mul: as onnxruntime's quantize_dynamic does.

    Weights up to 64: with larger ones, sums overflow on x86 processors without VNNI.
    """
    scale = (np.abs(matrix).max(axis=0) / 48).astype(np.float32)
    zero = np.full(scale.shape, 16, np.int8)
    packed = (np.round(matrix / scale) + zero).astype(np.int8)
    nodes = [
        make_node("DynamicQuantizeLinear", [x], [f"{y}:q", f"{y}:xs", f"{y}:xz"], f"{y}:q"),
        make_node("Mul", [f"{y}:xs", f"{name}:s"], [f"{y}:scale"], f"{y}:scale"),
        make_node("MatMulInteger", [f"{y}:q", name, f"{y}:xz", f"{name}:z"], [f"{y}:i"], f"{y}:i"),
        make_node("Cast", [f"{y}:i"], [f"{y}:f"], f"{y}:f", to=onnx.TensorProto.FLOAT),
        make_node("Mul", [f"{y}:f", f"{y}:scale"], [y], y),
    ]
    held = {name: packed, f"{name}:s": scale, f"{name}:z": zero}
    return nodes, held, ((packed.astype(np.float32) - zero) * scale).astype(np.float32)


def in_int4(name: str, matrix: Matrix, x: str, y: str, *, block: int = 32) -> Stored:
    """MatMulNBits with zero points, of blocks of 32 rows."""
    rows, columns = matrix.shape
    count = -(-rows // block)
    whole = np.zeros((columns, count * block), np.float32)
    whole[:, :rows] = matrix.T
    blocks = whole.reshape(columns, count, block)
    scale = ((blocks.max(-1) - blocks.min(-1)) / 15 + 1e-6).astype(np.float32)
    zero = np.clip(np.round(-blocks.min(-1) / scale), 0, 15).astype(np.uint8)
    numbers = np.clip(np.round(blocks / scale[..., None]) + zero[..., None], 0, 15).astype(np.uint8)
    points = np.zeros((columns, count + count % 2), np.uint8)
    points[:, :count] = zero
    given = {"K": rows, "N": columns, "bits": 4, "block_size": block, "domain": "com.microsoft"}
    node = make_node("MatMulNBits", [x, name, f"{name}:s", f"{name}:z"], [y], y, **given)
    held = {name: _pairs(numbers), f"{name}:s": scale.reshape(-1), f"{name}:z": _pairs(points)}
    held[f"{name}:z"] = held[f"{name}:z"].reshape(-1)
    plain = (numbers.astype(np.float32) - zero[..., None]) * scale[..., None]
    return [node], held, plain.reshape(columns, -1)[:, :rows].T.astype(np.float32).copy()


def _pairs(numbers: Matrix) -> Matrix:
    return (numbers[..., 0::2] | (numbers[..., 1::2] << 4)).astype(np.uint8)


def _model(nodes: list[onnx.NodeProto], tensors: dict[str, Matrix]) -> onnx.ModelProto:
    graph = onnx.helper.make_graph(
        nodes,
        "network",
        [make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["batch", FEATURES])],
        [make_tensor_value_info("logits", onnx.TensorProto.FLOAT, ["batch", CLASSES])],
        [from_array(value, name) for name, value in tensors.items()],
    )
    opsets = [make_opsetid("", 17), make_opsetid("com.microsoft", 1)]
    return onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8)


STORED = {
    "float32": in_float32,
    "float16": in_float16,
    "int8": in_int8,
    "integers": in_integers,
    "int4": in_int4,
}
ROUNDS = ("integers",)
"""Ways in which what the matrices are multiplied with is rounded too."""
