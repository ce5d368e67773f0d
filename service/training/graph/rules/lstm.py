"""One direction of an LSTM: forward and back through time by a Scan each, samples on the last axis.

The forward pass takes the place of the operator, which gives none of its gates. States are (H, N),
so that a step's product has the weights as its first matrix, which the runtime does not reorder.
The weights of input, bias and state are one matrix W, (K, I + 1 + H), and the gradients by it one
product over all steps. Names: as in cells.py.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from service.training.graph.loops import Step, scan
from service.training.graph.places import fixed, joined
from service.training.graph.rules.cells import Direction, DirectionGradients
from service.training.graph.rules.matrix import multiply
from service.training.graph.tensor import Tensor

BY_FACTOR: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "Relu": lambda y, other, _: (y > 0).cast_like(y) * other,
    "Sigmoid": lambda y, _, product: product - product * y,
    "Tanh": lambda y, other, product: other - product * y,
}
"""Derivative of a product by the number that one factor is the activation of, from this factor, the
other one and the product."""


class Forward(Struct, frozen=True):
    """Of all steps, each (T, H, N), but read, (T, I + 1 + H, N): input, 1, and the state before.

    kept: of the cell before, f·c₋. added: to the cell, i·g. shown: tanh c. before: c₋, which the
    gradient by f needs unless f is a sigmoid.
    """

    read: Tensor
    i: Tensor
    o: Tensor
    f: Tensor
    g: Tensor
    kept: Tensor
    added: Tensor
    shown: Tensor
    before: Tensor | None = None

    @property
    def y(self) -> Tensor:
        return self.o * self.shown


def lstm_direction(
    d: Direction, start: Tensor, by_last: Tensor
) -> tuple[list[Tensor], DirectionGradients]:
    """c = f·c₋ + i·g, h = o·tanh c; start and by_last are the cell's. The gates are i, o, f, g.

    Returns the outputs, too: (T, N, H), (N, H), (N, H).
    """
    inside = None if d.inside is None else d.inside.transpose(0, 2, 1)
    d = replace(d, inside=inside, by_y=d.by_y.transpose(0, 2, 1))
    state, cell, run = _forward(d, start)
    by_start, by_start_cell, by_gates = _backward(d, run, by_last)
    lengths = [fixed(d.weights, 1), 1, d.hidden]
    rows = by_gates.transpose(1, 0, 2).reshape(fixed(d.weights, 0), -1)
    columns = run.read.transpose(0, 2, 1).reshape(-1, sum(lengths))
    by_weights, by_bias, by_recurrent = d.x.graph.ops(
        "Split", multiply(rows, columns), d.x.graph.ints(lengths), outputs=3, axis=1
    )
    by_bias = by_bias.squeeze(1)
    return [d.masked(run.y).transpose(0, 2, 1), state.transpose(1, 0), cell.transpose(1, 0)], (
        DirectionGradients(
            multiply(rows, d.weights, ta=True).reshape_like(d.x),
            by_weights,
            by_recurrent,
            joined([by_bias, by_bias], 0),
            by_start.transpose(1, 0),
            by_start_cell.transpose(1, 0),
        )
    )


def _forward(d: Direction, start: Tensor) -> tuple[Tensor, Tensor, Forward]:
    """The last state and cell, (H, N), and what the way back needs."""
    gate, new, out = d.activations
    graph = d.x.graph
    one = graph.numbers(1.0, d.x.dtype)
    steps, samples = d.x.ranked[:2]
    ones = one.op("Expand", graph.vector(d.x.size(0), 1, d.x.size(1))).known(steps, 1, samples)
    fed = graph.op("Concat", d.x.transpose(0, 2, 1), ones, axis=1)
    bias = (d.bias + d.recurrent_bias).unsqueeze(1)
    weights = graph.op("Concat", d.weights, bias, d.recurrent, axis=1)

    def step(states: list[Tensor], now: list[Tensor], captured: list[Tensor]) -> Step:
        fed, *inside = now
        read = joined([fed, states[0]], 0)
        sums = [operand.op("Gemm", read) for operand in captured]
        g = sums[3].op(new)
        i, o, f = (each.op(gate) for each in sums[:3])
        kept, added = f * states[1], i * g
        cell = kept + added
        shown = cell.op(out)
        state = o * shown
        if inside:
            past = 1 - inside[0]
            state = state * inside[0] + states[0] * past
            cell = cell * inside[0] + states[1] * past
        before = [] if d.activations[0] == "Sigmoid" else [states[1]]
        return [state, cell], [read, i, o, f, g, kept, added, shown, *before]

    (state, cell), collected = scan(
        step,
        states=[d.start.transpose(1, 0), start.transpose(1, 0)],
        slices=[fed] if d.inside is None else [fed, d.inside],
        captured=graph.ops("Split", weights, graph.ints([d.hidden] * 4), outputs=4, axis=0),
        backward=d.backward,
    )
    return state, cell, Forward(*collected)


def _backward(d: Direction, run: Forward, by_last: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients by the first state and cell, (H, N), and by the sums in the gates, (T, K, N)."""
    gate, new, out = (BY_FACTOR[name] for name in d.activations)
    by_cell = d.masked(out(run.shown, run.o, run.y))
    factors = d.masked(
        d.x.graph.op(
            "Concat",
            gate(run.i, run.g, run.added),
            gate(run.o, run.shown, run.y),
            gate(run.f, run.before or run.kept, run.kept),
            new(run.g, run.i, run.added),
            axis=1,
        )
    )
    past = [] if d.inside is None else [1 - d.inside]

    def step(states: list[Tensor], now: list[Tensor], captured: list[Tensor]) -> Step:
        by_y, by_cell, factors, keep, *past = now
        by_h = by_y + states[0]
        by_c = states[1] + by_h * by_cell
        by_gates = joined([by_c, by_h, by_c, by_c], 0) * factors
        carried = captured[0].op("Gemm", by_gates)
        return [carried + by_h * past[0] if past else carried, by_c * keep], [by_gates]

    (by_start, by_start_cell), (by_gates,) = scan(
        step,
        states=[d.by_last.transpose(1, 0), by_last.transpose(1, 0)],
        slices=[d.by_y, by_cell, factors, d.kept(run.f), *past],
        captured=[d.recurrent.transpose(1, 0)],
        backward=not d.backward,
    )
    return by_start, by_start_cell, by_gates
