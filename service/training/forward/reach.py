"""Which of the chosen parameters a gradient reaches, and what blocks the others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import onnx

from service.training.errors import GraphRefused
from service.training.forward.graph import Graph, is_default
from service.training.forward.refusals import has_gradient, is_quantized, quantized_layers, remedy
from service.training.forward.trainable import matching
from service.training.forward.untrained import quoted
from service.training.graph.flow import reads
from service.training.graph.step import differentiate
from storage.errors import Problem, pointer


def keep_reached(
    graph: Graph,
    names: Sequence[str],
    patterns: Sequence[str] | None,
    notes: list[str],
    *,
    end: str,
    through_quantized: bool = False,
) -> tuple[tuple[str, ...], list[Problem]]:
    """The names that `end` depends on differentiably, and what is wrong with the rest.

    A pattern is wrong if all its parameters are blocked, and so is a default choice with quantized
    operators; any other parameter without a gradient is left out, with a note. through_quantized:
    gradients may go through quantized operators, as if these did not round.
    """
    live = _reached(graph, names, end)
    stops = {name: _stops(graph, name) for name in names if name not in live}
    problems = {
        node.name: _stop_problem(node)
        for nodes in stops.values()
        for node in nodes
        if is_quantized(node)
    }
    if not through_quantized:
        moving = graph.flow(names)
        problems |= {
            node.name: _stop_problem(node)
            for node in graph.proto.node
            if is_quantized(node) and not moving.isdisjoint(reads(node))
        }
    if patterns is None:
        # Without named parameters, a user would believe that the whole model trains.
        problems |= {node.name: _stop_problem(node) for node in quantized_layers(graph)}
    for index, pattern in enumerate(patterns or ()):
        chosen = matching(names, pattern)
        matched = [name for name in names if name in chosen]
        if matched and live.isdisjoint(matched):
            problems[f"/spec/trainable/{index}"] = _pattern_problem(index, matched, stops)
    if not live and not problems:
        problems[""] = Problem(
            "/model/graph", f'no parameter has a smooth path to "{end}"; export a float model'
        )
    if not problems:
        notes += _unreached(stops)
    return tuple(name for name in names if name in live), list(problems.values())


def blocked(
    graph: Graph, names: Sequence[str], end: str, *, has_shapes: bool
) -> tuple[Problem, ...]:
    """Every node between the parameters and `end` that has no gradient.

    has_shapes: of all tensors. Without them only operators that never have one are reported.
    """
    if not names:
        return ()
    if not has_shapes:
        moving = graph.flow(names)
        return tuple(
            _stop_problem(node)
            for node in graph.proto.node
            if not moving.isdisjoint(node.output)
            and not has_gradient(node)
            and not is_default(node, "If")  # perhaps its condition is a constant
        )
    try:
        differentiate(graph.model, loss=end, parameters=names)
    except GraphRefused as refused:
        return refused.problems
    return ()


def _reached(graph: Graph, names: Sequence[str], end: str) -> set[str]:
    """The names from which a gradient path leads to `end`."""
    moving = graph.flow(names)
    wanted, read = {end}, set[str]()
    for node in reversed(graph.proto.node):
        if not moving.isdisjoint(wanted.intersection(node.output)):
            through = moving.intersection(reads(node))
            wanted |= through
            read |= through
    return read.intersection(names)


def _stops(graph: Graph, name: str) -> list[onnx.NodeProto]:
    """Nodes that read tensors depending on the parameter, but pass on no gradient."""
    moving = graph.flow([name])
    return [
        node
        for node in graph.proto.node
        if not moving.isdisjoint(reads(node)) and moving.isdisjoint(node.output)
    ]


def _stop_problem(node: onnx.NodeProto) -> Problem:
    place = pointer("model", "graph", "node", node.name)
    return Problem(place, f'node "{node.name}" ({node.op_type}) {remedy(node)}')


def _pattern_problem(
    index: int, matched: Sequence[str], stops: dict[str, list[onnx.NodeProto]]
) -> Problem:
    nodes = {node.name: node for name in matched for node in stops[name]}
    return Problem(
        pointer("spec", "trainable", index),
        f"the loss does not depend smoothly on {', '.join(matched)}: {_end(nodes.values())}; "
        "choose parameters above it",
    )


def _unreached(stops: dict[str, list[onnx.NodeProto]]) -> list[str]:
    ends: dict[str, list[str]] = {}
    for name, nodes in stops.items():
        ends.setdefault(_end(nodes), []).append(name)
    return [
        f"{quoted(names)} {'do' if len(names) > 1 else 'does'} not train: {end}"
        for end, names in ends.items()
    ]


def _end(nodes: Iterable[onnx.NodeProto]) -> str:
    where = ", ".join(f'"{node.name}" ({node.op_type})' for node in nodes)
    return f"the gradient ends at node {where}" if where else "nothing of it reaches the output"
