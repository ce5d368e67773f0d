"""Cuts a graph in two: the frozen part runs once per sample, the trainable part at each step."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import onnx
from msgspec import Struct

from service.training.errors import GraphRefused
from service.training.forward import frontier, trial
from service.training.forward.frontier import CannotCut, Frontier, Layout
from service.training.forward.graph import BATCH, Graph
from service.training.graph.flow import duplicate, reads
from service.training.graph.passes.branches import rename

ROWS = 3
"""Rows that are compared with single ones."""


class Partition(Struct, frozen=True):
    """Two models that together, in sequence, compute the same as the whole.

    prefix: in its inference form; its outputs, (batch, …) each, are the suffix's inputs in the
    same order. tensors: their names in the whole graph.
    """

    prefix: onnx.ModelProto
    suffix: Graph
    tensors: tuple[str, ...]


def divide(graph: Graph, trainable: Iterable[str]) -> Partition | None:
    """Cut at the frontier; None if nothing is frozen below it.

    Raises CannotCut if the frozen part cannot be cut off.
    """
    try:
        frontier_here = frontier.find(graph, trainable)
    except GraphRefused as error:  # a runtime without the kernel for an inner output
        raise CannotCut(f"what is frozen cannot be told: {error.detail}") from None
    if frontier_here is None:
        return None
    cut = _Cut(graph, frontier_here)
    partition = Partition(cut.prefix(), cut.suffix(), tuple(frontier_here.edge))
    _check_rows(graph, partition)
    return partition


class _Cut:
    """The two sides under construction. rows: edge tensor → its name as rows of samples."""

    def __init__(self, graph: Graph, found: Frontier) -> None:
        self._graph = graph
        self._found = found
        self._rows = {
            name: name if _is_plain(graph, name, layout) else graph.fresh(f"{name}/rows")
            for name, layout in found.edge.items()
        }

    def prefix(self) -> onnx.ModelProto:
        nodes = frontier.below(self._graph, self._found)
        b = _Builder(self._graph, "prefix")
        for name, layout in self._found.edge.items():
            _to_rows(b, name, layout, self._rows[name])
        model = self._model([*nodes, *b.nodes])
        model.graph.input.extend(self._graph.inputs)
        model.graph.output.extend(self._values())
        return trial.inference_form(model)

    def suffix(self) -> Graph:
        b = _Builder(self._graph, "suffix")
        renamed = {}
        for name, layout in self._found.edge.items():
            if self._rows[name] != name:
                renamed[name] = _from_rows(b, self._rows[name], layout)
        renamed |= self._known_shapes(b)
        nodes = [
            duplicate(node)
            for node in self._graph.proto.node
            if node.name in self._found.suffix and node.output[0] not in renamed
        ]
        for node in nodes:
            rename(node, renamed)
        model = self._model([*b.nodes, *nodes])
        model.graph.input.extend(self._values())
        model.graph.output.extend(self._graph.proto.output)
        # Measured on the whole graph, since the suffix alone may lack shapes of related tensors.
        suffix = Graph(model)
        suffix.measured = dict(self._graph.measured)
        suffix.constants = set(self._graph.constants)
        suffix.parameters = set(self._graph.parameters)
        suffix.refresh()
        suffix.drop_unread()
        return suffix

    def _known_shapes(self, b: _Builder) -> dict[str, str]:
        """The output of each Shape node on a prefix tensor → one computed from the batch size."""
        known = {}
        for node in self._graph.proto.node:
            if node.name in self._found.suffix and node.op_type == "Shape":
                layout = self._found.measured.get(node.input[0])
                if layout is not None:
                    known[node.output[0]] = _shape(b, next(iter(self._rows.values())), node, layout)
        return known

    def _values(self) -> list[onnx.ValueInfoProto]:
        return [
            onnx.helper.make_tensor_value_info(
                self._rows[name], self._graph.elem_type(name) or 1, [BATCH, *row_shape(layout)]
            )
            for name, layout in self._found.edge.items()
        ]

    def _model(self, nodes: Sequence[onnx.NodeProto]) -> onnx.ModelProto:
        whole = self._graph.model
        model = onnx.ModelProto(ir_version=whole.ir_version, opset_import=whole.opset_import)
        model.graph.name = whole.graph.name
        model.graph.node.extend(nodes)
        read = {name for node in nodes for name in reads(node)}
        tensors = self._graph.initializers.values()
        model.graph.initializer.extend(tensor for tensor in tensors if tensor.name in read)
        return model


def row_shape(layout: Layout) -> tuple[int, ...]:
    """One sample's row: the rest of the shape, after the factor if there is one."""
    before, after = layout.shape[: layout.axis], layout.shape[layout.axis + 1 :]
    return (*before, *([layout.factor] if layout.factor > 1 else []), *after)


