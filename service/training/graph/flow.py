"""Which tensors depend differentiably on others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
import onnx
from onnx import helper, numpy_helper

from service.training.graph.builder import STANDARD, Builder
from service.training.graph.rules.elementwise import NO_SLOPE
from service.training.graph.rules.quantization import STRAIGHT_THROUGH
from service.training.graph.tensor import FLOATS

CONTROL_FLOW = frozenset({"If", "Loop", "Scan", "SequenceMap"})
"""ONNX's operators that have graphs."""

Message = TypeVar("Message", onnx.ModelProto, onnx.NodeProto, onnx.TensorProto, onnx.ValueInfoProto)


def flow_from(graph: Builder, sources: Iterable[str], nodes: Iterable[onnx.NodeProto]) -> set[str]:
    """The sources, and every float tensor that nodes compute from them, as `flow` defines it."""
    return flow(nodes, sources, lambda name: graph.tensor(name).dtype in (0, *FLOATS))


def flow(
    nodes: Iterable[onnx.NodeProto], sources: Iterable[str], is_float: Callable[[str], bool]
) -> set[str]:
    """The sources, and every float tensor computed from them.

    Counting, comparing and rounding have no gradient: the path ends there.
    """
    active = set(sources)
    for node in nodes:
        if node.op_type in NO_SLOPE or active.isdisjoint(reads(node)):
            continue
        if node.op_type in STRAIGHT_THROUGH:
            active.add(node.output[0])
        else:
            active.update(name for name in node.output if name and is_float(name))
    return active


def moving(nodes: Iterable[onnx.NodeProto], names: Iterable[str]) -> set[str]:
    """The names, and all tensors, of any type, that depend on one of them."""
    moved = set(names)
    for node in nodes:
        if not moved.isdisjoint(reads(node)):
            moved.update(filter(None, node.output))
    return moved


def needed_for(
    nodes: Sequence[onnx.NodeProto], results: Iterable[str]
) -> tuple[list[onnx.NodeProto], set[str]]:
    """The nodes that results depend on, in their order, and the names of all that leads there."""
    kept, needed = [], set(results)
    for node in reversed(nodes):
        if not needed.isdisjoint(node.output):
            kept.append(node)
            needed.update(reads(node))
    return kept[::-1], needed


def name_of(node: onnx.NodeProto) -> str:
    """The operator, with its domain unless that is ONNX's own."""
    return node.op_type if node.domain in STANDARD else f"{node.domain}.{node.op_type}"


def reads(node: onnx.NodeProto) -> list[str]:
    """Names of all tensors that a node reads, including those captured by its subgraphs."""
    names = [name for name in node.input if name]
    for graph in subgraphs(node):
        own = {v.name for v in graph.input} | {t.name for t in graph.initializer}
        own.update(name for inner in graph.node for name in inner.output)
        names += [n for inner in graph.node for n in reads(inner) if n not in own]
        names += [v.name for v in graph.output if v.name not in own]
    return names


def subgraphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """Graphs in a node's attributes."""
    if node.domain in STANDARD and node.op_type not in CONTROL_FLOW:
        return
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            yield attribute.g
        yield from attribute.graphs


def nodes_of(node: onnx.NodeProto) -> Iterator[onnx.NodeProto]:
    """The node and all nodes in its subgraphs."""
    yield node
    for graph in subgraphs(node):
        for inner in graph.node:
            yield from nodes_of(inner)


def duplicate(message: Message) -> Message:
    """An independent copy, unaffected by its container."""
    copy = type(message)()
    copy.CopyFrom(message)
    return copy


def refill(field: Any, values: Iterable[Any]) -> None:
    """Put these in the place of what a repeated field holds; they may be some of that."""
    kept = list(values)
    del field[:]
    field.extend(kept)


def add_ints(graph: onnx.GraphProto, name: str, *values: int) -> str:
    """A new initializer, an int64 vector; returns its name."""
    graph.initializer.append(numpy_helper.from_array(np.array(values, np.int64), name))
    return name


def count_rows(graph: onnx.GraphProto, source: str, name: str) -> list[onnx.NodeProto]:
    """What makes the number of rows of a tensor, an int64 vector of this name."""
    ends = [add_ints(graph, f"{name}/first", 0), add_ints(graph, f"{name}/last", 1)]
    shape = f"{name}/shape"
    return [
        helper.make_node("Shape", [source], [shape], shape),
        helper.make_node("Slice", [shape, *ends], [name], name),
    ]


def in_order(nodes: Sequence[onnx.NodeProto]) -> list[onnx.NodeProto]:
    """Each after the nodes that make what it reads, and otherwise as before."""
    makers = {name: node for node in nodes for name in node.output}
    done: set[tuple[str, ...]] = set()
    ordered: list[onnx.NodeProto] = []
    waiting = [(node, False) for node in reversed(nodes)]
    while waiting:
        node, has_all = waiting.pop()
        if has_all:
            ordered.append(node)
        elif tuple(node.output) not in done:  # the first may have no name, as of a GRU
            done.add(tuple(node.output))
            waiting.append((node, True))
            waiting += [(makers[name], False) for name in reversed(reads(node)) if name in makers]
    return ordered
