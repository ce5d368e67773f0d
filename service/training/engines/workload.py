"""The work of a step: operations of its graph, counted once."""

from __future__ import annotations

from math import prod

import onnx

from service.training.engines.manifest import Work

PRODUCTS = frozenset({"Gemm", "MatMul", "Conv", "ConvTranspose"})

Shapes = dict[str, tuple[int, ...]]


def workload(model: onnx.ModelProto) -> Work:
    """The work per sample: the difference between two and one. Symbolic axes are the batch."""
    one, two = (_count(model, rows) for rows in (1, 2))
    return Work(max(0, two[0] - one[0]), max(0, two[1] - one[1]))


def _count(model: onnx.ModelProto, rows: int) -> tuple[int, int]:
    """Multiplications and elements for a batch of this many rows."""
    shapes = _shapes(model, rows)
    multiplications = elements = 0
    for node in model.graph.node:
        made = sum(prod(shapes[name]) for name in node.output if name in shapes)
        elements += made
        multiplications += _multiplications(node, made, shapes)
    return multiplications, elements


def _shapes(model: onnx.ModelProto, rows: int) -> Shapes:
    fixed = onnx.ModelProto()
    fixed.CopyFrom(model)
    for value in (*fixed.graph.input, *fixed.graph.output):
        for size in value.type.tensor_type.shape.dim:
            if not size.HasField("dim_value"):
                size.dim_value = rows
    del fixed.graph.value_info[:]
    inferred = onnx.shape_inference.infer_shapes(fixed, data_prop=True).graph
    shapes: Shapes = {each.name: tuple(each.dims) for each in inferred.initializer}
    for value in (*inferred.input, *inferred.value_info, *inferred.output):
        sizes = value.type.tensor_type.shape.dim
        shapes[value.name] = tuple(max(1, size.dim_value) for size in sizes)
    return shapes


def _multiplications(node: onnx.NodeProto, made: int, shapes: Shapes) -> int:
    """made: number of elements in the node's result."""
    first, second = (shapes.get(name) for name in (*node.input, "", "")[:2])
    if node.op_type not in PRODUCTS or not first or not second:
        return 0
    if node.op_type == "Conv":
        return made * prod(second[1:])
    if node.op_type == "ConvTranspose":
        return prod(first) * prod(second[1:])
    transposed = any(each.name == "transA" and each.i for each in node.attribute)
    return made * (first[0] if transposed else first[-1])
