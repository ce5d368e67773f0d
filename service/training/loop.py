"""The training loop. Everything it uses is passed to it; the state is its only memory."""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from typing import Protocol

from service.training.data.batches import Batches
from service.training.data.sampler import Sampler
from service.training.engine import Engine
from service.training.errors import LossNotFinite
from service.training.protocol.messages.training import LoopState
from service.training.schedule import Plan


class Callbacks(Protocol):
    """Reports, saves and obeys commands between steps, and may raise to end the loop."""

    def after_step(
        self, state: LoopState, *, loss_sum: float, samples: int, rate: float
    ) -> None: ...

    def after_epoch(self, state: LoopState) -> LoopState:
        """Validate; returns the state with early stopping updated and the next epoch begun."""


def train(
    engine: Engine,
    dataset: Batches,
    sampler: Sampler,
    plan: Plan,
    callbacks: Callbacks,
    *,
    state: LoopState,
    seconds: Callable[[], float],
) -> LoopState:
    """Train from `state` until the plan ends it, and return the final state.

    The sequence of states is the same from whichever step it is resumed.
    seconds: training time spent, over all runs of the job. Raises LossNotFinite.
    """
    wanted = plan.hyperparameters
    per_step = wanted.batch_size * wanted.accumulation_steps
    while plan.ending(state) is None or plan.epoch_is_complete(state):
        order = sampler.epoch(state.epoch, seed=wanted.seed)
        rest = order[plan.step_in_epoch(state) * per_step :]
        seen = dataset.augmented(seed=wanted.seed, epoch=state.epoch)
        for batches in seen.steps(
            rest, batch_size=wanted.batch_size, accumulation_steps=wanted.accumulation_steps
        ):
            engine.seed(step_seed(wanted.seed, state.step))
            loss_sum, samples = 0.0, 0
            for inputs, target, *more in batches:
                loss = engine.train_batch(inputs, target, *more)
                loss_sum += loss * len(target)
                samples += len(target)
            if not isfinite(loss_sum):
                raise LossNotFinite(not_finite(state, loss_sum, rate=plan.learning_rate(state)))
            rate = plan.learning_rate(state)
            engine.step(rate)
            state = plan.after_step(state, loss_sum=loss_sum, samples=samples, seconds=seconds())
            callbacks.after_step(state, loss_sum=loss_sum, samples=samples, rate=rate)
            if plan.ending(state) is not None:
                break
        if plan.epoch_is_complete(state):
            state = callbacks.after_epoch(state)
    return state


def step_seed(seed: int, step: int) -> int:
    """The seed of one step's random operators: different at every step, with no state to save."""
    return (seed * 0x9E3779B97F4A7C15 + step) % 2**63


def not_finite(state: LoopState, loss: float, *, rate: float) -> str:
    return (
        f"the loss became {loss} at step {state.step + 1} (epoch {state.epoch + 1}, learning rate"
        f" {rate:g}); try a lower learning_rate, or more warmup_steps"
    )
