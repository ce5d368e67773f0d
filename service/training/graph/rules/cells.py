"""One direction of a GRU or RNN: back through time, one Scan step per time step.

All gates of all steps are computed at once from the operator's outputs, so that a backward step has
one matrix product, and the gradients of the weights are one product over all steps. Names: T steps,
N samples, I inputs, H hidden, K = H times the number of gates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from service.training.graph.loops import Body, Step, scan
from service.training.graph.node import Node
from service.training.graph.places import fixed, joined
from service.training.graph.rules.matrix import multiply
from service.training.graph.tensor import Tensor

SLOPES: dict[str, Callable[[Tensor], Tensor]] = {
    "Relu": lambda y: (y > 0).cast_like(y),
    "Sigmoid": lambda y: y * (1 - y),
    "Tanh": lambda y: 1 - y * y,
}
"""Derivative of each activation, from its result."""


class Direction(Struct, frozen=True):
    """One of a layer's directions.

    x: (T, N, I). weights: (K, I), recurrent: (K, H), biases of both: (K,). y: states, (T, N, H).
    start: the first state, (N, H). by_y: (T, N, H), by_last: (N, H), the gradients of the outputs.
    inside: 1 where a step is within its sequence, (T, N, 1).
    """

    node: Node
    x: Tensor
    weights: Tensor
    recurrent: Tensor
    bias: Tensor
    recurrent_bias: Tensor
    y: Tensor
    start: Tensor
    by_y: Tensor
    by_last: Tensor
    inside: Tensor | None
    backward: bool
    activations: list[str]

    def masked(self, value: Tensor) -> Tensor:
        """0 past the end of a sequence."""
        return value if self.inside is None else value * self.inside

    def kept(self, value: Tensor) -> Tensor:
        """1 past the end of a sequence, where a state does not change."""
        return value if self.inside is None else self.masked(value) + (1 - self.inside)

    @property
    def hidden(self) -> int:
        return fixed(self.recurrent, 1)

    @property
    def before(self) -> Tensor:
        """The state before each step, (T, N, H): the output of the previous in its direction."""
        first = self.start.unsqueeze(0)
        far = 1 << 60
        if not self.backward:
            parts = [first, self.y.slice([0], [-1], [0])]
            return self.y.graph.op("Concat", *parts, axis=0).known_like(self.y)
        rest = self.y.slice([1], [far], [0])
        if self.inside is not None:  # A sequence that ends early starts later.
            rest = rest + (1 - self.inside.slice([1], [far], [0])) * first
        return self.y.graph.op("Concat", rest, first, axis=0).known_like(self.y)

    def back(
        self, step: Body, slices: Sequence[Tensor], captured: Sequence[Tensor]
    ) -> tuple[Tensor, list[Tensor]]:
        """Through time with a step of `scan`, which is fed by_y first, and these slices.

        Returns the gradient of the first state, and what the steps give.
        """
        (by_start,), collected = scan(
            step,
            states=[self.by_last],
            slices=[self.by_y, *slices],
            captured=captured,
            backward=not self.backward,
        )
        return by_start, collected

    def inputs(self) -> Tensor:
        """The part of x in the gates, (T, N, K)."""
        return self.x @ self.weights.transpose(1, 0) + self.bias

    def states(self) -> Tensor:
        """The part of the previous state in the gates, (T, N, K)."""
        return self.before @ self.recurrent.transpose(1, 0) + self.recurrent_bias

    def both(self) -> Tensor:
        """The sum of both parts, (T, N, K), by one product."""
        rows, bias = rows_of(joined([self.x, self.before], -1)), self.bias + self.recurrent_bias
        products = rows.op("Gemm", joined([self.weights, self.recurrent], -1), bias, transB=1)
        width = fixed(self.recurrent, 0)
        shape = products.graph.vector(self.x.dims(0, 2), width)
        return products.op("Reshape", shape).known(*self.x.ranked[:2], width)

    def gates(self, values: Tensor) -> list[Tensor]:
        """Split by gate, each (T, N, H)."""
        count = fixed(self.recurrent, 0) // self.hidden
        lengths = values.graph.ints([self.hidden] * count)
        return values.graph.ops("Split", values, lengths, outputs=count, axis=-1)


class DirectionGradients(Struct, frozen=True):
    """By the operator's inputs, of one direction; by_bias: of both biases, (2·K,)."""

    by_x: Tensor
    by_weights: Tensor
    by_recurrent: Tensor
    by_bias: Tensor
    by_start: Tensor
    by_start_cell: Tensor | None = None


