"""Calls of numpy's operators on arrays, in place, as an ONNX graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper

from service.training.engine import Array
from service.training.optimizer.rules import Do


def sum_row_squares(array: Array, into: Array) -> None:
    """array: [rows, width]; into: [rows, 1]."""
    np.sum(np.multiply(array, array), axis=1, keepdims=True, out=into)


OPERATORS: dict[Callable[..., object], tuple[str, dict[str, Any]]] = {
    np.add: ("Add", {}),
    np.subtract: ("Sub", {}),
    np.multiply: ("Mul", {}),
    np.divide: ("Div", {}),
    np.sqrt: ("Sqrt", {}),
    np.sign: ("Sign", {}),
    np.clip: ("Clip", {}),
    np.copyto: ("Expand", {}),
    sum_row_squares: ("ReduceSumSquare", {"axes": [1], "keepdims": 1}),
}
"""Operators of ONNX and their attributes."""


class CallGraph:
    """read, written: arrays by the names of the graph's inputs and outputs. A result that the calls
    do not write is no output.

    calls: makes them by `do`; the last argument of each is the array that it writes.
    """

    def __init__(self, calls: Callable[[Do], None], results: Sequence[Array]) -> None:
        self.read: dict[str, Array] = {}
        self._names: dict[int, str] = {}
        self._nodes: list[onnx.NodeProto] = []
        self._seen: list[Array] = []  # numbers of arrays stay theirs while these exist
        calls(self._do)
        names = {self._names.get(id(result)): result for result in results}
        self.written = {name: array for name, array in names.items() if name and name[0] == "w"}

    def model(self) -> bytes:
        inputs, outputs = (
            [
                helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, array.shape)
                for name, array in names.items()
            ]
            for names in (self.read, self.written)
        )
        graph = helper.make_graph(self._nodes, "calls", inputs, outputs)
        opsets = [helper.make_opsetid("", 17)]
        proto = helper.make_model(graph, opset_imports=opsets, ir_version=8)
        return bytes(proto.SerializeToString())

    def _do(self, operator: Callable[..., object], *arguments: Array) -> None:
        result = f"w{len(self._nodes)}"
        *read, into = arguments
        names = [self._name(value) for value in read]
        if operator is np.copyto:
            into, value = arguments
            shape = helper.make_node("Constant", [], [f"shape of {result}"], value_ints=into.shape)
            self._nodes.append(shape)
            names = [self._name(value), *shape.output]
        kind, attributes = OPERATORS[operator]
        self._nodes.append(helper.make_node(kind, names, [result], **attributes))
        self._seen += arguments
        self._names[id(into)] = result

    def _name(self, array: Array) -> str:
        if id(array) not in self._names:
            name = f"r{len(self.read)}"
            self._names[id(array)], self.read[name] = name, array
        return self._names[id(array)]
