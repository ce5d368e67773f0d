"""Writes small subgraphs: `b.add(b.relu(x), b.number(1.0))` gives the result's name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from service.training.forward.graph import Graph


class Builder:
    """Collects the nodes that take the place of one node."""

    def __init__(self, graph: Graph, prefix: str) -> None:
        self.graph = graph
        self.nodes: list[onnx.NodeProto] = []
        self._prefix = prefix

    def op(self, op_type: str, *inputs: str, outputs: int = 1, **attributes: Any) -> str:
        """Append a node; returns the name of its first output."""
        hint = f"{self._prefix}/{op_type}"
        names = [self.graph.fresh(f"{hint}_output") for _ in range(outputs)]
        name = self.graph.fresh(hint)
        node = onnx.helper.make_node(op_type, list(inputs), names, name=name, **attributes)
        self.nodes.append(node)
        return names[0]

    def finish(self, result: str, output: str) -> list[onnx.NodeProto]:
        """Let the last node, which made `result`, write the replaced node's output instead."""
        for node in self.nodes:
            if result in node.output:
                node.output[:] = [output if name == result else name for name in node.output]
                return self.nodes
        self.op("Identity", result)
        self.nodes[-1].output[0] = output
        return self.nodes

    def constant(self, value: NDArray[np.generic]) -> str:
        """A new initializer."""
        return self.graph.add_initializer(f"{self._prefix}/constant", value)

    def number(self, value: float) -> str:
        """A float32 scalar."""
        return self.constant(np.array(value, np.float32))

    def ints(self, values: Sequence[int]) -> str:
        """An int64 vector: axes, shapes."""
        return self.constant(np.array(values, np.int64))

    def add(self, a: str, b: str) -> str:
        return self.op("Add", a, b)

    def sub(self, a: str, b: str) -> str:
        return self.op("Sub", a, b)

    def mul(self, a: str, b: str) -> str:
        return self.op("Mul", a, b)

    def div(self, a: str, b: str) -> str:
        return self.op("Div", a, b)

    def scale(self, a: str, factor: float) -> str:
        """A tensor times a number."""
        return a if factor == 1.0 else self.mul(a, self.number(factor))

    def relu(self, a: str) -> str:
        return self.op("Relu", a)

    def neg(self, a: str) -> str:
        return self.op("Neg", a)

    def exp(self, a: str) -> str:
        return self.op("Exp", a)

    def clip(self, a: str, low: float, high: float) -> str:
        return self.op("Clip", a, self.number(low), self.number(high))

    def reshape(self, a: str, shape: Sequence[int]) -> str:
        return self.op("Reshape", a, self.ints(shape))

    def transpose(self, a: str, perm: Sequence[int]) -> str:
        """Nothing if no axis moves: the engine takes every Transpose for a swap."""
        if list(perm) == sorted(perm):
            return a
        return self.op("Transpose", a, perm=list(perm))

    def reduce(self, op_type: str, a: str, axes: Sequence[int], *, keepdims: bool) -> str:
        """ReduceSum or ReduceMean; its axes are an input since opset 13 or 18."""
        since = 13 if op_type == "ReduceSum" else 18
        if self.graph.opset >= since:
            return self.op(op_type, a, self.ints(axes), keepdims=int(keepdims))
        return self.op(op_type, a, axes=list(axes), keepdims=int(keepdims))
