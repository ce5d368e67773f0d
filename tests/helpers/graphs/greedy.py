"""Small files that ask for much: loops, nesting, functions that multiply, many nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
value = helper.make_tensor_value_info
node = helper.make_node


def model(
    nodes: list[onnx.NodeProto],
    constants: dict[str, Any] | None = None,
    functions: list[onnx.FunctionProto] | None = None,
) -> onnx.ModelProto:
    """From x (batch, 4) to y."""
    graph = helper.make_graph(
        nodes,
        "g",
        [value("x", FLOAT, ["batch", 4])],
        [value("y", FLOAT, None)],
        [
            numpy_helper.from_array(np.asarray(each), name)
            for name, each in (constants or {}).items()
        ],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("f", 1)]
    return helper.make_model(graph, opset_imports=opsets, functions=functions or [])


def loop(
    trips: str, constants: dict[str, Any], before: Sequence[onnx.NodeProto] = ()
) -> onnx.ModelProto:
    """before: nodes that may make the trip count."""
    body = helper.make_graph(
        [node("Identity", ["on"], ["go_on"]), node("Relu", ["state"], ["next"])],
        "body",
        [value("step", INT64, []), value("on", BOOL, []), value("state", FLOAT, None)],
        [value("go_on", BOOL, []), value("next", FLOAT, None)],
    )
    return model([*before, node("Loop", [trips, "yes", "x"], ["y"], body=body)], constants)


def nested_ifs(depth: int) -> onnx.NodeProto:
    nodes = [node("Relu", ["x"], ["y"])] if depth == 0 else [nested_ifs(depth - 1)]
    branch = helper.make_graph(nodes, "b", [], [value("y", FLOAT, None)])
    return node("If", ["yes"], ["y"], then_branch=branch, else_branch=branch)


def functions(depth: int, *, calls: int) -> list[onnx.FunctionProto]:
    """Each calls the next so many times; the last is a Relu."""
    made = []
    for level in range(depth):
        inner = ("Relu", "") if level == depth - 1 else (f"f{level + 1}", "f")
        names = ["x", *(f"v{number}" for number in range(calls - 1)), "y"]
        nodes = [
            node(inner[0], [names[at]], [names[at + 1]], domain=inner[1]) for at in range(calls)
        ]
        made.append(
            helper.make_function(
                "f", f"f{level}", ["x"], ["y"], nodes, [helper.make_opsetid("", 17)]
            )
        )
    return made


def in_function(inner: onnx.ModelProto) -> onnx.ModelProto:
    """Calls a function of the nodes, which take the condition `yes` from a constant."""
    yes = node("Constant", [], ["yes"], value=numpy_helper.from_array(np.array(True)))
    opset = helper.make_opsetid("", 17)
    nodes = [yes, *inner.graph.node]
    return model(CALL, {}, [helper.make_function("f", "f0", ["x"], ["y"], nodes, [opset])])


def relus(count: int) -> list[onnx.NodeProto]:
    names = ["x", *(f"v{number}" for number in range(count - 1)), "y"]
    return [node("Relu", [names[at]], [names[at + 1]]) for at in range(count)]


YES = {"yes": np.array(True)}
CALL = [node("f0", ["x"], ["y"], domain="f")]
TRIPS = node("Constant", [], ["n"], value_int=100)
SHAPE = [node("ConstantOfShape", ["shape"], ["c"]), node("Expand", ["c", "shape"], ["y"])]
REFUSED = {
    "a loop whose end the input decides": (lambda: loop("x", YES), "may never end"),
    "a loop without a trip count": (lambda: loop("", YES), "may never end"),
    "a loop that is long": (
        lambda: loop("n", {**YES, "n": np.array(10**9)}),
        "runs 2000000001 nodes",
    ),
    "ifs inside of ifs": (lambda: model([nested_ifs(10)], YES), "deep in each other"),
    "functions that multiply": (lambda: model(CALL, {}, functions(7, calls=10)), "11111111 nodes"),
    "functions that call deep": (
        lambda: model(CALL, {}, functions(40, calls=2)),
        "deep in each other",
    ),
    "many nodes": (lambda: model(relus(100_000)), "has 100000 nodes"),
    "a constant of 3 GB": (
        lambda: model(SHAPE, {"shape": np.array([768, 10**6])}),
        "3072000000 bytes",
    ),
}
