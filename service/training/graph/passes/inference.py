"""Types of a graph's tensors, inferred without touching the weights."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import onnx
from onnx import helper, shape_inference

from service.training.graph.builder import is_large
from service.training.graph.flow import duplicate, refill


def infer(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy whose tensors have the types that ONNX infers."""
    inferred = shape_inference.infer_shapes(without_weights(model), data_prop=True).graph
    copy = duplicate(model)
    for field in ("value_info", "output"):
        copy.graph.ClearField(field)
        getattr(copy.graph, field).extend(getattr(inferred, field))
    return copy


def without_weights(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy with inputs in place of large initializers, whose data are not touched."""
    light = _without_initializers(model)
    graph = light.graph
    inputs = {value.name for value in graph.input}
    for tensor in model.graph.initializer:
        if not is_large(tensor):
            graph.initializer.append(tensor)
        elif tensor.name not in inputs:
            graph.input.append(
                helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
            )
    return light


def without_data(model: onnx.ModelProto, names: Collection[str]) -> onnx.ModelProto:
    """A copy in which large initializers of these names have their types and shapes alone."""
    light = _without_initializers(model)
    for tensor in model.graph.initializer:
        bare = is_large(tensor) and tensor.name in names
        kind = onnx.TensorProto(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims)
        light.graph.initializer.append(kind if bare else tensor)
    return light


def _without_initializers(model: onnx.ModelProto) -> onnx.ModelProto:
    light = onnx.ModelProto(ir_version=model.ir_version, opset_import=model.opset_import)
    light.functions.extend(model.functions)
    light.graph.name = model.graph.name
    for field in ("node", "value_info", "output", "input"):
        getattr(light.graph, field).extend(getattr(model.graph, field))
    return light


def set_aside(model: onnx.ModelProto) -> list[onnx.TensorProto]:
    """Turn the large initializers into inputs; returns them."""
    large = [t for t in model.graph.initializer if is_large(t)]
    names = {t.name for t in large}
    refill(model.graph.initializer, [t for t in model.graph.initializer if t.name not in names])
    model.graph.input.extend(
        helper.make_tensor_value_info(t.name, t.data_type, t.dims) for t in large
    )
    return large


def bring_back(model: onnx.ModelProto, weights: Sequence[onnx.TensorProto]) -> None:
    names = {t.name for t in weights}
    refill(model.graph.input, [v for v in model.graph.input if v.name not in names])
    model.graph.initializer.extend(weights)
