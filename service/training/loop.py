"""The training loop. Everything it uses is passed to it; the state is its only memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import isfinite
from typing import Protocol

from service.training.data.batches import Batches, Indices
from service.training.data.sampler import Sampler
from service.training.engine import Engine, Series
from service.training.errors import LossNotFinite
from service.training.protocol.messages.training import LoopState
from service.training.schedule import Plan, Steps


class Callbacks(Protocol):
    """Reports, saves and obeys commands between steps, and may raise to end the loop."""

    def after_steps(self, state: LoopState, taken: Steps) -> None: ...

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

    def now() -> LoopState:
        return state

    while plan.ending(state) is None or plan.epoch_is_complete(state):
        order = sampler.epoch(state.epoch, seed=wanted.seed)
        rest = order[plan.step_in_epoch(state) * per_step :]
        seen = dataset.augmented(seed=wanted.seed, epoch=state.epoch)
        for taken in _steps(engine, seen, rest, plan, now):
            state = plan.after_steps(state, taken, seconds=seconds())
            callbacks.after_steps(state, taken)
            if plan.ending(state) is not None:
                break
        if plan.epoch_is_complete(state):
            state = callbacks.after_epoch(state)
    return state


def _steps(
    engine: Engine, seen: Batches, rest: Indices, plan: Plan, now: Callable[[], LoopState]
) -> Iterator[Steps]:
    """Take the steps of the rest of an epoch, full batches in series if the engine can.

    now: the state after the steps that were yielded.
    """
    wanted = plan.hyperparameters
    if wanted.accumulation_steps == 1 and seen.are_plain:
        series = engine.series(wanted.batch_size)
        if series is not None:
            full = len(rest) - len(rest) % wanted.batch_size
            yield from _in_series(series, seen, rest[:full], plan, now)
            rest = rest[full:]
    yield from _one_by_one(engine, seen, rest, plan, now)


def _in_series(
    series: Series, seen: Batches, rest: Indices, plan: Plan, now: Callable[[], LoopState]
) -> Iterator[Steps]:
    size = plan.hyperparameters.batch_size
    steps = min(series.most, seen.batches_at_once(size))
    for inputs, target in seen.batches(rest, batch_size=steps * size):
        rates = plan.learning_rates(now(), len(target) // size)
        losses = series.train(inputs, target, rates)
        if not isfinite(sum(losses)):
            place = next(place for place, loss in enumerate(losses) if not isfinite(loss))
            raise LossNotFinite(not_finite(now(), place, losses[place], rate=rates[place]))
        yield Steps([loss * size for loss in losses], size, rates)


def _one_by_one(
    engine: Engine, seen: Batches, rest: Indices, plan: Plan, now: Callable[[], LoopState]
) -> Iterator[Steps]:
    wanted = plan.hyperparameters
    for batches in seen.steps(
        rest, batch_size=wanted.batch_size, accumulation_steps=wanted.accumulation_steps
    ):
        state = now()
        engine.seed(step_seed(wanted.seed, state.step))
        loss_sum, samples = 0.0, 0
        for inputs, target, *more in batches:
            loss = engine.train_batch(inputs, target, *more)
            loss_sum += loss * len(target)
            samples += len(target)
        rates = plan.learning_rates(state, 1)
        if not isfinite(loss_sum):
            raise LossNotFinite(not_finite(state, 0, loss_sum, rate=rates[0]))
        engine.step(rates[0])
        yield Steps((loss_sum,), samples, rates)


def step_seed(seed: int, step: int) -> int:
    """The seed of one step's random operators: different at every step, with no state to save."""
    return (seed * 0x9E3779B97F4A7C15 + step) % 2**63


def not_finite(state: LoopState, further: int, loss: float, *, rate: float) -> str:
    """further: steps since `state`."""
    return (
        f"the loss became {loss} at step {state.step + further + 1} (epoch {state.epoch + 1},"
        f" learning rate {rate:g}); try a lower learning_rate, or more warmup_steps"
    )
