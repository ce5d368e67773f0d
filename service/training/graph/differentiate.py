"""Reverse-mode differentiation: the gradient of a loss with respect to tensors of its graph."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import onnx

from service.training.errors import refusal
from service.training.graph.blocks import pool_rules, rules
from service.training.graph.builder import Builder
from service.training.graph.flow import CONTROL_FLOW, flow_from, name_of
from service.training.graph.gates import gate_of
from service.training.graph.node import GradientRule, Gradients, Node
from service.training.graph.places import total
from service.training.graph.rules import RULES
from service.training.graph.tensor import NotDifferentiable, Tensor
from storage.errors import Problem, pointer

BLOCK_RULES = {**rules.RULES, **pool_rules.RULES}


def backward(
    graph: Builder,
    seeds: Mapping[str, Tensor],
    sources: Iterable[str],
    *,
    among: Sequence[onnx.NodeProto] | None = None,
) -> dict[str, Tensor]:
    """The gradient of each source; zeros where the loss does not depend on it.

    seeds: the known gradients of the tensors that the loss reads. among: the nodes to go through,
    all by default. Raises GraphRefused with every node that has no gradient.
    """
    sources = list(sources)
    nodes = list(graph.nodes) if among is None else among
    active = flow_from(graph, sources, nodes)
    gradients: dict[str, list[Tensor]] = defaultdict(list)
    for name, seed in seeds.items():
        gradients[name].append(seed)
    makers = {name: node for node in nodes for name in node.output}

    def fixed(name: str) -> Tensor | None:
        return None if name in active else graph.tensor(name)

    problems: list[Problem] = []
    for proto in reversed(nodes):
        outputs = [_total(gradients, graph, name) for name in proto.output]
        if not any(outputs) or not active.intersection(proto.output):
            continue
        gate = gate_of(proto, makers, fixed)
        wanted = tuple(
            name in active and (gate is None or gate.at == i) for i, name in enumerate(proto.input)
        )
        node = Node.of(graph, proto, wanted)
        try:
            found = _apply(node, outputs, None if gate is None else gate.rule)
        except NotDifferentiable as error:
            problems.append(_problem(proto, str(error)))
            found = node.inputs  # A placeholder, so that earlier nodes' causes are found too.
        for name, gradient, want in zip(proto.input, found, wanted, strict=False):
            if want and gradient is not None:
                gradients[name].append(gradient)
    if problems:
        raise refusal(problems)
    return {name: _total(gradients, graph, name) or graph.tensor(name).zeros() for name in sources}


def _apply(node: Node, outputs: list[Tensor | None], own: GradientRule | None = None) -> Gradients:
    """Runs the rule, and checks that it returned the wanted gradients. own: the node's own."""
    own = own or node.graph.rules.get(node.proto.output[0])
    name = name_of(node.proto)
    rule = own or RULES.get(name) or BLOCK_RULES.get(name)
    if rule is None:
        raise NotDifferentiable("this operator has no gradient here")
    present = [i for i, g in enumerate(outputs) if g is not None]
    gradients = rule(node, *outputs[: present[-1] + 1])
    for index, (name, want) in enumerate(zip(node.proto.input, node.wanted, strict=True)):
        if want and (index >= len(gradients) or gradients[index] is None):
            raise NotDifferentiable(f'it has no gradient by its input {index}, "{name}"')
    return gradients


def _total(gradients: Mapping[str, list[Tensor]], graph: Builder, name: str) -> Tensor | None:
    parts = gradients.get(name)
    if not parts:
        return None
    return total(parts).known_like(graph.tensor(name))


def _problem(proto: onnx.NodeProto, reason: str) -> Problem:
    way = "with torch.where for If and loops unrolled" if proto.op_type in CONTROL_FLOW else ""
    return Problem(
        pointer("model", "graph", "node", proto.name),
        f'node "{proto.name}" ({name_of(proto)}) lies between trainable parameters and the loss, '
        f"and cannot be trained through: {reason}; freeze what lies below it, or export it "
        f"{way or 'otherwise'}",
    )
