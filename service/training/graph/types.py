"""Types of tensors, and those of a node's outputs by ONNX's inference.

Layers of a model are alike, and a model is differentiated in several forms: inference is asked once
about equal nodes.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TypeAlias

import onnx
from onnx import defs, helper, shape_inference

from service.training.graph.tensor import Dim, Shape

Type: TypeAlias = "tuple[int, Shape | None]"
"""Element type and shape, as `Tensor` has them."""
KEPT_ANSWERS = 4096


def infer_outputs(
    node: onnx.NodeProto,
    opset: int,
    types: Mapping[str, Type],
    constants: Mapping[str, onnx.TensorProto],
) -> list[Type]:
    """The type of each output of a node without subgraphs; that of one left out means nothing.

    types: of all inputs, by name. constants: inputs whose values are known, by name.
    Raises InferenceError or ValidationError if the inputs do not fit.
    """
    names = {name: f"in{number}" for number, name in enumerate(node.input) if name}
    unnamed = onnx.NodeProto(
        op_type=node.op_type,
        input=[names.get(name, "") for name in node.input],
        output=[f"out{number}" if name else "" for number, name in enumerate(node.output)],
        attribute=node.attribute,
    )
    outputs = _infer(
        unnamed.SerializeToString(),
        opset,
        tuple((names[name], *types[name]) for name in names),
        tuple((names[name], _value_of(constants[name])) for name in names if name in constants),
    )
    return list(outputs)


@lru_cache(maxsize=KEPT_ANSWERS)
def _infer(
    node: bytes,
    opset: int,
    types: tuple[tuple[str, int, Shape | None], ...],
    values: tuple[tuple[str, bytes], ...],
) -> tuple[Type, ...]:
    unnamed = onnx.NodeProto.FromString(node)
    types_by_name = shape_inference.infer_node_outputs(
        defs.get_schema(unnamed.op_type, opset, ""),
        unnamed,
        {name: helper.make_tensor_type_proto(dtype, shape) for name, dtype, shape in types},
        {name: onnx.TensorProto.FromString(value) for name, value in values},
        opset_imports=[helper.make_opsetid("", opset)],
    )
    return tuple(
        type_of(types_by_name[name]) if name in types_by_name else (0, None)
        for name in unnamed.output
    )


def _value_of(tensor: onnx.TensorProto) -> bytes:
    """Equal for equal constants, whatever they are called."""
    copy = onnx.TensorProto()
    copy.CopyFrom(tensor)
    copy.ClearField("name")
    serialized: bytes = copy.SerializeToString()
    return serialized


def type_of(proto: onnx.TypeProto) -> Type:
    """Element type 0 for what is not a tensor."""
    if not proto.HasField("tensor_type"):
        return 0, None
    tensor = proto.tensor_type
    if not tensor.HasField("shape"):
        return tensor.elem_type, None
    return tensor.elem_type, tuple(_dim(d) for d in tensor.shape.dim)


def _dim(dim: onnx.TensorShapeProto.Dimension) -> Dim:
    if dim.HasField("dim_value"):
        return int(dim.dim_value)
    return str(dim.dim_param) if dim.dim_param else None
