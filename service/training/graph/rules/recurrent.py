"""LSTM, GRU and RNN: a layer's directions, separated and joined again."""

from __future__ import annotations

import numpy as np

from service.training.graph.node import GradientRule, Gradients, Node
from service.training.graph.places import fixed
from service.training.graph.rules.cells import (
    ACTIVATIONS,
    CellGradients,
    Direction,
    gru_direction,
    lstm_direction,
    rnn_direction,
    rows_of,
)
from service.training.graph.rules.matrix import multiply
from service.training.graph.tensor import INT64, NotDifferentiable, Tensor

DEFAULTS = {"RNN": ["Tanh"], "GRU": ["Sigmoid", "Tanh"], "LSTM": ["Sigmoid", "Tanh", "Tanh"]}


def recurrent(node: Node, *gradients: Tensor | None) -> Gradients:
    """Each direction separately; a layer with two has them along an axis of its tensors."""
    _check(node)
    by_y, by_last, by_cell = [*gradients, None, None][:3]
    directions = [
        _direction(node, index, by_y, by_last) for index in range(fixed(node.given(1), 0))
    ]
    found = [_differentiated(node, i, d, by_cell) for i, d in enumerate(directions)]
    return _gathered(list(zip(directions, found, strict=True)))


def _check(node: Node) -> None:
    """Raises NotDifferentiable for forms that no exporter writes."""
    for name in ("clip", "input_forget", "layout"):
        if node.attribute(name):
            raise NotDifferentiable(f"it has {name}")
    if node.optional(7) is not None:
        raise NotDifferentiable("it has peephole weights")
    foreign = set(_activations(node)) - set(ACTIVATIONS)
    if foreign:
        raise NotDifferentiable(f"its activations are {', '.join(sorted(foreign))}")


def _activations(node: Node) -> list[str]:
    given = node.attribute("activations") or []
    names = [name.decode() for name in given]
    return names or DEFAULTS[node.proto.op_type] * fixed(node.given(1), 0)


def _direction(node: Node, index: int, by_y: Tensor | None, by_last: Tensor | None) -> Direction:
    weights, recurrent = _take(node.given(1), index), _take(node.given(2), index)
    size = fixed(weights, 0)
    start = _state(node, index, node.optional(5))
    y = _take(node.output(0), index, axis=1)
    backward = index == 1 or node.attribute("direction", "forward") == "reverse"
    inside = _inside(node, y)
    length = len(DEFAULTS[node.proto.op_type])
    bias = node.optional(3)
    nothing = y.graph.numbers(np.zeros(size), y.dtype)
    of_y = y.zeros() if by_y is None else _take(by_y, index, axis=1)
    of_both = None if bias is None else _take(bias, index)
    return Direction(
        node=node,
        x=node.x,
        weights=weights,
        recurrent=recurrent,
        bias=nothing if of_both is None else of_both.slice([0], [size], [0]),
        recurrent_bias=nothing if of_both is None else of_both.slice([size], [2 * size], [0]),
        before=_before(y, start, inside, backward),
        by_y=of_y if inside is None else of_y * inside,
        by_last=_state(node, index, by_last),
        start=start,
        inside=inside,
        backward=backward,
        activations=_activations(node)[index * length : (index + 1) * length],
    )


def _take(value: Tensor, index: int, axis: int = 0) -> Tensor:
    """One direction's part."""
    if fixed(value, axis) > 1:
        value = value.slice([index], [index + 1], [axis])
    return value.squeeze(axis)


def _state(node: Node, index: int, value: Tensor | None) -> Tensor:
    """One direction's state, (N, H); zeros if it is absent."""
    if value is not None:
        return _take(value, index)
    recurrent = node.given(2)
    hidden = fixed(recurrent, 2)
    samples = node.x.shape[1] if node.x.shape is not None else None
    shape = node.graph.vector(node.x.size(1), hidden)
    zero = node.graph.numbers(0, recurrent.dtype)
    return zero.op("Expand", shape).known(samples, hidden)


def _inside(node: Node, y: Tensor) -> Tensor | None:
    """Which steps are within each sequence, (T, N, 1)."""
    lengths = node.optional(4)
    if lengths is None:
        return None
    numbers = node.graph.numbers
    steps = node.graph.op("Range", numbers(0, INT64), y.size(0).squeeze(0), numbers(1, INT64))
    return (steps.unsqueeze(1, 2) < lengths.cast(INT64).unsqueeze(0, 2)).cast_like(y)


def _before(y: Tensor, start: Tensor, inside: Tensor | None, backward: bool) -> Tensor:
    """The state before each step: the output of the previous step in its direction."""
    first = start.unsqueeze(0)
    far = 1 << 60
    if not backward:
        parts = [first, y.slice([0], [-1], [0])]
        return y.graph.op("Concat", *parts, axis=0).known_like(y)
    rest = y.slice([1], [far], [0])
    if inside is not None:  # A sequence that ends early starts later.
        rest = rest + (1 - inside.slice([1], [far], [0])) * first
    return y.graph.op("Concat", rest, first, axis=0).known_like(y)


def _differentiated(node: Node, index: int, d: Direction, by_cell: Tensor | None) -> CellGradients:
    if node.proto.op_type == "RNN":
        return rnn_direction(d)
    if node.proto.op_type == "GRU":
        return gru_direction(d)
    start = _state(node, index, node.optional(6))
    return lstm_direction(d, start, _state(node, index, by_cell))


def _gathered(found: list[tuple[Direction, CellGradients]]) -> Gradients:
    """Gradients of the node's inputs; all except that of x have an axis of directions."""
    by_x = [f.by_input @ d.weights for d, f in found]
    by_weights = [multiply(rows_of(f.by_input), rows_of(d.x), ta=True) for d, f in found]
    by_recurrent = [
        f.by_recurrent or multiply(rows_of(f.by_state), rows_of(d.before), ta=True)
        for d, f in found
    ]
    by_bias = [
        d.x.graph.op("Concat", f.by_input.sum([0, 1]), f.by_state.sum([0, 1]), axis=0)
        for d, f in found
    ]
    by_start = [f.by_start for _, f in found]
    by_cell = [f.by_start_cell for _, f in found if f.by_start_cell is not None]
    return [
        sum(by_x[1:], by_x[0]),
        _stacked(by_weights),
        _stacked(by_recurrent),
        _stacked(by_bias),
        None,
        _stacked(by_start),
        _stacked(by_cell) if by_cell else None,
    ]


def _stacked(parts: list[Tensor]) -> Tensor:
    rows = [part.unsqueeze(0) for part in parts]
    return rows[0] if len(rows) == 1 else rows[0].graph.op("Concat", *rows, axis=0)


RULES: dict[str, GradientRule] = {"GRU": recurrent, "LSTM": recurrent, "RNN": recurrent}
