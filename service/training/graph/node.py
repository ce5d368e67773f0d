"""A node as a rule sees it: inputs, outputs, attributes, and which gradients are wanted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import prod
from typing import Any, TypeAlias

import numpy as np
import onnx
from msgspec import Struct
from onnx import TensorProto, numpy_helper

from service.training.graph.builder import Builder
from service.training.graph.tensor import NotDifferentiable, Tensor

Gradients: TypeAlias = "Sequence[Tensor | None]"
GradientRule: TypeAlias = Callable[..., Gradients]
"""Takes a node and the gradient of each output, None for one that the loss does not depend on.

Returns the gradient of each input. None means that there is none: the pass refuses it if wanted.
Raises NotDifferentiable.
"""


class Node(Struct, frozen=True):
    """wanted: which inputs depend on the variables of differentiation."""

    graph: Builder
    proto: onnx.NodeProto
    inputs: tuple[Tensor | None, ...]
    outputs: tuple[Tensor | None, ...]
    wanted: tuple[bool, ...]

    @classmethod
    def of(cls, graph: Builder, proto: onnx.NodeProto, wanted: tuple[bool, ...] = ()) -> Node:
        """A node of a graph."""
        inputs = tuple(graph.tensor(name) if name else None for name in proto.input)
        outputs = tuple(graph.tensor(name) if name else None for name in proto.output)
        return cls(graph, proto, inputs, outputs, wanted)

    @property
    def x(self) -> Tensor:
        """The first input."""
        return self.given(0)

    @property
    def y(self) -> Tensor:
        """The first output."""
        assert self.outputs[0] is not None
        return self.outputs[0]

    def given(self, index: int) -> Tensor:
        """A required input."""
        value = self.inputs[index]
        assert value is not None, f"{self.proto.op_type} without its input {index}"
        return value

    def optional(self, index: int) -> Tensor | None:
        """An optional input."""
        return self.inputs[index] if index < len(self.inputs) else None

    def output(self, index: int) -> Tensor:
        """An output, added if the node left it out."""
        return self.graph.give(self.proto, index)

    def wants(self, index: int) -> bool:
        """Is this input present, and its gradient wanted?"""
        return index < len(self.wanted) and self.wanted[index]

    def attribute(self, name: str, default: Any = None) -> Any:
        """An attribute's value; strings as str."""
        value = attributes_of(self.proto).get(name, default)
        return value.decode() if isinstance(value, bytes) else value

    def numbers(self, index: int, name: str) -> list[int] | None:
        """Integers that are a constant input, None if it is left out. name: for people.

        Raises NotDifferentiable if the input is computed.
        """
        tensor = self.optional(index)
        if tensor is None:
            return None
        if tensor.value is None:
            raise NotDifferentiable(f'its input "{tensor.name}" ({name}) is not a constant')
        return [int(v) for v in tensor.value.reshape(-1)]


def attributes_of(node: onnx.NodeProto) -> dict[str, Any]:
    """A node's attributes by name; strings as bytes."""
    return {each.name: onnx.helper.get_attribute_value(each) for each in node.attribute}


def constant_of(node: onnx.NodeProto) -> onnx.TensorProto | None:
    """The numbers of a Constant node; None for strings, attributes of functions and other nodes."""
    for each in node.attribute if node.op_type == "Constant" else ():
        numbers: dict[str, Any] = {
            "value_float": np.array(each.f, np.float32),
            "value_floats": np.array(each.floats, np.float32),
            "value_int": np.array(each.i, np.int64),
            "value_ints": np.array(each.ints, np.int64),
        }
        if each.name == "value" and not each.ref_attr_name:
            tensor: onnx.TensorProto = each.t
            return tensor
        if each.name in numbers and not each.ref_attr_name:
            return numpy_helper.from_array(numbers[each.name])
    return None


def whole_numbers(
    nodes: Iterable[onnx.NodeProto], initializers: Iterable[onnx.TensorProto] = ()
) -> dict[str, int]:
    """Integers and truth values among constants, alone or as the only one of a list, by name."""
    tensors = {tensor.name: tensor for tensor in initializers}
    tensors |= {
        name: made
        for node in nodes
        if (made := constant_of(node)) is not None
        for name in node.output[:1]
    }
    return {
        name: int(numpy_helper.to_array(tensor).item())
        for name, tensor in tensors.items()
        if tensor.data_type in (TensorProto.BOOL, TensorProto.INT32, TensorProto.INT64)
        and prod(tensor.dims) == 1
    }
