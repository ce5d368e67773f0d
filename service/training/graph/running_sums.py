"""Lets a step add gradients to what it is fed, which may be the memory that it writes them to: runs
on parts of a batch then need no memory of their own, and no pass that adds them up.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable

import onnx
from onnx import helper

from service.training.graph.flow import duplicate, reads
from service.training.graph.passes.branches import rename
from service.training.graph.passes.simplify import prune
from service.training.loss import SUM

SAME_NUMBERS = frozenset(["Reshape", "Squeeze", "Unsqueeze"])


def before_reshapes(nodes: Iterable[onnx.NodeProto], names: Iterable[str]) -> dict[str, str]:
    """What is reshaped into each of these tensors; the tensor itself if it is not."""
    written = {node.output[0]: node for node in nodes}
    found = {}
    for name in names:
        first = name
        while (node := written.get(first)) is not None and node.op_type in SAME_NUMBERS:
            first = node.input[0]
        found[name] = first
    return found


def with_running_sums(step: onnx.ModelProto, names: Collection[str]) -> onnx.ModelProto:
    """A copy whose outputs of these names are the sums of `SUM + name` and what they were.

    Their shapes are those from before they are reshaped, which is a copy at a graph's end, where
    the graph's `value_info` has these.
    """
    model = duplicate(step)
    graph = model.graph
    parts = {name: f"{name}.part" for name in names}
    for node in graph.node:
        rename(node, parts)
    readers = Counter(name for node in graph.node for name in reads(node))
    written = {node.output[0]: node for node in graph.node}
    shapes = {each.name: each.type for each in graph.value_info}
    firsts = before_reshapes(graph.node, parts.values())
    sums: dict[str, list[onnx.NodeProto]] = defaultdict(list)
    for value in graph.output:
        name = value.name
        if name not in parts:
            continue
        first = firsts[parts[name]]
        if first in shapes:
            value.type.CopyFrom(shapes[first])
        else:
            first = parts[name]
        graph.input.append(duplicate(value))
        graph.input[-1].name = SUM + name
        node = written.get(first)
        is_read_elsewhere = readers[first] > (first != parts[name])
        if node is None or node.op_type != "Gemm" or len(node.input) > 2 or is_read_elsewhere:
            node = helper.make_node("Add", [first], [""], name=SUM + name)
            sums[first].append(node)
        node.input.append(SUM + name)
        node.output[0] = name
    # Right behind what they add, whose memory is then free.
    nodes: list[onnx.NodeProto] = []
    for node in graph.node:
        nodes += [duplicate(node), *(n for name in node.output for n in sums[name])]
    del graph.node[:]
    graph.node.extend(nodes)
    prune(graph, [each.name for each in graph.output])
    return model
