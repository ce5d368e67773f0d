"""Writes nodes, constants and types of a graph, merging equal nodes and equal constants."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from msgspec.structs import replace
from onnx import defs, helper, numpy_helper

from service.training.graph.tensor import Array, Dim, Shape, Tensor, product
from service.training.graph.types import infer_outputs, type_of

DATA_BYTES = 4096
"""Constants of as many are weights; no shape depends on their values."""
STANDARD = ("", "ai.onnx")
RANDOM = frozenset(
    (
        "Bernoulli",
        "Dropout",
        "Multinomial",
        "RandomNormal",
        "RandomNormalLike",
        "RandomUniform",
        "RandomUniformLike",
    )
)


class Builder:
    """A model's graph, extended in place.

    Nodes are appended only, so that their order stays topological, except for `replace`.
    """

    def __init__(self, model: onnx.ModelProto, prefix: str = "hone/") -> None:
        """model: prepared, with the types of its tensors inferred. prefix: of all new names."""
        self._prefix = prefix
        self.opset = next(o.version for o in model.opset_import if o.domain in STANDARD)
        self.nodes: list[onnx.NodeProto] = list(model.graph.node)
        self.constants = {t.name: t for t in model.graph.initializer}
        self.rules: dict[str, Any] = {}
        """Gradients of single nodes, by their output, instead of their operator's rule."""
        self.layout: Any = None
        """Of convolutions, see service/training/graph/blocks/layout.py; None for ONNX's own."""
        self.counts_rows = False
        """Whether the graph is for a fixed number of samples at most, the layout's."""
        self.outnumbering: set[str] = set()
        """Weights with many more numbers than all that a run multiplies them with."""
        self.placed: dict[str, tuple[Tensor, int, int]] = {}
        """Zero-padded tensors by result: the original, with the axis and its offset on it."""
        self.pads: dict[str, tuple[Tensor, list[int]]] = {}
        """Zero-padded tensors by result: the original, and the pads of all axes."""
        self._tensors: dict[str, Tensor] = {}
        self._written: dict[bytes, tuple[str, ...]] = {}
        self._numbers: dict[tuple[bytes, str, tuple[int, ...]], Tensor] = {}
        self._count = 0
        graph = model.graph
        self._inputs = [value.name for value in graph.input]
        for value in (*graph.value_info, *graph.output, *graph.input):
            self._tensors[value.name] = Tensor(self, value.name, *type_of(value.type))
        for tensor in graph.initializer:
            self._tensors[tensor.name] = _constant(self, tensor)
        for node in self.nodes:
            for index, name in enumerate(node.output):
                if name not in self._tensors:
                    self._tensors[name] = Tensor(self, name, self._element_type(node, index))
            self._written.setdefault(key_of(node), tuple(node.output))

    @property
    def inputs(self) -> list[Tensor]:
        """The inputs of the original model."""
        return [self._tensors[name] for name in self._inputs]

    @property
    def batch(self) -> Dim:
        """The name of the inputs' first axis, None if it has none."""
        return next((tensor.shape[0] for tensor in self.inputs if tensor.shape), None)

    def tensor(self, name: str) -> Tensor:
        """A tensor of the graph by its name."""
        return self._tensors[name]

    def input(self, name: str, dtype: int, shape: Shape | None) -> Tensor:
        """An input tensor."""
        self.constants.pop(name, None)
        self._tensors[name] = Tensor(self, name, dtype, shape)
        return self._tensors[name]

    def constant(self, value: Array) -> Tensor:
        """An array; equal arrays give the same tensor."""
        value = np.asarray(value)
        key = (value.tobytes(), value.dtype.str, value.shape)
        if key not in self._numbers:
            name = self.fresh("constant")
            self.constants[name] = numpy_helper.from_array(np.ascontiguousarray(value), name)
            self.constants[name].dims[:] = value.shape
            self._numbers[key] = self._tensors[name] = _constant(self, self.constants[name])
        return self._numbers[key]

    def numbers(self, value: Array | float, dtype: int) -> Tensor:
        """An array of this element type."""
        return self.constant(np.array(value, helper.tensor_dtype_to_np_dtype(dtype)))

    def ints(self, values: Iterable[int]) -> Tensor:
        """An int64 vector: axes, sizes, pads."""
        return self.constant(np.array(list(values), np.int64))

    def vector(self, *parts: int | Tensor) -> Tensor:
        """Numbers and int64 vectors joined to one vector; a constant if all are."""
        tensors = [self.ints([p]) if isinstance(p, int) else p for p in parts]
        values = [t.value for t in tensors if t.value is not None]
        if len(values) == len(tensors):
            return self.ints(int(v) for value in values for v in value)
        joined: list[Tensor] = []
        for t in tensors:
            if joined and t.value is not None and joined[-1].value is not None:
                joined[-1] = self.constant(np.concatenate([joined[-1].value, t.value]))
            else:
                joined.append(t)
        return joined[0] if len(joined) == 1 else self.op("Concat", *joined, axis=0)

    def op(self, op_type: str, *inputs: Tensor | None, **attributes: Any) -> Tensor:
        """The first output of a node of a standard operator."""
        return self.ops(op_type, *inputs, **attributes)[0]

    def ops(
        self, op_type: str, *inputs: Tensor | None, outputs: int = 1, **attributes: Any
    ) -> list[Tensor]:
        """All outputs of a standard operator's node; an equal existing node is reused."""
        names = [t.name if t is not None else "" for t in inputs]
        while names and not names[-1]:
            names.pop()
        node = helper.make_node(op_type, names, [""] * outputs, **attributes)
        key = key_of(node)
        written = self._written.get(key)
        if written is not None and len(written) >= outputs and all(written[:outputs]):
            return [self._tensors[name] for name in written[:outputs]]
        self._name(node)
        self._infer(node, inputs)
        self.nodes.append(node)
        if op_type not in RANDOM:
            self._written[key] = tuple(node.output)
        return [self._tensors[name] for name in node.output]

    def foreign(self, node: onnx.NodeProto, like: Tensor, shape: Shape) -> Tensor:
        """The output of a node that ONNX does not know, of the shape given and the element type
        of another tensor; an equal existing node is reused.
        """
        key = key_of(node)
        names = self._written.get(key)
        if names is not None:
            return self._tensors[names[0]]
        self._name(node)
        self._written[key] = tuple(node.output)
        return self.append(node, [(like.dtype, shape)])[0]

    def _name(self, node: onnx.NodeProto) -> None:
        node.name = self.fresh(node.op_type)
        node.output[:] = [f"{node.name}:{i}" if i else node.name for i in range(len(node.output))]

    def append(
        self, node: onnx.NodeProto, types: Sequence[tuple[int, Shape | None]]
    ) -> list[Tensor]:
        """A node whose output types the caller knows."""
        self.nodes.append(node)
        for name, (dtype, shape) in zip(node.output, types, strict=True):
            self._tensors[name] = Tensor(self, name, dtype, shape)
        return [self._tensors[name] for name in node.output]

    def fresh(self, hint: str) -> str:
        """A name that no tensor has."""
        self._count += 1
        name = f"{self._prefix}{hint}_{self._count}"
        return name if name not in self._tensors else self.fresh(hint)

    def give(self, node: onnx.NodeProto, index: int) -> Tensor:
        """An output of a node, added if the node left it out."""
        while len(node.output) <= index:
            node.output.append("")
        if not node.output[index]:
            node.output[index] = self.fresh(f"{node.op_type}:{index}")
            self._infer(node, [self._tensors[n] if n else None for n in node.input])
        return self._tensors[node.output[index]]

    def replace(self, node: onnx.NodeProto, outputs: Sequence[Tensor]) -> None:
        """Let equal tensors take the names of a node's outputs; `in_order` moves what they need."""
        for index, (name, tensor) in enumerate(zip(node.output, outputs, strict=False)):
            if name:
                node.output[index] = self.fresh(node.op_type)
                self.nodes.append(helper.make_node("Identity", [tensor.name], [name], name=name))

    def retype(self, tensor: Tensor, shape: Sequence[Dim] | None) -> Tensor:
        """The tensor with a more precise shape."""
        known = replace(tensor, shape=None if shape is None else tuple(shape))
        self._tensors[tensor.name] = known
        return known

    def rename(self, tensors: Mapping[str, Tensor]) -> None:
        """Read these tensors, which become inputs, by new names."""
        names = {tensor.name: name for name, tensor in tensors.items()}
        for name, tensor in tensors.items():
            self.input(name, tensor.dtype, tensor.shape)
        for node in self.nodes:
            node.input[:] = [names.get(read, read) for read in node.input]

    def _infer(self, node: onnx.NodeProto, inputs: Sequence[Tensor | None]) -> None:
        known = [t for t in inputs if t is not None]
        types = {t.name: (t.dtype, t.shape) for t in known}
        values = {t.name: self.constants[t.name] for t in known if t.value is not None}
        kinds = infer_outputs(node, self.opset, types, values)
        for name, kind in zip(node.output, kinds, strict=True):
            if name:
                self._tensors.setdefault(name, Tensor(self, name, *kind))

    def _element_type(self, node: onnx.NodeProto, index: int) -> int:
        """The type of an output that inference left open: that of the inputs declared like it."""
        if node.domain not in STANDARD:
            return self._tensors[node.input[0]].dtype if node.input else 0
        schema = defs.get_schema(node.op_type, self.opset, "")
        kind = schema.outputs[min(index, len(schema.outputs) - 1)].type_str
        for i, name in enumerate(node.input):
            if name and schema.inputs[min(i, len(schema.inputs) - 1)].type_str == kind:
                return self._tensors[name].dtype
        return 0


def key_of(node: onnx.NodeProto) -> bytes:
    """Equal for nodes that compute the same; unique for a node that draws random numbers."""
    attributes = sorted(a.SerializeToString() for a in node.attribute)
    own = node.output[0] if node.op_type in RANDOM and node.output else ""
    parts = [node.domain, node.op_type, own, *node.input]
    return b"\0".join([*(part.encode() for part in parts), b"\1", *attributes])


def is_large(tensor: onnx.TensorProto) -> bool:
    """Whether it is a weight. By its shape: protobuf's own size of a message copies it."""
    try:
        item_bytes = helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize
    except KeyError:  # the checker refuses such a type
        return False
    return bool(product(tensor.dims) * item_bytes >= DATA_BYTES)


def _constant(builder: Builder, tensor: onnx.TensorProto) -> Tensor:
    value = None if is_large(tensor) else numpy_helper.to_array(tensor)
    return Tensor(builder, tensor.name, int(tensor.data_type), tuple(tensor.dims), value)
