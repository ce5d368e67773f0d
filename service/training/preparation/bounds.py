"""Static bounds on the work of an uploaded graph, checked before any of it is run."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import onnx

from service.training.errors import refusal, refuse
from service.training.graph.node import whole_numbers
from service.training.graph.passes.inference import without_weights
from service.training.limits import memory_limit_bytes
from storage.errors import Problem, pointer

MAX_NODES = 20_000
"""Maximum nodes, including every branch and every function call. The largest networks that people
train on a device have a few thousand."""
MAX_EXECUTED_NODES = 1_000_000
"""Maximum nodes executed for one row, counting loops by their trip counts."""
MAX_DEPTH = 8
"""Maximum nesting of control flow and function calls."""
MAX_VALUE_BYTES = 2**30
"""Maximum size of a tensor, for one row."""
_TOO_DEEP = "functions and control flow lie more than {} deep in each other; flatten the model"

Size = tuple[int, int]
"""Number of nodes, and of node executions."""


def require_bounded(model: onnx.ModelProto, root: str = "/model") -> None:
    """Raises GraphRefused if checking the model could take excessive time or memory.

    root: the file's place in the upload, a JSON pointer.
    """
    place = root + "/graph"
    nodes, executed = _Counter(model.functions, place).graph(model.graph, {}, 0)
    if nodes > MAX_NODES:
        raise refuse(place, f"the model has {nodes} nodes with its functions, at most {MAX_NODES}")
    if executed > MAX_EXECUTED_NODES:
        raise refuse(place, f"the model runs {executed} nodes a row, at most {MAX_EXECUTED_NODES}")
    _require_small_values(model, place)


class _Counter:
    """Counts nodes; each function's body is analysed once, however often it is called.

    place: JSON pointer of the graph.
    """

    def __init__(self, functions: Iterable[onnx.FunctionProto], place: str) -> None:
        self._place = place
        self._functions = {(function.domain, function.name): function for function in functions}
        self._known: dict[tuple[str, str], Size] = {}

    def graph(self, graph: onnx.GraphProto, constants: Mapping[str, int], depth: int) -> Size:
        """constants: known integers by name, for looking up trip counts."""
        known = {**constants, **whole_numbers(graph.node, graph.initializer)}
        return self._nodes(graph.node, known, depth)

    def _nodes(
        self, nodes: Iterable[onnx.NodeProto], constants: Mapping[str, int], depth: int
    ) -> Size:
        if depth > MAX_DEPTH:
            raise refuse(self._place, _TOO_DEEP.format(MAX_DEPTH))
        total = executed = 0
        for node in nodes:
            inner, inner_executed = self._inside(node, constants, depth)
            total += 1 + inner
            executed += 1 + inner_executed * self._trips(node, constants)
        return total, executed

    def _inside(self, node: onnx.NodeProto, constants: Mapping[str, int], depth: int) -> Size:
        key = (node.domain, node.op_type)
        sizes = [
            self.graph(graph, constants, depth + 1)
            for attribute in node.attribute
            for graph in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs)
        ]
        if key in self._functions:
            sizes.append(self._function(key, depth + 1))
        return sum(nodes for nodes, _ in sizes), sum(executed for _, executed in sizes)

    def _function(self, key: tuple[str, str], depth: int) -> Size:
        if key not in self._known:
            nodes = self._functions[key].node
            self._known[key] = self._nodes(nodes, whole_numbers(nodes), depth)
        return self._known[key]

    def _trips(self, node: onnx.NodeProto, constants: Mapping[str, int]) -> int:
        """How often a node's graphs run. A Scan's length is that of its input, for one row."""
        if node.op_type != "Loop" or node.domain not in ("", "ai.onnx"):
            return 1
        trips = constants.get(node.input[0]) if node.input else None
        if trips is None:
            raise refuse(
                self._place,
                f'node "{node.name}" (Loop) has no trip count that is a constant of the graph '
                "around it, so it may never end; export the model with the loop unrolled",
            )
        return max(0, trips)


def _require_small_values(model: onnx.ModelProto, place: str) -> None:
    limit_bytes = memory_limit_bytes()
    allowed = MAX_VALUE_BYTES if limit_bytes is None else min(MAX_VALUE_BYTES, limit_bytes // 2)
    try:
        inferred = onnx.shape_inference.infer_shapes(without_weights(model), data_prop=True)
    except (onnx.shape_inference.InferenceError, onnx.checker.ValidationError, ValueError):
        return  # Later checks report what is wrong with it.
    problems = [
        Problem(
            place + pointer("value", value.name),
            f'"{value.name}" takes {size} bytes for one row by its shape, at most {allowed}',
        )
        for value in (*inferred.graph.value_info, *inferred.graph.output)
        if (size := _size_bytes(value)) > allowed
    ]
    if problems:
        raise refusal(problems)


def _size_bytes(value: onnx.ValueInfoProto) -> int:
    """Size of one row; unknown dimensions count as 1."""
    kind = value.type.tensor_type
    try:
        item_bytes = int(onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type).itemsize)
    except KeyError:
        return 0
    items: int = math.prod(max(1, dim.dim_value) for dim in kind.shape.dim)
    return item_bytes * items
