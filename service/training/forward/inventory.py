"""The float parameters of a graph, and which side of the cut they are on."""

from __future__ import annotations

from collections.abc import Sequence

from service.training.forward.graph import FLOAT, Graph
from service.training.forward.partition import Partition
from service.training.forward.untrained import Inert
from service.training.forward.weights import is_statistic, is_weight
from service.training.protocol.messages.preparation import Parameter


def parameters(
    graph: Graph, names: Sequence[str], halves: Partition | None, inert: Sequence[Inert]
) -> tuple[Parameter, ...]:
    """In graph order, those of subgraphs last. inert: initializers in no weight slot."""
    above = graph.initializers if halves is None else halves.suffix.initializers
    dims = {name: graph.initializers[name].dims for name in (*names, *frozen(graph, names))}
    shapes = {name: tuple(dims[name]) for name in graph.initializers if name in dims}
    shapes |= {parameter.name: parameter.shape for parameter in inert if parameter.name not in dims}
    below = {name for name in shapes if name in graph.initializers and name not in above}
    if halves is not None:
        kept = {node.name for node in halves.suffix.proto.node}
        below |= {parameter.name for parameter in inert if parameter.node.name not in kept}
    return tuple(
        Parameter(name, shape, trains=name in names, below=name in below)
        for name, shape in shapes.items()
    )


def frozen(graph: Graph, names: Sequence[str]) -> tuple[str, ...]:
    """Weights that are not among the names, and statistics."""
    return tuple(
        name
        for name, tensor in graph.initializers.items()
        if tensor.data_type == FLOAT
        and tensor.dims
        and name not in names
        and (is_weight(graph, name) or is_statistic(graph, name))
    )
