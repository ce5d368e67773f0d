"""Removes no-ops, duplicates and unused nodes from a graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable

import onnx

from service.training.graph.builder import STANDARD, key_of
from service.training.graph.flow import duplicate, needed_for, reads, refill, subgraphs
from service.training.graph.passes.modes import drops


def simplify(model: onnx.ModelProto) -> None:
    """Drop Identity and inactive Dropout, merge equal nodes, drop unused nodes.

    Inputs stay: samples have one that the model reads only the shape of, too.
    """
    graph = model.graph
    fixed = {v.name for v in graph.output}
    fixed.update(name for node in graph.node if any(subgraphs(node)) for name in reads(node))
    numbers = {t.name: t for t in graph.initializer}
    renamed: dict[str, str] = {}
    written: dict[bytes, onnx.NodeProto] = {}
    for node in graph.node:
        node.input[:] = [renamed.get(name, name) for name in node.input]
        if fixed.intersection(node.output):
            continue
        if _passes_on(node, numbers):
            renamed[node.output[0]] = node.input[0]
            continue
        first = written.setdefault(key_of(node), node)
        if first is not node and len(first.output) >= len(node.output) and all(first.output):
            renamed.update(zip(node.output, first.output, strict=False))
    prune(graph, [v.name for v in graph.output])


def pool_before_relu(model: onnx.ModelProto) -> None:
    """Move MaxPool before a Relu that only it reads, which then has fewer numbers to process.

    The results are the same, and so are the gradients: if the maximum is not above 0 the gradient
    is 0, and otherwise the same number is the first maximum.
    """
    graph = model.graph
    readers = Counter(name for node in graph.node for name in reads(node))
    readers.update(value.name for value in graph.output)
    producers = {name: node for node in graph.node for name in node.output}
    for pool in graph.node:
        relu = producers.get(pool.input[0]) if pool.op_type == "MaxPool" else None
        if relu is None or relu.op_type != "Relu" or readers[relu.output[0]] > 1:
            continue
        if any(pool.output[1:]):
            continue
        first, last = duplicate(pool), duplicate(relu)
        first.input[0], last.input[0] = relu.input[0], f"{pool.output[0]}:before_relu"
        first.output[:], last.output[:] = [last.input[0]], pool.output[:1]
        relu.CopyFrom(first)
        pool.CopyFrom(last)


def prune(graph: onnx.GraphProto, results: Iterable[str]) -> None:
    """Drop nodes and initializers that do not lead to the results."""
    kept, needed = needed_for(graph.node, results)
    refill(graph.node, kept)
    keep_tensors(graph, needed)


def keep_tensors(graph: onnx.GraphProto, names: Container[str]) -> None:
    """Drop the other initializers; the copies that this takes are made only if there are some."""
    kept = [t for t in graph.initializer if t.name in names]
    if len(kept) < len(graph.initializer):
        refill(graph.initializer, kept)


def _passes_on(node: onnx.NodeProto, numbers: dict[str, onnx.TensorProto]) -> bool:
    if node.domain not in STANDARD:
        return False
    if node.op_type == "Dropout" and not any(node.output[1:]):
        return not drops(node, numbers)
    return node.op_type == "Identity"
