"""LSTM, GRU and RNN: a layer's directions, separated and joined again."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from service.training.graph.node import GradientRule, Gradients, Node
from service.training.graph.places import fixed, joined
from service.training.graph.rules.cells import (
    SLOPES,
    Direction,
    DirectionGradients,
    gru_direction,
    rnn_direction,
)
from service.training.graph.rules.lstm import lstm_direction
from service.training.graph.tensor import INT64, NotDifferentiable, Tensor

DEFAULTS = {"RNN": ["Tanh"], "GRU": ["Sigmoid", "Tanh"], "LSTM": ["Sigmoid", "Tanh", "Tanh"]}


def recurrent(node: Node, *gradients: Tensor | None) -> Gradients:
    """Each direction separately; a layer with two has them along an axis of its tensors."""
    _check(node)
    by_y, by_last, by_cell = [*gradients, None, None][:3]
    directions = [
        _direction(node, index, by_y, by_last) for index in range(fixed(node.given(1), 0))
    ]
    if node.proto.op_type == "LSTM":
        return _gathered(_lstm(node, directions, by_cell))
    rule = rnn_direction if node.proto.op_type == "RNN" else gru_direction
    return _gathered([rule(d) for d in directions])


def _check(node: Node) -> None:
    """Raises NotDifferentiable for forms that no exporter writes."""
    for name in ("clip", "input_forget", "layout"):
        if node.attribute(name):
            raise NotDifferentiable(f"it has {name}")
    if node.optional(7) is not None:
        raise NotDifferentiable("it has peephole weights")
    foreign = set(_activations(node)) - set(SLOPES)
    if foreign:
        raise NotDifferentiable(f"its activations are {', '.join(sorted(foreign))}")


def _activations(node: Node) -> list[str]:
    names_in = node.attribute("activations") or []
    names = [name.decode() for name in names_in]
    return names or DEFAULTS[node.proto.op_type] * fixed(node.given(1), 0)


def _direction(node: Node, index: int, by_y: Tensor | None, by_last: Tensor | None) -> Direction:
    weights, recurrent = _take(node.given(1), index), _take(node.given(2), index)
    size = fixed(weights, 0)
    y = _take(node.output(0), index, axis=1)
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
        y=y,
        by_y=of_y if inside is None else of_y * inside,
        by_last=_state(node, index, by_last),
        start=_state(node, index, node.optional(5)),
        inside=inside,
        backward=index == 1 or node.attribute("direction", "forward") == "reverse",
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


def _lstm(
    node: Node, directions: Sequence[Direction], by_cell: Tensor | None
) -> list[DirectionGradients]:
    """The operator's outputs are computed anew, as its kernel keeps none of its gates."""
    starts = [_state(node, i, node.optional(6)) for i in range(len(directions))]
    both = [
        lstm_direction(d, starts[i], _state(node, i, by_cell)) for i, d in enumerate(directions)
    ]
    y, *last = zip(*(outputs for outputs, _ in both), strict=True)
    node.graph.replace(node.proto, [_stacked(y, axis=1), *map(_stacked, last)])
    return [gradients for _, gradients in both]


def _gathered(directions: Sequence[DirectionGradients]) -> Gradients:
    """Gradients of the node's inputs; all except that of x have an axis of directions."""
    by_x = [f.by_x for f in directions]
    by_cell = [f.by_start_cell for f in directions if f.by_start_cell is not None]
    return [
        sum(by_x[1:], by_x[0]),
        _stacked([f.by_weights for f in directions]),
        _stacked([f.by_recurrent for f in directions]),
        _stacked([f.by_bias for f in directions]),
        None,
        _stacked([f.by_start for f in directions]),
        _stacked(by_cell) if by_cell else None,
    ]


def _stacked(parts: Sequence[Tensor], axis: int = 0) -> Tensor:
    return joined([part.unsqueeze(axis) for part in parts], axis)


RULES: dict[str, GradientRule] = {"GRU": recurrent, "LSTM": recurrent, "RNN": recurrent}
