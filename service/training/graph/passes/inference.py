"""Types of a graph's tensors, inferred without touching the weights."""

from __future__ import annotations

from collections.abc import Sequence

import onnx
from onnx import helper, shape_inference

from service.training.graph.flow import duplicate

WEIGHT_BYTES = 4096
"""Initializers from this size on are set aside where only types are worked on."""


def infer(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy whose tensors have the types that ONNX infers."""
    weights = set_aside(model)
    inferred = shape_inference.infer_shapes(model, data_prop=True)
    bring_back(model, weights)
    bring_back(inferred, weights)
    return inferred


def set_aside(model: onnx.ModelProto) -> list[onnx.TensorProto]:
    """Make inputs of the large initializers; returns them."""
    large = [t for t in model.graph.initializer if t.ByteSize() > WEIGHT_BYTES]
    names = {t.name for t in large}
    kept = [t for t in model.graph.initializer if t.name not in names]
    copies = [duplicate(t) for t in kept]
    weights = [duplicate(t) for t in large]
    del model.graph.initializer[:]
    model.graph.initializer.extend(copies)
    model.graph.input.extend(
        helper.make_tensor_value_info(t.name, t.data_type, t.dims) for t in weights
    )
    return weights


def bring_back(model: onnx.ModelProto, weights: Sequence[onnx.TensorProto]) -> None:
    names = {t.name for t in weights}
    inputs = [v for v in model.graph.input if v.name not in names]
    copies = [duplicate(v) for v in inputs]
    del model.graph.input[:]
    model.graph.input.extend(copies)
    model.graph.initializer.extend(weights)
