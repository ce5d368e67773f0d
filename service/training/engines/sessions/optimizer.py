"""Optimizer steps on flat buffers, in place, with a share of the rows on each thread."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial

import numpy as np
from msgspec import Struct
from numpy import add, multiply, subtract

from service.training.engines.sessions.buffers import Buffers, Vector, aligned, edges
from service.training.engines.sessions.crew import Call, Crew
from service.training.optimizer.options import OptimizerOptions
from service.training.optimizer.rules import RULES, ZERO, Do, scalar, slots

NORM_EPSILON = 1e-6
"""Added to the norm in the divisor by torch.nn.utils.clip_grad_norm_."""


class Block(Struct, frozen=True):
    """A row of the buffers, on a device all rows. gradients: their sum is the gradient. slots: in
    the order of `slots`.

    rate, decay, square_sum: of this step, without axes or [rows, 1]; decay: see `Optimizer.step`.
    """

    parameter: Vector
    gradients: Sequence[Vector]
    slots: Sequence[Vector]
    rate: Vector
    decay: Vector
    square_sum: Vector


class Optimizer:
    """Updates the parameters in the buffers from the sum of their gradients.

    split: the parameters whose gradients all shares have; of others, the first has them. clears:
    leaves the gradients 0.
    """

    def __init__(
        self,
        options: OptimizerOptions,
        buffers: Buffers,
        *,
        threads: int,
        crew: Crew,
        split: Collection[str],
        clears: bool,
    ) -> None:
        layout = buffers.layout
        self._options = options
        self._rule = RULES[options.optimizer]
        self._scalars = self._rule.scalars(options)
        self._direction = self._rule.direction(options)
        self._crew, self._clears = crew, clears
        self._factors = np.array(layout.rate_factors, np.float32)
        self._is_uniform = all(factor == 1 for factor in layout.rate_factors)
        self._decay = np.array(layout.decays, np.float32)
        self._rates, self._decays, self._square_sums = np.zeros((3, layout.rows), np.float32)
        self._decays[:] = self._decay
        self._epsilon, self._clipping, self._ema_decay = scalar(0), scalar(1), scalar(0)
        self._pull = scalar(options.l2_sp)
        self._bounds = scalar(-(options.max_grad_value or 0)), scalar(options.max_grad_value or 0)
        self._blocks = self._make_blocks(buffers, split)
        self._updates, self._norms = self._compile(buffers, threads)

    def step(self, rate: float, *, number: int) -> None:
        """rate: the learning rate. number: of the step, from 1.

        Overwrites the gradients. Decay is 1 - rate · weight decay if that is decoupled, else the
        weight decay.
        """
        # Values that do not change are not written again: small steps are mostly overhead.
        factor, epsilon = self._scalars(number)
        if self._is_uniform:
            self._rates.fill(rate * factor)
        else:
            multiply(self._factors, np.float32(rate * factor), self._rates)
        if self._options.l2_sp and number == 1:
            self._remember_start()
        if self._options.weight_decay and self._rule.decoupled:
            self._decays[:] = 1 - self._factors * self._decay * rate
        self._epsilon.fill(epsilon)
        if self._options.ema_decay is not None:
            # The first average is the parameter itself, as in torch.optim.swa_utils.
            self._ema_decay.fill(0 if number == 1 else self._options.ema_decay)
        if self._options.max_grad_norm is not None:
            self._crew.run(self._norms)
            norm = float(np.sqrt(self._square_sums.sum(dtype=np.float64)))
            self._clipping[...] = min(1.0, self._options.max_grad_norm / (norm + NORM_EPSILON))
        self._crew.run(self._updates)

    def _compile(self, buffers: Buffers, threads: int) -> tuple[list[Call], list[Call]]:
        """For each thread, what updates parameters, and what computes the norm of gradients."""
        shares = [self._blocks[first:last] for first, last in edges(buffers.layout.rows, threads)]
        pairs = [(share, aligned(buffers.layout.width)) for share in shares]
        return [self._update(*pair) for pair in pairs], [partial(_sum_squares, *p) for p in pairs]

    def _remember_start(self) -> None:
        for block in self._blocks:
            self._start(block)[...] = block.parameter

    def _update(self, blocks: Sequence[Block], scratch: Vector) -> Call:
        """What updates the blocks: a list of calls, as compiling it costs small steps nothing."""
        calls: list[Call] = []

        def do(operator: Callable[..., object], *arguments: Vector) -> None:
            calls.append(partial(operator, *arguments))

        for block in blocks:
            self._move(do, block, scratch)
        return partial(_all, calls)

    def _move(self, do: Do, block: Block, scratch: Vector) -> None:
        options, parameter, gradient = self._options, block.parameter, block.gradients[0]
        self._whole_gradient(do, block)
        if options.l2_sp:
            do(subtract, parameter, self._start(block), scratch)
            do(multiply, scratch, self._pull, scratch)
            do(add, gradient, scratch, gradient)
        if options.weight_decay and self._rule.decoupled:
            do(multiply, parameter, block.decay, parameter)
        elif options.weight_decay:
            do(multiply, parameter, block.decay, scratch)
            do(add, gradient, scratch, gradient)
        direction = self._direction(do, gradient, block.slots, scratch, self._epsilon)
        do(multiply, direction, block.rate, scratch)
        do(subtract, parameter, scratch, parameter)
        if options.ema_decay is not None:
            average = block.slots[-1]
            do(subtract, average, parameter, average)
            do(multiply, average, self._ema_decay, average)
            do(add, average, parameter, average)
        for share in block.gradients if self._clears else ():
            do(np.copyto, share, ZERO)

    def _whole_gradient(self, do: Do, block: Block) -> None:
        """Sum it up in the first share's, and clip it."""
        gradient, *others = block.gradients
        if self._options.max_grad_norm is None:  # Otherwise the norm has already summed them.
            for other in others:
                do(add, gradient, other, gradient)
        else:
            do(multiply, gradient, self._clipping, gradient)
        if self._options.max_grad_value is not None:
            do(np.clip, gradient, *self._bounds, gradient)

    def _start(self, block: Block) -> Vector:
        """The block's parameters before the first step."""
        return block.slots[-1 if self._options.ema_decay is None else -2]

    def _make_blocks(self, buffers: Buffers, split: Collection[str]) -> list[Block]:
        def row(buffer: Vector, number: int) -> Vector:
            only: Vector = buffers.rows(buffer, number, number + 1)[0]
            return only

        state = [buffers.slots[name] for name in slots(self._options)]
        split_rows = buffers.rows_with(split)
        return [
            Block(
                row(buffers.parameters, number),
                [
                    row(gradient, number)
                    for gradient in buffers.gradients[: None if number in split_rows else 1]
                ],
                [row(slot, number) for slot in state],
                self._rates[number, ...],
                self._decays[number, ...],
                self._square_sums[number, ...],
            )
            for number in range(buffers.layout.rows)
        ]


def _all(calls: Sequence[Call]) -> None:
    for call in calls:
        call()


def _sum_squares(blocks: Sequence[Block], scratch: Vector) -> None:
    """Sum of squares of each block's gradient, which replaces the first share's."""
    for block in blocks:
        gradient, *others = block.gradients
        for other in others:
            add(gradient, other, gradient)
        block.square_sum[...] = multiply(gradient, gradient, scratch).sum()
