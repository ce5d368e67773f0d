"""Pieces of hand-made graphs: nodes, weights, and frozen work."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import helper

node = helper.make_node


def normal(*shape: int, seed: int = 0, scale: float = 0.5) -> np.ndarray:
    """Random weights, float32."""
    values = np.random.default_rng(seed).standard_normal(shape) * scale
    return values.astype(np.float32)


def ints(*values: int) -> np.ndarray:
    """A shape, axes or indices, int64."""
    return np.array(values, np.int64)


def one(op_type: str, *inputs: str, **attributes: Any) -> list[onnx.NodeProto]:
    """h → the operator → g."""
    return [node(op_type, [*(inputs or ("h",))], ["g"], name="op", **attributes)]


SPATIAL = {"to_spatial": ints(-1, 4, 2, 2)}


def spatial(*nodes: onnx.NodeProto) -> list[onnx.NodeProto]:
    """h (batch, 16) → s (batch, 4, 2, 2) → the nodes → t → g (batch, all the rest)."""
    return [
        node("Reshape", ["h", "to_spatial"], ["s"], name="to"),
        *nodes,
        node("Flatten", ["t"], ["g"], name="flat"),
    ]


DEEP = {"deep.a": normal(6, 256, seed=20), "deep.b": normal(256, 6, seed=21) * 0.1}


def deep(x: str, y: str, activation: str = "Relu") -> list[onnx.NodeProto]:
    """Frozen work that is worth storing: six numbers in, six out."""
    return [
        node("MatMul", [x, "deep.a"], ["deep_h"], name="deep_a"),
        node(activation, ["deep_h"], ["deep_r"], name="deep_r"),
        node("MatMul", ["deep_r", "deep.b"], [y], name="deep_b"),
    ]
