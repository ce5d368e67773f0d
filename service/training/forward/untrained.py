"""The parameters of a graph: which train, and why others do not although nobody excluded them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

import onnx
from msgspec import Struct

from service.training.forward.graph import FLOAT, Graph, input_at, is_default
from service.training.forward.partition import Partition
from service.training.forward.refusals import has_gradient, is_quantized, remedy
from service.training.forward.weights import (
    LINEAR,
    PASS_THROUGH,
    first_reader,
    is_mask,
    is_statistic,
    is_weight,
    other_precisions,
)
from service.training.graph.builder import STANDARD
from service.training.graph.flow import nodes_of, subgraphs
from service.training.protocol.messages.preparation import Parameter

NAMES_IN_A_NOTE = 5
_WITH_BIAS = ("Conv", "ConvTranspose", "Gemm")


class Inert(Struct, frozen=True):
    """Learned values outside weight slots. node: the reader in the main graph."""

    name: str
    shape: tuple[int, ...]
    node: onnx.NodeProto

    @property
    def is_stuck(self) -> bool:
        """Would it not train even if it were named?"""
        return not has_gradient(self.node)


def find(graph: Graph) -> list[Inert]:
    """Inputs of fused and foreign operators and of subgraphs, and tables in unusual positions.

    Matrices and larger tensors; vectors of other domains' operators too. Also weights of other
    precisions than float32, which may come before the trainable part.
    """
    others = [
        Inert(name, tuple(graph.initializers[name].dims), first_reader(graph, name))
        for name in other_precisions(graph)
    ]
    named = [
        Inert(name, tuple(tensor.dims), first_reader(graph, name))
        for name, tensor in graph.initializers.items()
        if tensor.data_type == FLOAT and name not in graph.constants and graph.consumers(name)
        if not (is_weight(graph, name) or is_statistic(graph, name) or is_mask(graph, name))
    ]
    inner = [
        Inert(tensor.name, tuple(tensor.dims), node)
        for node in graph.proto.node
        for inside in nodes_of(node)
        for branch in subgraphs(inside)
        for tensor in branch.initializer
        if tensor.data_type == FLOAT
    ]
    return [*others, *(parameter for parameter in (*named, *inner) if _is_learned(parameter))]


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


def notes(inert: Sequence[Inert]) -> list[str]:
    """A sentence for each operator."""
    causes: dict[str, list[str]] = {}
    for parameter in inert:
        causes.setdefault(_cause(parameter), []).append(parameter.name)
    return [
        f"{quoted(names)} {'do' if len(names) > 1 else 'does'} not train{cause}"
        for cause, names in causes.items()
    ]


def lone_biases(graph: Graph, names: Sequence[str]) -> list[str]:
    """A note on biases that train while the matrix before them does not."""
    pairs = [
        f'"{name}" trains without its matrix "{matrix}"'
        for name in names
        for matrix in _matrices(graph, name)
        if matrix not in names and is_weight(graph, matrix)
    ]
    if not pairs:
        return []
    return [f"{_first(pairs)}: no pattern of trainable matches the matrix"]


def quoted(names: Sequence[str]) -> str:
    """The first names, and how many more there are."""
    return _first([f'"{name}"' for name in names])


def _first(parts: Sequence[str]) -> str:
    more = len(parts) - NAMES_IN_A_NOTE
    shown = ", ".join(parts[:NAMES_IN_A_NOTE])
    return f"{shown} and {more} more" if more > 0 else shown


def _is_learned(inert: Inert) -> bool:
    foreign = inert.node.domain not in STANDARD and not is_quantized(inert.node)
    return len(inert.shape) >= (1 if foreign else 2) and prod(inert.shape) > 1


def _cause(inert: Inert) -> str:
    node = inert.node
    if inert.is_stuck:
        return f': node "{node.name}" ({node.op_type}) {remedy(node)}'
    return (
        f' by default: node "{node.name}" ({node.op_type}) reads numbers of the program as often '
        "as weights; name them in trainable to train them"
    )


def _matrices(graph: Graph, bias: str) -> Iterator[str]:
    """The initializers read by the product that the bias is added to."""
    for node in graph.consumers(bias):
        if is_default(node, *_WITH_BIAS) and input_at(node, 2) == bias:
            yield graph.origin(node.input[1], *PASS_THROUGH)
        elif is_default(node, "Add"):
            makers = [graph.producer(name) for name in node.input]
            for maker in makers:
                if maker is not None and is_default(maker, *LINEAR):
                    yield from (graph.origin(name, *PASS_THROUGH) for name in maker.input[:2])
