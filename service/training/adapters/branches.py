"""Writes adapters into a forward graph, and removes those that exports merge into their weights."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from math import sqrt
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper

from service.training.adapters.targets import Target, choose, find
from service.training.engines.manifest import Adapter
from service.training.forward.graph import Graph
from service.training.graph.flow import duplicate, reads
from service.training.graph.node import attributes_of
from service.training.protocol.messages.preparation import Lora

BASE = ":without_adapter"
"""Suffix of a product's own result, before an adapter's part is added."""
PARTS = (":adapter_down", ":adapter_scaled", ":adapter_up")
"""Suffixes for the tensors of the adapter's part."""


def add_adapters(graph: Graph, lora: Lora, notes: list[str]) -> tuple[Adapter, ...]:
    """Make each target product compute y + (alpha/rank)·(x A) B.

    A is uniform within ±1/√columns, seeded by the weight's name, and B is 0, so that the graph
    computes the same as before. A weight that several products read has one adapter. Raises
    GraphRefused.
    Source: Hu et al. (2021), https://arxiv.org/abs/2106.09685, initialized as its authors' code is.
    """
    targets = choose(graph, lora)
    by_weight: dict[str, list[Target]] = {}
    for target in targets:
        by_weight.setdefault(target.weight, []).append(target)
    adapters, branches = [], dict[str, list[onnx.NodeProto]]()
    for readers in by_weight.values():
        a, b = _add_matrices(graph, readers[0], lora.rank)
        for reader in readers:
            branches[reader.result] = _branch(graph, reader, a, b, scale=lora.alpha / lora.rank)
        adapters.append(_adapter(graph, readers, a, b, scale=lora.alpha / lora.rank))
    _insert(graph, branches)
    notes.append(f"adapters of rank {lora.rank} train beside {len(adapters)} frozen weights")
    return tuple(adapters)


def merged_form(model: onnx.ModelProto, adapters: Sequence[Adapter]) -> onnx.ModelProto:
    """The model without the adapters that are merged into their weights on export.

    Nodes that read A or B are removed, up to the sum, which is replaced by its first operand. They
    are not found by name, since joining a frozen part may have renamed them.
    """
    branch = {name for pair in adapters if pair.merges for name in (pair.left, pair.right)}
    if not branch:
        return model
    gone, renamed = set[str](), dict[str, str]()
    kept: list[onnx.NodeProto] = []
    for node in model.graph.node:
        if branch.isdisjoint(node.input):
            kept.append(duplicate(node))
            continue
        gone.update(node.input)
        if node.op_type == "Add" and node.input[0] not in branch:
            renamed[node.input[0]] = node.output[0]
        else:
            branch.update(node.output)
    for node in kept:
        node.input[:] = [renamed.get(name, name) for name in node.input]
        node.output[:] = [renamed.get(name, name) for name in node.output]
    copy = duplicate(model)
    del copy.graph.node[:], copy.graph.initializer[:], copy.graph.value_info[:]
    copy.graph.node.extend(kept)
    gone -= {name for node in kept for name in reads(node)}
    copy.graph.initializer.extend(t for t in model.graph.initializer if t.name not in gone)
    return copy


def add_branches(graph: Graph, adapters: Sequence[Adapter]) -> onnx.ModelProto:
    """The inverse of `merged_form`: each adapter next to its weight. The graph has the matrices."""
    by_weight = {adapter.weight: adapter for adapter in adapters}
    branches = {}
    for target in find(graph):
        adapter = by_weight.get(target.weight)
        if adapter is not None:
            a, b = adapter.left, adapter.right
            a, b = (b, a) if target.outputs_first else (a, b)
            branches[target.result] = _branch(graph, target, a, b, scale=adapter.scale)
    _insert(graph, branches)
    return graph.model


def _add_matrices(graph: Graph, target: Target, rank: int) -> tuple[str, str]:
    """The names of A and B, initializers in the layout of the weight."""
    rng = np.random.default_rng(zlib.crc32(target.weight.encode()))
    limit = 1 / sqrt(target.columns)
    a = rng.uniform(-limit, limit, (target.columns, rank)).astype(np.float32)
    b = np.zeros((rank, target.rows), np.float32)
    named = {
        graph.add_initializer(f"{target.weight}.lora_{letter}", _laid_out(graph, x, target)): x
        for letter, x in (("A", a), ("B", b))
    }
    graph.parameters.update(named)
    first, second = named
    return first, second


def _laid_out(graph: Graph, x: NDArray[Any], target: Target) -> NDArray[Any]:
    """Transposed if the weight is, and with the axes of its kernel."""
    turned = x.T if target.outputs_first else x
    kernel = (graph.dims(target.read) or ())[2:] if target.node.op_type == "Conv" else ()
    return turned.reshape(*turned.shape, *[1] * len(kernel))


def _adapter(graph: Graph, readers: Sequence[Target], a: str, b: str, *, scale: float) -> Adapter:
    first = readers[0]
    alike = {(reader.outputs_first, reader.is_float) for reader in readers} == {
        (first.outputs_first, True)
    }
    merges = alike and len(graph.consumers(first.weight)) == len(readers)
    left, right = (b, a) if first.outputs_first else (a, b)
    return Adapter(first.weight, left, right, scale, merges)


def _branch(graph: Graph, target: Target, a: str, b: str, *, scale: float) -> list[onnx.NodeProto]:
    """Nodes that add the adapter's part to the result. A Gemm's alpha also applies to it."""
    node, result = target.node, target.result
    factor = np.array(scale * attributes_of(node).get("alpha", 1.0), np.float32)
    name = graph.add_initializer(f"{result}:adapter_scale", factor)
    graph.constants.add(name)
    x = node.input[0]
    if node.op_type == "MatMulInteger":
        quantized = graph.producer(x)
        assert quantized is not None  # else it would not be a target
        x = quantized.input[0]
    down, scaled, up = (result + part for part in PARTS)
    return [
        _product(target, x, a, down, first=True),
        helper.make_node("Mul", [down, name], [scaled], name=scaled),
        _product(target, scaled, b, up, first=False),
        helper.make_node("Add", [result + BASE, up], [result], name=f"{result}:adapter"),
    ]


def _product(target: Target, x: str, matrix: str, result: str, *, first: bool) -> onnx.NodeProto:
    """x times A or B; the strides and pads of a convolution are those of the first."""
    if target.node.op_type == "Conv":
        kept = [a for a in target.node.attribute if first and a.name != "group"]
        written = helper.make_node("Conv", [x, matrix], [result], name=result)
        written.attribute.extend(kept)
        return written
    if target.node.op_type == "Gemm":
        turned = int(target.outputs_first)
        return helper.make_node("Gemm", [x, matrix], [result], name=result, transB=turned)
    return helper.make_node("MatMul", [x, matrix], [result], name=result)


def _insert(graph: Graph, branches: dict[str, list[onnx.NodeProto]]) -> None:
    nodes: list[onnx.NodeProto] = []
    for node in graph.proto.node:
        nodes.append(duplicate(node))
        for place, name in enumerate(node.output):
            if name in branches:
                nodes[-1].output[place] = name + BASE
                nodes += branches[name]
    graph.set_nodes(nodes)
