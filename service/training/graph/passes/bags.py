"""Writes a Loop over bags of a table's rows without the Loop.

TorchScript's exporter writes EmbeddingBag as one that slices the indices of a bag, gathers their
rows, and sums them up, or takes their mean or maximum. Here bags are as long as the longest.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import helper, numpy_helper

from service.training.graph.builder import STANDARD
from service.training.graph.flow import refill
from service.training.graph.node import attributes_of, whole_numbers

REDUCTIONS = ("ReduceMax", "ReduceMean", "ReduceSum")
OLDEST = 15
"""The first opset with CastLike."""
AXES_AS_INPUT = 18
"""The opset from which ReduceMax has them so."""
LOWEST = -3e38


class Bags(NamedTuple):
    """Names of tensors. first, last: of each bag's indices, last exclusive. number: of bags."""

    table: str
    indices: str
    first: str
    last: str
    number: str
    reduction: str


def lay_out_bags(model: onnx.ModelProto) -> None:
    """Replace every such Loop. A mean of no rows is 0, as in PyTorch. model: perhaps no valid one,
    then its Loops stay.
    """
    graph = model.graph
    if not any(node.op_type == "Loop" for node in graph.node):
        return
    opset = max((o.version for o in model.opset_import if o.domain in STANDARD), default=0)
    types = {t.name: t.data_type for t in graph.initializer}
    written: list[onnx.NodeProto] = []
    for node in graph.node:
        bags = _bags(node, graph) if node.op_type == "Loop" and opset >= OLDEST else None
        if bags is None or bags.table not in types:
            written.append(node)
            continue
        writer = _Writer(graph, node, opset)
        writer.write(bags, types[bags.table])
        written += writer.nodes
    refill(graph.node, written)


def _bags(loop: onnx.NodeProto, graph: onnx.GraphProto) -> Bags | None:
    """None if it does something else, or carries anything from bag to bag."""
    body = next((attribute.g for attribute in loop.attribute if attribute.name == "body"), None)
    if body is None or [len(names) for names in (loop.input, body.input, body.output)] != [2, 2, 2]:
        return None
    makers = {name: node for node in body.node for name in node.output}
    values = whole_numbers(graph.node, graph.initializer)
    values |= whole_numbers(body.node, body.initializer)
    total = _maker(makers, body, 1, *REDUCTIONS)
    rows = _maker(makers, total, 0, "Gather")
    part = _maker(makers, rows, 1, "Slice")
    ends = [_maker(makers, _maker(makers, part, i, "Unsqueeze"), 0, "Gather") for i in (1, 2)]
    first, last = ends
    if total is None or rows is None or part is None or first is None or last is None:
        return None
    goes_on = _maker(makers, body, 0, "Cast", "Identity")
    axes = attributes_of(total).get("axes") or [values.get(name) for name in total.input[1:]]
    is_plain = (
        goes_on is not None
        and goes_on.input[0] == loop.input[1]
        and values.get(loop.input[1]) == 1
        and all(node.input[1] == body.input[0].name for node in (first, last))
        and not any(attributes_of(node).get("axis", 0) for node in (first, last, rows))
        and axes == [0]
        and not attributes_of(total).get("keepdims", 1)
        and [values.get(name) for name in part.input[3:]] == [0]
        and rows.input[0] not in makers
    )
    names = (rows.input[0], part.input[0], first.input[0], last.input[0], loop.input[0])
    return Bags(*names, total.op_type) if is_plain else None


def _maker(
    producers: Mapping[str, onnx.NodeProto],
    reader: onnx.NodeProto | onnx.GraphProto | None,
    place: int,
    *kinds: str,
) -> onnx.NodeProto | None:
    """The node that makes what a node or a graph's output reads, if it is of these kinds."""
    if reader is None:
        return None
    names = (
        [value.name for value in reader.output]
        if isinstance(reader, onnx.GraphProto)
        else reader.input
    )
    producer = producers.get(names[place]) if len(names) > place else None
    needed = 2 if "Gather" in kinds else 1
    is_one = producer is not None and producer.op_type in kinds and len(producer.input) >= needed
    return producer if is_one else None


class _Writer:
    """The nodes in place of one Loop."""

    def __init__(self, graph: onnx.GraphProto, loop: onnx.NodeProto, opset: int) -> None:
        self._graph, self._loop, self._opset = graph, loop, opset
        self.nodes: list[onnx.NodeProto] = []

    def write(self, bags: Bags, kind: int) -> None:
        """kind: the table's type."""
        op, ints = self._op, self._constant
        one = self._constant([1])
        count = op("Reshape", bags.number, one)
        cut = (self._constant([0]), count, self._constant([0]))
        first = op("Slice", bags.first, *cut)
        last = op("Min", op("Slice", bags.last, *cut), op("Size", bags.indices))
        lengths = op("Sub", last, first)
        longest = op("ReduceMax", lengths, keepdims=0)
        steps = op("Range", ints(np.int64(0)), longest, ints(np.int64(1)))
        places = op("Add", op("Unsqueeze", first, one), steps)
        inside = op("Less", places, op("Unsqueeze", last, one))
        end = op("Sub", op("Size", bags.indices), ints(np.int64(1)))
        chosen = op("Gather", bags.indices, op("Min", places, end), axis=0)
        rows = op("Gather", bags.table, chosen, axis=0)
        held = op("Unsqueeze", inside, ints([2]))
        if bags.reduction == "ReduceMax":
            lowest = self._constant(np.array(LOWEST, helper.tensor_dtype_to_np_dtype(kind)))
            total = self._reduced("ReduceMax", op("Where", held, rows, lowest))
        else:
            total = self._reduced("ReduceSum", op("Mul", rows, op("CastLike", held, rows)))
        if bags.reduction == "ReduceMean":
            held = op("CastLike", op("Max", lengths, one), rows)
            total = op("Div", total, op("Unsqueeze", held, one))
        self.nodes.append(
            helper.make_node("Identity", [total], [self._loop.output[0]], name=self._loop.name)
        )

    def _reduced(self, kind: str, rows: str) -> str:
        if kind == "ReduceMax" and self._opset < AXES_AS_INPUT:
            return self._op(kind, rows, axes=[1], keepdims=0)
        return self._op(kind, rows, self._constant([1]), keepdims=0)

    def _op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        name = f"{self._loop.output[0]}/{kind}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], name=name, **attributes))
        return name

    def _constant(self, value: Any) -> str:
        name = f"{self._loop.output[0]}/constant_{len(self._graph.initializer)}"
        self._graph.initializer.append(numpy_helper.from_array(np.asarray(value), name))
        return name