def _gradients(
    d: Direction,
    by_input: Tensor,
    by_state: Tensor,
    by_start: Tensor,
    by_recurrent: Tensor | None = None,
) -> DirectionGradients:
    """by_input, by_state: by these parts of the gates, (T, N, K)."""
    return DirectionGradients(
        by_input @ d.weights,
        multiply(rows_of(by_input), rows_of(d.x), ta=True),
        by_recurrent or multiply(rows_of(by_state), rows_of(d.before), ta=True),
        d.x.graph.op("Concat", by_input.sum([0, 1]), by_state.sum([0, 1]), axis=0),
        by_start,
    )


def _carry(by_gates: Tensor, turned: Tensor) -> Tensor:
    """by_gates·R, (N, H). turned: R transposed, which as the first matrix is not reordered again at
    each step.
    """
    return turned.op("Gemm", by_gates, transB=1).transpose(1, 0)


def rnn_direction(d: Direction) -> DirectionGradients:
    """h = f(x·W + h₋·R)."""
    y = d.both().op(d.activations[0])
    slope = d.masked(SLOPES[d.activations[0]](y))
    past = [] if d.inside is None else [1 - d.inside]

    def step(states: list[Tensor], now: list[Tensor], captured: list[Tensor]) -> Step:
        by_y, slope, *past = now
        by_h = by_y + states[0]
        by_gate = by_h * slope
        carried = _carry(by_gate, captured[0])
        return [carried + by_h * past[0] if past else carried], [by_gate]

    start, (by_gate,) = d.back(step, [slope, *past], [d.recurrent.transpose(1, 0)])
    return _gradients(d, by_gate, by_gate, start)


def gru_direction(d: Direction) -> DirectionGradients:
    """h = (1 - z)·g + z·h₋, where the gates are z, r and g; r is applied before or after R."""
    behind = bool(d.node.attribute("linear_before_reset", 0))
    f, g = d.activations
    of_x, of_h = d.gates(d.inputs()), d.gates(d.states())
    z, r = ((a + b).op(f) for a, b in zip(of_x[:2], of_h[:2], strict=True))
    r_weights = d.recurrent.slice([2 * d.hidden], [3 * d.hidden], [0])
    if behind:
        new = (of_x[2] + r * of_h[2]).op(g)
    else:
        r_bias = d.recurrent_bias.slice([2 * d.hidden], [3 * d.hidden], [0])
        new = (of_x[2] + (r * d.before) @ r_weights.transpose(1, 0) + r_bias).op(g)
    by_z = d.masked((d.before - new) * SLOPES[f](z))
    by_new = d.masked((1 - z) * SLOPES[g](new))
    keep = d.kept(z)
    if behind:
        factors = joined([by_z, by_new * of_h[2] * SLOPES[f](r), by_new * r], -1)
        by_h, by_state, start = _gru_behind(d, factors, keep)
        last = by_h * by_new
        by_input = joined([by_state.slice([0], [2 * d.hidden], [2]), last], -1)
        return _gradients(d, by_input, by_state, start)
    by_state, start = _gru_before(d, [by_z, by_new, d.before * SLOPES[f](r), r, keep])
    parts = d.gates(by_state)
    rows = [rows_of(p) for p in (joined(parts[:2], -1), d.before, parts[2], r * d.before)]
    by_recurrent = d.x.graph.op(
        "Concat", multiply(rows[0], rows[1], ta=True), multiply(rows[2], rows[3], ta=True), axis=0
    )
    return _gradients(d, by_state, by_state, start, by_recurrent)


def _gru_behind(d: Direction, factors: Tensor, keep: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    def step(states: list[Tensor], now: list[Tensor], captured: list[Tensor]) -> Step:
        by_y, factors, keep = now
        by_h = by_y + states[0]
        by_state = joined([by_h, by_h, by_h], -1) * factors
        return [_carry(by_state, captured[0]) + by_h * keep], [by_h, by_state]

    start, (by_h, by_state) = d.back(step, [factors, keep], [d.recurrent.transpose(1, 0)])
    return by_h, by_state, start


def _gru_before(d: Direction, factors: list[Tensor]) -> tuple[Tensor, Tensor]:
    n = d.hidden
    first, last = d.recurrent.slice([0], [2 * n], [0]), d.recurrent.slice([2 * n], [3 * n], [0])

    def step(states: list[Tensor], now: list[Tensor], captured: list[Tensor]) -> Step:
        by_y, by_z, by_new, by_r, r, keep = now
        by_h = by_y + states[0]
        new = by_h * by_new
        reset = _carry(new, captured[1])
        both = joined([by_h * by_z, reset * by_r], -1)
        carried = _carry(both, captured[0])
        return [carried + reset * r + by_h * keep], [joined([both, new], -1)]

    matrices = [first.transpose(1, 0), last.transpose(1, 0)]
    start, (by_state,) = d.back(step, factors, matrices)
    return by_state, start


def rows_of(value: Tensor) -> Tensor:
    """(T, N, K) as (T·N, K)."""
    return value.reshape(-1, fixed(value, 2))