def _is_plain(graph: Graph, name: str, layout: Layout) -> bool:
    """Unchanged rows, copied by a node: an input that is passed through needs another name."""
    return (layout.axis, layout.factor) == (0, 1) and graph.producer(name) is not None


def _to_rows(b: _Builder, name: str, layout: Layout, rows: str) -> None:
    if rows == name:
        return
    axis, rank = layout.axis, len(layout.shape)
    if layout.factor > 1:
        name = b.reshape(name, (*layout.shape[:axis], -1, layout.factor, *layout.shape[axis + 1 :]))
        rank += 1
    name = b.transpose(name, [axis, *(at for at in range(rank) if at != axis)])
    b.nodes.append(onnx.helper.make_node("Identity", [name], [rows], name=b.graph.fresh(rows)))


def _from_rows(b: _Builder, rows: str, layout: Layout) -> str:
    axis, rank = layout.axis, len(layout.shape) + (layout.factor > 1)
    name = b.transpose(rows, [*range(1, axis + 1), 0, *range(axis + 1, rank)])
    if layout.factor > 1:
        name = b.reshape(name, (*layout.shape[:axis], -1, *layout.shape[axis + 1 :]))
    return name


def _shape(b: _Builder, rows: str, node: onnx.NodeProto, layout: Layout) -> str:
    """The result of Shape for a tensor of this layout, computed from another's rows."""
    limits = {a.name: a.i for a in node.attribute}
    axes = range(len(layout.shape))[slice(limits.get("start", 0), limits.get("end"))]
    batch = b.op("Slice", b.op("Shape", rows), b.ints([0]), b.ints([1]))
    if layout.factor > 1:
        batch = b.op("Mul", batch, b.ints([layout.factor]))
    parts = [batch if at == layout.axis else b.ints([layout.shape[at]]) for at in axes]
    return b.op("Concat", *parts, axis=0) if parts else b.ints([])


def _check_rows(graph: Graph, partition: Partition) -> None:
    """Each row depends only on its sample, not on other rows. Raises CannotCut if it does not."""
    whole = trial.draw(graph, ROWS, seed=ROWS)
    singles = [{name: value[at : at + 1] for name, value in whole.items()} for at in range(ROWS)]
    try:
        together, *alone = trial.run_named(partition.prefix, [whole, *singles])
    except GraphRefused as error:
        raise CannotCut(f"what is frozen does not run by itself: {error.detail}") from None
    unlike = dict.fromkeys(
        tensor
        for tensor, (name, rows) in zip(partition.tensors, together.items(), strict=True)
        for at, single in enumerate(alone)
        if not _is_row(rows[at], single[name])
    )
    if unlike:
        raise CannotCut(f"a sample's row of {', '.join(unlike)} depends on the rows beside it")


def _is_row(row: trial.Array, single: trial.Array) -> bool:
    if single.shape != (1, *row.shape):
        return False
    return bool(np.allclose(row, single[0], 1e-4, 1e-5, equal_nan=row.dtype.kind == "f"))


class _Builder:
    """Writes the nodes at the cut; each method returns the name of its result."""

    def __init__(self, graph: Graph, prefix: str) -> None:
        self.graph = graph
        self.nodes: list[onnx.NodeProto] = []
        self._prefix = prefix

    def op(self, op_type: str, *inputs: str, **attributes: Any) -> str:
        """Append a node."""
        hint = f"{self._prefix}/{op_type}"
        result, name = self.graph.fresh(f"{hint}_output"), self.graph.fresh(hint)
        self.nodes.append(onnx.helper.make_node(op_type, inputs, [result], name=name, **attributes))
        return result

    def ints(self, values: Sequence[int]) -> str:
        """An int64 vector: axes, shapes."""
        return self.graph.add_initializer(f"{self._prefix}/constant", np.array(values, np.int64))

    def reshape(self, a: str, shape: Sequence[int]) -> str:
        return self.op("Reshape", a, self.ints(shape))

    def transpose(self, a: str, perm: Sequence[int]) -> str:
        """Nothing if no axis moves."""
        if list(perm) == sorted(perm):
            return a
        return self.op("Transpose", a, perm=list(perm))
