"""Which initializers train."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from math import prod

from service.training.errors import refusal, refuse
from service.training.forward.graph import FLOAT, Graph, is_default
from service.training.forward.refusals import is_quantized, remedy, takes_adapters
from service.training.forward.weights import (
    LINEAR,
    adopt_constants,
    first_reader,
    is_mask,
    is_named_by_pytorch,
    is_statistic,
    is_weight,
    other_precisions,
)
from service.training.graph.builder import STANDARD
from service.training.graph.flow import reads
from storage.errors import Problem, counted

LAYERS = (*LINEAR, "DeformConv", "GRU", "LSTM", "RNN")
"""Operators that count as a layer; those after one, up to the next, belong to it."""


def select(graph: Graph, patterns: Sequence[str] | None) -> tuple[str, ...]:
    """Names of the initializers that train, in graph order.

    patterns: names or globs over them, `last:N` for the last N layers, `head` for the last; None
    for every weight. Raises GraphRefused with all patterns that match nothing.
    """
    if patterns is None or not any(is_weight(graph, name) for name in graph.initializers):
        _refuse_other_precisions(graph)
    adopt_constants(graph)
    if patterns is None:
        return _weights(graph)
    names = _matching(graph, patterns)
    _refuse_other_precisions(graph, names)
    return names


def matching(names: Iterable[str], pattern: str) -> set[str]:
    """The name equal to the pattern, else those that match the glob."""
    every = set(names)
    return {pattern} if pattern in every else {name for name in every if fnmatchcase(name, pattern)}


def _weights(graph: Graph) -> tuple[str, ...]:
    names = tuple(name for name in graph.initializers if is_weight(graph, name))
    if not names:
        raise refuse("/model/graph/initializer", _nothing_trains(graph))
    return names


def _nothing_trains(graph: Graph) -> str:
    holders = [n for n in graph.proto.node if is_quantized(n) or n.domain not in STANDARD]
    if holders:
        node = min(holders, key=takes_adapters)
        why = f'node "{node.name}" ({node.op_type}) {remedy(node)}'
        return f"the graph has no float32 weight that trains: {why}"
    arrays = [name for name in _nameable(graph) if not _is_number(graph, name)]
    single = next((name for name in arrays if prod(graph.initializers[name].dims) == 1), None)
    if single is None:
        return (
            "the graph has no float32 weight that could train; export the model with its "
            "parameters as initializers"
        )
    return (
        f'no float32 weight of the graph trains by default: "{single}" has one element, which may '
        "be a number of the program; name it in trainable to train it"
    )


def _nameable(graph: Graph) -> list[str]:
    """The initializers that may be named to train."""
    return [
        name
        for name, tensor in graph.initializers.items()
        if tensor.data_type == FLOAT
        and name not in graph.constants
        and not is_statistic(graph, name)
        and not is_mask(graph, name)
    ]


def _is_number(graph: Graph, name: str) -> bool:
    """Is it without axes, and may be a number of the program? It trains by its own name alone."""
    is_named = name in graph.parameters or is_named_by_pytorch(graph.model, name)
    return not graph.initializers[name].dims and not is_named


def _matching(graph: Graph, patterns: Sequence[str]) -> tuple[str, ...]:
    names = _nameable(graph)
    others = [name for name in names if not _is_number(graph, name)]
    chosen: set[str] = set()
    problems = []
    for index, pattern in enumerate(patterns):
        matched = {pattern} if pattern in names else matching(others, pattern)
        if not matched and (count := _layer_count(pattern)):
            matched = last_layers(graph, count)
        if not matched:
            problems.append(Problem(f"/spec/trainable/{index}", _unmatched(pattern, names)))
        chosen |= matched
    if not patterns:
        problems.append(Problem("/spec/trainable", "the list is empty; leave it out to train all"))
    if problems:
        raise refusal(problems)
    return tuple(name for name in names if name in chosen)


def _layer_count(pattern: str) -> int:
    """The number of last layers that the pattern selects, 0 if it is a glob."""
    if pattern == "head":
        return 1
    match = re.fullmatch(r"last:([1-9][0-9]{0,5})", pattern)
    return int(match[1]) if match else 0


def last_layers(graph: Graph, count: int) -> set[str]:
    """The weights read from the `count`-th last layer on, in graph order.

    A layer is an operator with a matrix or a kernel that trains: a convolution, a product, a
    recurrence. Norms and biases after it belong to it.
    """
    first = {name: first_reader(graph, name) for name in _weights(graph)}
    places = {node.name: place for place, node in enumerate(graph.proto.node)}
    layers = sorted({places[node.name] for node in first.values() if is_default(node, *LAYERS)})
    begin = layers[-count] if len(layers) >= count else 0
    return {name for name, node in first.items() if places[node.name] >= begin}


def _unmatched(pattern: str, names: Sequence[str]) -> str:
    near = difflib.get_close_matches(pattern.strip("*"), names, n=5, cutoff=0.3) or names[:5]
    nearest = f"the nearest names: {', '.join(near)}" if near else "the graph has none"
    return f'"{pattern}" matches no float32 parameter; {nearest}'


def _refuse_other_precisions(graph: Graph, names: Sequence[str] | None = None) -> None:
    """Raises GraphRefused if weights of another precision are to train, or come after the names."""
    wrong = other_precisions(graph)
    if names is not None:
        moving = graph.flow(names)
        wrong = {
            name: dtype
            for name, dtype in wrong.items()
            if any(not moving.isdisjoint(reads(node)) for node in graph.consumers(name))
        }
    if wrong:
        name, dtype = next(iter(wrong.items()))
        raise refuse(
            "/model/graph/initializer",
            f'it has {counted(len(wrong), "weight")} of {dtype}, such as "{name}"; '
            "training needs float32: export the model after model.float(), or train only "
            "parameters that lie above them",
        )
