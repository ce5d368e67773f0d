"""A graph being edited: a tensor's producer, its readers, and its known type."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import onnx
from msgspec import Struct
from numpy.typing import NDArray

from service.training.graph.builder import STANDARD
from service.training.graph.flow import flow, moving, reads, refill
from service.training.graph.passes.inference import without_weights
from service.training.graph.passes.simplify import keep_tensors
from service.training.graph.tensor import FLOATS

FLOAT = onnx.TensorProto.FLOAT
Dims = tuple["int | None", ...]
BATCH, TOKENS = "batch", "tokens"
"""Names of the first axis, and of that of a text's tokens, where its length is free."""
LONG, SHORT = 24, 17
"""Lengths of trial runs, which tell that axis from others."""


class Lengths(Struct, frozen=True):
    """tokens: of a text, at most. inputs: those whose axis 1 is free. masks: of which tokens are
    there: trials draw no zeros for them. is_chosen: whether anybody has said how many tokens.
    """

    tokens: int
    inputs: frozenset[str]
    masks: frozenset[str]
    is_chosen: bool = True

    @property
    def trials(self) -> tuple[int, int]:
        """Two lengths that differ."""
        long = min(self.tokens, LONG)
        return long, min(SHORT, max(1, long - 1))


class Graph:
    """The main graph of a model with its indices; call `refresh` after an edit of the proto."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self.model = model
        self.proto = model.graph
        self.measured: dict[str, onnx.ValueInfoProto] = {}
        self.constants: set[str] = set()
        """Initializers from Constant nodes: constants of the program, not parameters."""
        self.parameters: set[str] = set()
        """Initializers that were parameters or computed from some, by the exporter's records."""
        self.lengths: Lengths | None = None
        """The axis of tokens, of a graph that texts feed."""
        self._count = 0
        self._names: set[str] = set()
        self.refresh()

    def refresh(self) -> None:
        """Rebuild the indices and infer shapes again, using measured ones where inference fails."""
        produced = {name for node in self.proto.node for name in node.output}
        ends = {value.name for value in self.proto.output}
        known = [v for name, v in self.measured.items() if name in produced and name not in ends]
        refill(self.proto.value_info, known)
        inferred = onnx.shape_inference.infer_shapes(without_weights(self.model), data_prop=True)
        values = [*inferred.graph.value_info, *inferred.graph.input, *inferred.graph.output]
        refill(self.proto.value_info, inferred.graph.value_info)
        self._types = {v.name: v.type.tensor_type for v in values if v.type.HasField("tensor_type")}
        self.initializers = {t.name: t for t in self.proto.initializer}
        self._producers = {name: node for node in self.proto.node for name in node.output if name}
        self._consumers: dict[str, list[onnx.NodeProto]] = defaultdict(list)
        for node in self.proto.node:
            for name in dict.fromkeys(reads(node)):
                self._consumers[name].append(node)
        self._fed: set[str] | None = None
        self._names.update(self._producers, self.initializers, self._types)
        self._names.update(node.name for node in self.proto.node)

    @property
    def opset(self) -> int:
        """Version of the default domain."""
        return next(int(o.version) for o in self.model.opset_import if o.domain in STANDARD)

    @property
    def inputs(self) -> list[onnx.ValueInfoProto]:
        """The inputs that a caller feeds, in graph order."""
        return [v for v in self.proto.input if v.name not in self.initializers]

    @property
    def outputs(self) -> list[str]:
        """Names of the graph's outputs."""
        return [v.name for v in self.proto.output]

    @property
    def fed(self) -> set[str]:
        """The inputs, and every tensor whose values depend on theirs; shapes do not."""
        if self._fed is None:
            computing = [n for n in self.proto.node if not is_default(n, "Shape", "Size")]
            self._fed = moving(computing, [value.name for value in self.inputs])
        return self._fed

    def producer(self, name: str) -> onnx.NodeProto | None:
        """The node that computes the tensor; None for inputs, initializers and unknown names."""
        return self._producers.get(name)

    def consumers(self, name: str) -> list[onnx.NodeProto]:
        """Nodes that read the tensor, including in subgraphs."""
        return self._consumers.get(name, [])

    def origin(self, name: str, *op_types: str) -> str:
        """The tensor that operators of these types make this one of, by their first inputs."""
        while (node := self.producer(name)) is not None and is_default(node, *op_types):
            name = node.input[0]
        return name

    def elem_type(self, name: str) -> int | None:
        """ONNX element type, None if unknown."""
        if name in self.initializers:
            return int(self.initializers[name].data_type)
        return int(self._types[name].elem_type) if name in self._types else None

    def dims(self, name: str) -> Dims | None:
        """Shape with None for sizes that are not fixed; None if even the rank is unknown."""
        if name in self.initializers:
            return tuple(self.initializers[name].dims)
        tensor = self._types.get(name)
        if tensor is None or not tensor.HasField("shape"):
            return None
        return tuple(d.dim_value if d.HasField("dim_value") else None for d in tensor.shape.dim)

    def flow(self, sources: Iterable[str]) -> set[str]:
        """The sources, and every float tensor from which a gradient would reach them."""
        return flow(self.proto.node, sources, lambda name: self.elem_type(name) in (None, *FLOATS))

    def array(self, name: str) -> NDArray[np.generic] | None:
        """An initializer's value."""
        tensor = self.initializers.get(name)
        return None if tensor is None else onnx.numpy_helper.to_array(tensor)

    def fresh(self, hint: str) -> str:
        """A name that is not used in the graph."""
        name = hint
        while name in self._names:
            self._count += 1
            name = f"{hint}_{self._count}"
        self._names.add(name)
        return name

    def add_initializer(self, hint: str, value: NDArray[np.generic]) -> str:
        """A new constant; returns its name."""
        name = self.fresh(hint)
        tensor = onnx.numpy_helper.from_array(np.ascontiguousarray(value), name)
        self.proto.initializer.append(tensor)
        self.initializers[name] = self.proto.initializer[-1]
        return name

    def replace(self, replacements: Mapping[str, Sequence[onnx.NodeProto]]) -> None:
        """Replace the named nodes by others, and refresh."""
        if not replacements:
            return
        nodes = [new for node in self.proto.node for new in replacements.get(node.name, (node,))]
        self.set_nodes(nodes)

    def set_nodes(self, nodes: Iterable[onnx.NodeProto]) -> None:
        """Set a new list of nodes, and refresh."""
        refill(self.proto.node, nodes)
        self.refresh()

    def drop_unread(self) -> None:
        """Remove initializers that no node reads any more."""
        read = {name for node in self.proto.node for name in reads(node)}
        keep_tensors(self.proto, read)
        self.refresh()


def dtype_name(kind: int | None) -> str:
    """NumPy's name, such as float32; `string`; `unknown` without a type."""
    if not kind or kind not in onnx.TensorProto.DataType.values():
        return "unknown"
    name = str(onnx.TensorProto.DataType.Name(kind)).lower()
    return {"float": "float32", "double": "float64"}.get(name, name)


def is_default(node: onnx.NodeProto, *op_types: str) -> bool:
    """Is the node one of these operators of the default domain?"""
    return node.domain in STANDARD and node.op_type in op_types


def input_at(node: onnx.NodeProto, index: int) -> str:
    """The input's name, empty if it is absent."""
    return str(node.input[index]) if index < len(node.input) else ""
