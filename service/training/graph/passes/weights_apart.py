"""Divides a step: what depends on the weights alone is computed once, not for each part of a batch.

Weights that are reordered, turned or scaled by a norm before the samples meet them are results of
the first graph. The second computes their gradients; those of the parts of a batch add up. The
third goes on from the sums to the gradients of the parameters, which is linear.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

import onnx
from msgspec import Struct

from service.training.graph.blocks.layout import lower
from service.training.graph.builder import Builder
from service.training.graph.differentiate import backward
from service.training.graph.flow import duplicate, flow_from, moving, needed_for, reads
from service.training.graph.node import attributes_of
from service.training.graph.tensor import Tensor

MADE, PART = "hone.weights.", "hone.part."
"""Prefixes of the names of the first graph's results, and of what the third graph is fed."""
MOVES = frozenset(
    ["Gather", "Pad", "ReorderOutput", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze"]
)
"""Operators that only move numbers: those at a gradient's end are applied once, to the sum."""


class Divided(Struct, frozen=True):
    """made: results of the first graph, by the names of the second one's inputs. parts: results of
    the second, by the names of the third one's inputs; those with an axis for samples are joined
    along it, others added up. direct, remade: gradients of parameters that
    the second and the third graph give. read: what the second reads.
    """

    made: dict[str, Tensor]
    read: frozenset[str]
    parts: dict[str, Tensor]
    direct: dict[str, Tensor]
    remade: dict[str, Tensor]


def divide(
    graph: Builder,
    seeds: Mapping[str, Tensor],
    parameters: Sequence[str],
    fed: Collection[str],
    results: Iterable[str],
) -> Divided:
    """Differentiate in two stages.

    fed: the inputs that differ from sample to sample. results: what the second graph gives besides
    gradients. Raises GraphRefused with every node that has no gradient.
    """
    first, second = _stages(graph, parameters, fed)
    active = flow_from(graph, parameters, first)
    read = dict.fromkeys(name for node in second for name in reads(node) if name in active)
    grads = backward(graph, seeds, [*read, *(p for p in parameters if p not in read)], among=second)
    _, behind = needed_for(first, [name for name in read if name not in parameters])
    direct: dict[str, Tensor] = {}
    parts: dict[str, Tensor] = {}
    starts: dict[str, Tensor] = {}
    remade: dict[str, Tensor] = {}
    written = {name: node for node in graph.nodes for name in node.output}
    for name, gradient in grads.items():
        moves = _moves(graph, gradient, written)
        rearranges = any(node.op_type not in ("Reshape", "Unsqueeze") for node in moves)
        if name in parameters and name not in behind and not rearranges:
            product = written.get(_start(gradient, moves))
            is_plain = product is not None and product.op_type == "Gemm" and len(product.input) == 2
            if name in graph.outnumbering and product is not None and is_plain:
                factors, remade[name] = _factors(graph, product, len(parts))
                parts |= factors
            else:
                direct[name] = gradient
        elif name in read:
            own = f"{PART}{len(parts)}"
            parts[own], starts[name] = _before_moves(graph, gradient, moves, own)
    rest = [name for name in parameters if name not in {*direct, *remade}]
    remade |= backward(graph, starts, rest, among=first)
    lower(graph)
    made, read_names = _made(graph, fed, parameters, [*results, *(t.name for t in grads.values())])
    if not made or not remade:  # then one graph is enough
        seen = {name: grads[name] for name in read}
        return Divided({}, read_names, {}, backward(graph, seen, parameters, among=first), {})
    return Divided(made, read_names, parts, direct, remade)


def _stages(
    graph: Builder, parameters: Collection[str], fed: Collection[str]
) -> tuple[list[onnx.NodeProto], list[onnx.NodeProto]]:
    """Nodes that do not depend on samples, and those that do."""
    of_samples = moving(graph.nodes, fed)
    of_samples |= _views(graph, parameters, of_samples)
    return (
        [node for node in graph.nodes if of_samples.isdisjoint(node.output)],
        [node for node in graph.nodes if not of_samples.isdisjoint(node.output)],
    )


def _views(graph: Builder, parameters: Collection[str], of_samples: Collection[str]) -> set[str]:
    """Parameters in other shapes, or matrices turned for products, that only nodes of the second
    graph read. There they are the same memory, and their gradients are those of the parameters,
    without parts of their own.
    """
    readers = _readers_of(graph)
    return {
        node.output[0]
        for node in graph.nodes
        if (node.op_type == "Reshape" and node.input[1] in graph.constants)
        or _turns_for_products(node, readers)
        if node.input[0] in parameters
        and len(readers[node.input[0]]) == 1
        and all(reader.output[0] in of_samples for reader in readers[node.output[0]])
    }


def _readers_of(graph: Builder) -> dict[str, list[onnx.NodeProto]]:
    readers: dict[str, list[onnx.NodeProto]] = defaultdict(list)
    for node in graph.nodes:
        for name in reads(node):
            readers[name].append(node)
    return readers


def _turns_for_products(
    node: onnx.NodeProto, readers: Mapping[str, Sequence[onnx.NodeProto]]
) -> bool:
    """Is it the transposition of a matrix that only products read, or its transposition back? The
    runtime makes it part of the products.
    """
    return _turns(node) and all(
        reader.op_type == "MatMul" or _turns_for_products(reader, readers)
        for reader in readers[node.output[0]]
    )


def _is_product(node: onnx.NodeProto, producers: Mapping[str, onnx.NodeProto]) -> bool:
    """Is it a product that is turned? The runtime then computes it the other way round."""
    before = producers.get(node.input[0])
    return _turns(node) and before is not None and before.op_type == "Gemm"


def _turns(node: onnx.NodeProto) -> bool:
    return node.op_type == "Transpose" and any([*each.ints] == [1, 0] for each in node.attribute)


def _moves(
    graph: Builder, gradient: Tensor, makers: Mapping[str, onnx.NodeProto]
) -> list[onnx.NodeProto]:
    """The last nodes of a gradient that only move its numbers. makers: nodes by their outputs."""
    moves: list[onnx.NodeProto] = []
    node = makers.get(gradient.name)
    while (
        node is not None
        and node.op_type in MOVES
        and not _is_product(node, makers)
        and graph.tensor(node.input[0]).sizes is not None
        and all(name in graph.constants for name in node.input[1:] if name)
    ):
        moves.insert(0, node)
        node = makers.get(node.input[0])
    return moves


def _before_moves(
    graph: Builder, gradient: Tensor, moves: Sequence[onnx.NodeProto], own: str
) -> tuple[Tensor, Tensor]:
    """The tensor that is moved, and the gradient from an input of its shape."""
    start = graph.tensor(_start(gradient, moves))
    moved = graph.input(own, start.dtype, start.shape)
    for node in moves:
        copy = duplicate(node)
        copy.input[0] = moved.name
        moved = graph.foreign(copy, moved, graph.tensor(node.output[0]).ranked)
    return start, moved.known_like(gradient)


def _start(gradient: Tensor, moves: Sequence[onnx.NodeProto]) -> str:
    return moves[0].input[0] if moves else gradient.name


def _factors(
    graph: Builder, product: onnx.NodeProto, number: int
) -> tuple[dict[str, Tensor], Tensor]:
    """Both factors of a product, and the product of inputs of their shapes, whose number of samples
    is open, as a matrix: its parameter's shape would take a copy. number: of the first part.
    """
    factors = [graph.tensor(name) for name in product.input]
    names = [f"{PART}{number}", f"{PART}{number + 1}"]
    shapes = [tuple(n if isinstance(n, int) else None for n in factor.ranked) for factor in factors]
    first, second = (
        graph.input(name, factor.dtype, shape)
        for name, factor, shape in zip(names, factors, shapes, strict=True)
    )
    attributes = attributes_of(product)
    return dict(zip(names, factors, strict=True)), first.op("Gemm", second, **attributes)


def _made(
    graph: Builder, fed: Collection[str], parameters: Sequence[str], results: Iterable[str]
) -> tuple[dict[str, Tensor], frozenset[str]]:
    """What nodes that depend on samples read of what depends on parameters alone."""
    of_samples, readers = moving(graph.nodes, fed), _readers_of(graph)
    for node in graph.nodes:
        if _turns_for_products(node, readers) and node.input[0] in (*parameters, *of_samples):
            of_samples.add(node.output[0])
    fixed = moving(graph.nodes, parameters) - of_samples - set(parameters)
    needed, _ = needed_for(graph.nodes, results)
    second = [node for node in needed if not of_samples.isdisjoint(node.output)]
    written = {name: node for node in graph.nodes for name in node.output}
    read = dict.fromkeys(
        _before_reshape(graph, name, written) if name in fixed else name
        for node in second
        for name in reads(node)
    )
    names = [name for name in read if name in fixed]
    named = {f"{MADE}{number}": graph.tensor(name) for number, name in enumerate(names)}
    return named, frozenset(read)


def _before_reshape(graph: Builder, name: str, producers: Mapping[str, onnx.NodeProto]) -> str:
    """What is reshaped: in the second graph that is free, at the end of the first a copy."""
    node = producers.get(name)
    while node is not None and node.op_type == "Reshape" and node.input[1] in graph.constants:
        name = node.input[0]
        node = producers.get(name)
    return name
