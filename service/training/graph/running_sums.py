"""Lets a step add gradients to what it is fed, which may be the memory that it writes them to: runs
on parts of a batch then need no memory of their own, and no pass that adds them up.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Container, Iterable, Mapping, Sequence

import onnx
from onnx import helper, numpy_helper

from service.training.graph.flow import duplicate, reads, refill
from service.training.graph.node import attributes_of
from service.training.graph.passes.branches import rename
from service.training.graph.passes.simplify import prune
from service.training.loss import SUM

SAME_NUMBERS = frozenset(["Reshape", "Squeeze", "Unsqueeze"])


def before_reshapes(nodes: Iterable[onnx.NodeProto], names: Iterable[str]) -> dict[str, str]:
    """What is reshaped into each of these tensors; the tensor itself if it is not."""
    written = {node.output[0]: node for node in nodes}
    firsts = {}
    for name in names:
        first = name
        while (node := written.get(first)) is not None and node.op_type in SAME_NUMBERS:
            first = node.input[0]
        firsts[name] = first
    return firsts


def with_running_sums(step: onnx.ModelProto, names: Collection[str]) -> onnx.ModelProto:
    """A copy whose outputs of these names are the sums of `SUM + name` and what they were, unless
    their size grows with the samples.

    Their shapes are those from before they are reshaped, which is a copy at a graph's end, where
    the graph's `value_info` has these.
    """
    model = duplicate(step)
    graph = model.graph
    parts = {n: f"{n}.part" for n in _of_known_size(graph.output) if n in names}
    for node in graph.node:
        rename(node, parts)
    readers = Counter(name for node in graph.node for name in reads(node))
    written = {node.output[0]: node for node in graph.node}
    shapes = {value.name: value.type for value in graph.value_info}
    zeros = {t.name for t in graph.initializer if _is_zero(t)}
    firsts = before_reshapes(graph.node, parts.values())
    sums: dict[str, list[onnx.NodeProto]] = defaultdict(list)
    for value in [value for value in graph.output if value.name in parts]:
        name, first = value.name, firsts[parts[value.name]]
        if first in shapes:
            value.type.CopyFrom(shapes[first])
        else:
            first = parts[name]
        graph.input.append(duplicate(value))
        graph.input[-1].name = SUM + name
        node = written.get(first) if readers[first] <= (first != parts[name]) else None
        if node is not None and node.op_type == "Gemm" and len(node.input) == 2:
            node.input.append(SUM + name)
            node.output[0] = name
        elif rows := _added_rows(node, written, readers, zeros):
            sums[first] += _scatter(rows, name)
        else:
            add = helper.make_node("Add", [first, SUM + name], [name], name=SUM + name)
            sums[first].append(add)
    # Right behind what they add, whose memory is then free.
    nodes: list[onnx.NodeProto] = []
    for node in graph.node:
        nodes += [node, *(n for name in node.output for n in sums[name])]
    refill(graph.node, nodes)
    prune(graph, [value.name for value in graph.output])
    return model


def _of_known_size(values: Iterable[onnx.ValueInfoProto]) -> list[str]:
    """The names of those whose size does not grow with the samples."""
    return [
        value.name
        for value in values
        if all(size.HasField("dim_value") for size in value.type.tensor_type.shape.dim)
    ]


def _scatter(rows: Sequence[onnx.NodeProto], name: str) -> list[onnx.NodeProto]:
    """Adds what all of these nodes add to zeros."""
    nodes: list[onnx.NodeProto] = []
    inputs = [*rows[0].input]
    for place in (1, 2) if len(rows) > 1 else ():
        inputs[place] = f"{SUM}{name}.{place}"
        parts = [row.input[place] for row in rows]
        nodes.append(helper.make_node("Concat", parts, inputs[place:][:1], inputs[place], axis=0))
    last = duplicate(rows[0])
    last.input[:] = [SUM + name, *inputs[1:]]
    last.output[0] = name
    return [*nodes, last]


def _added_rows(
    node: onnx.NodeProto | None,
    written: Mapping[str, onnx.NodeProto],
    readers: Mapping[str, int],
    zeros: Container[str],
) -> list[onnx.NodeProto]:
    """The nodes that add rows to zeros, as for the gradient of a table; none if others do, too."""
    additions: list[onnx.NodeProto] = []
    while node is not None and node.op_type == "ScatterElements":
        options = attributes_of(node)
        if options != {"axis": 0, "reduction": b"add"} or readers[node.input[0]] > 1:
            return []
        additions.append(node)
        node = written.get(node.input[0])
    is_on_zeros = node is not None and node.op_type == "Expand" and node.input[0] in zeros
    return additions if is_on_zeros else []


def _is_zero(tensor: onnx.TensorProto) -> bool:
    return list(tensor.dims) in ([], [1]) and not numpy_helper.to_array(tensor).any()
