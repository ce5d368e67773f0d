"""What the passes work on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import onnx

from service.training.errors import pointer
from service.training.forward.gradient import on_path, with_gradient
from service.training.forward.graph import Graph, is_default
from storage.errors import Problem


@dataclass(slots=True)
class Draft:
    """A graph on its way to being trainable, what was mended, and what could not be."""

    graph: Graph
    trainable: tuple[str, ...]
    notes: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    def path(self, *op_types: str) -> list[onnx.NodeProto]:
        """Nodes that need a gradient; of these operators of the default domain, if any given."""
        nodes = on_path(self.graph, self.trainable)
        return [node for node in nodes if not op_types or is_default(node, *op_types)]

    def nodes(self, *op_types: str) -> list[onnx.NodeProto]:
        """All nodes with these operators of the default domain."""
        return [node for node in self.graph.proto.node if is_default(node, *op_types)]

    def moving(self) -> set[str]:
        """Tensors that change with a trainable parameter."""
        return with_gradient(self.graph, self.trainable)

    def note(self, nodes: Sequence[onnx.NodeProto], sentence: str) -> None:
        """Record what was done to these nodes, if there are any."""
        if nodes:
            self.notes.append(f"{sentence}: {', '.join(node.name for node in nodes)}")

    def refuse(self, node: onnx.NodeProto, detail: str) -> None:
        """Record what cannot be mended."""
        place = pointer("model", "graph", "node", node.name)
        self.problems.append(Problem(place, f'node "{node.name}" ({node.op_type}) {detail}'))
