"""A Scan whose body is written as a function of tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import onnx
from onnx import helper

from service.training.graph.builder import Builder
from service.training.graph.tensor import Tensor

Step: TypeAlias = tuple[list[Tensor], list[Tensor]]
"""New states, and the collected results."""
Body: TypeAlias = Callable[[list[Tensor], list[Tensor], list[Tensor]], Step]
"""Takes states, the slices of one step, and captured tensors."""


def scan(
    body: Body,
    *,
    states: Sequence[Tensor],
    slices: Sequence[Tensor],
    captured: Sequence[Tensor] = (),
    backward: bool,
) -> tuple[list[Tensor], list[Tensor]]:
    """The last states, and each step's collected results, stacked along axis 0 like the slices.

    slices: iterated along axis 0, from its end if backward.
    """
    graph = slices[0].graph
    name = graph.fresh("Scan")
    inner = Builder(
        helper.make_model(
            helper.make_graph([], name, [], []),
            opset_imports=[helper.make_opsetid("", graph.opset)],
        ),
        prefix=f"{name}/",
    )
    fed = [
        *(inner.input(inner.fresh("state"), t.dtype, t.shape) for t in states),
        *(inner.input(inner.fresh("slice"), t.dtype, t.shape and t.shape[1:]) for t in slices),
    ]
    outer = [inner.input(t.name, t.dtype, t.shape) for t in captured]
    after, collected = body(fed[: len(states)], fed[len(states) :], outer)
    returned = [*after, *collected]
    node = helper.make_node(
        "Scan",
        [t.name for t in (*states, *slices)],
        [graph.fresh("Scan") for _ in returned],
        name=name,
        body=_as_graph(inner, name, fed, returned),
        num_scan_inputs=len(slices),
        scan_input_directions=[int(backward)] * len(slices),
        scan_output_directions=[int(backward)] * len(collected),
    )
    steps = slices[0].shape[0] if slices[0].shape else None
    types = [(t.dtype, t.shape) for t in states]
    types += [(t.dtype, None if t.shape is None else (steps, *t.shape)) for t in collected]
    results = graph.append(node, types)
    return results[: len(states)], results[len(states) :]


def _as_graph(
    inner: Builder, name: str, fed: Sequence[Tensor], outputs: Sequence[Tensor]
) -> onnx.GraphProto:
    """The body's graph. Every result needs its own name; one that has none passes an Identity."""
    nodes = list(inner.nodes)
    producers = {name: node for node in nodes for name in node.output}
    names = [t.name for t in outputs]
    results = []
    for t in outputs:
        if t.name in producers and names.count(t.name) == 1:
            results.append(t.name)
            continue
        results.append(inner.fresh("result"))
        nodes.append(helper.make_node("Identity", [t.name], [results[-1]], name=results[-1]))
    return helper.make_graph(
        nodes,
        name,
        [helper.make_tensor_value_info(t.name, t.dtype, t.shape) for t in fed],
        [
            helper.make_tensor_value_info(result, t.dtype, t.shape)
            for t, result in zip(outputs, results, strict=True)
        ],
        list(inner.constants.values()),
    )
