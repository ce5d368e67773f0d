"""Trains stacks of convolution and pooling in another layout: spatial axes first, channels last.

A position's numbers for all samples and channels are then contiguous. The input of a kernel
position is a slice of whole rows, and a convolution is a sum of matrix products. A convolution
before a MaxPool computes each position in the pool's window separately, so the pool is the maximum
of some tensors. All gradients follow from the rules of these operators.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import onnx

from service.training.graph.blocks.between import Rewriting, without_nodes
from service.training.graph.builder import STANDARD, Builder
from service.training.graph.flow import reads
from service.training.graph.kernel_windows import windows_of
from service.training.graph.node import Node, attributes_of
from service.training.graph.passes.row_products import (
    Windowed,
    convolve,
    first_largest,
    places_last,
)
from service.training.graph.tensor import Tensor, product

ELEMENTWISE = frozenset(("Clip", "Elu", "HardSwish", "LeakyRelu", "Relu", "Sigmoid", "Tanh"))
"""Operators that work in any layout."""
MAX_SEEN = 1 << 16
"""Numbers per sample that the kernels read; they are kept until the gradients are computed.

Convolutions that read more take more memory this way than for the input, and are hardly faster
(measured).
"""


def read_model(model: onnx.ModelProto) -> Builder:
    """A builder on the model's graph, with such stacks rewritten. model: with types."""
    graph = Builder(model)
    pools = _pooled(model, graph)
    if not pools:
        return graph
    return _SpatialFirst(model, graph, without_nodes(model), pools=pools).run()


def _pooled(model: onnx.ModelProto, graph: Builder) -> dict[str, onnx.NodeProto]:
    """The pools with adjacent windows on a convolution's output that nothing else reads."""
    readers = Counter(name for node in graph.nodes for name in reads(node))
    readers.update(value.name for value in model.graph.output)
    producers = {name: node for node in graph.nodes for name in node.output if _fits(graph, node)}
    return {
        pool.input[0]: pool
        for pool in graph.nodes
        if _is_tiling(pool) and pool.input[0] in producers and readers[pool.input[0]] == 1
    }


def _fits(graph: Builder, node: onnx.NodeProto) -> bool:
    """Is it a small convolution without groups, all of whose sizes but the batch's are known?"""
    if node.op_type != "Conv" or node.domain not in STANDARD:
        return False
    shapes = [graph.tensor(name).shape for name in (node.input[0], node.output[0])]
    known = [shape is not None and all(isinstance(d, int) for d in shape[1:]) for shape in shapes]
    weight = graph.tensor(node.input[1]).sizes
    if not all(known) or weight is None or weight[1] != (shapes[0] or ())[1]:
        return False
    results = graph.tensor(node.output[0]).sizes_of(range(2, len(weight)))
    return product(weight[1:]) * product(results) <= MAX_SEEN


def _is_tiling(node: onnx.NodeProto) -> bool:
    """Are its windows adjacent? A remainder that fills no window is left out."""
    if node.op_type != "MaxPool" or node.domain not in STANDARD or any(node.output[1:]):
        return False
    attributes = attributes_of(node)
    return (
        attributes.get("strides") == attributes["kernel_shape"]
        and not any(attributes.get("pads", ()))
        and attributes.get("auto_pad", b"NOTSET") in (b"NOTSET", b"VALID")
        and set(attributes.get("dilations", (1,))) == {1}
        and not attributes.get("ceil_mode", 0)
    )


class _SpatialFirst(Rewriting, kw_only=True):
    """pools: by the tensor that they read."""

    pools: Mapping[str, onnx.NodeProto]

    def run(self) -> Builder:
        done = {pool.output[0] for pool in self.pools.values()}
        for node in self.old.nodes:
            if not done.intersection(node.output) and not self._rewrite(node):
                self.keep(node)
        for value in self.model.graph.output:
            self.plain(value.name)
        return self.new

    def _rewrite(self, node: onnx.NodeProto) -> bool:
        """Write the node in the new layout, if it is in a stack."""
        source = node.input[0] if node.input else ""
        if source in self.moved and node.op_type in ELEMENTWISE and node.domain in STANDARD:
            others = [self.new.tensor(name) if name else None for name in node.input[1:]]
            options = attributes_of(node)
            self.moved[node.output[0]] = self.moved[source].op(node.op_type, *others, **options)
            return True
        pool = self.pools.get(node.output[0])
        if pool is None and not (source in self.moved and _fits(self.old, node)):
            return False
        result = self._convolved(node, pool)
        self.moved[pool.output[0] if pool is not None else node.output[0]] = result
        return True

    def _convolved(self, proto: onnx.NodeProto, pool: onnx.NodeProto | None) -> Tensor:
        node = Node.of(self.old, proto)
        kernel = (node.given(1).sizes or ())[2:]
        cells = [1] * len(kernel)
        if pool is not None:
            cells = next(list(a.ints) for a in pool.attribute if a.name == "kernel_shape")
        sizes = node.y.sizes_of(range(2, node.y.rank))
        windowed = Windowed(
            windows_of(node, kernel, node.x, node.y),
            cells,
            [size // cell for size, cell in zip(sizes, cells, strict=True)],
        )
        weight, *bias = (self.new.tensor(name) for name in proto.input[1:] if name)
        source = self.moved.get(proto.input[0])
        plain = self.new.tensor(proto.input[0]) if source is None else None
        parts = convolve(windowed, weight, moved=source, plain=plain)
        ends = (node.x.ranked[0], node.y.ranked[1])
        largest = first_largest(parts).known(*windowed.counts, *ends)
        return (largest + bias[0]).known_like(largest) if bias else largest

    def moved_back(self, name: str) -> Tensor:
        return places_last(self.moved[name])
