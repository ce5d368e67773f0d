"""The schedule: how many steps, the learning rate of each, and when training ends."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, cos, pi
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from service.training.hyperparameters import Hyperparameters
from service.training.protocol.messages.training import LoopState

Ending = Literal["finished", "early_stopped", "out_of_time"]
DEFAULT_EPOCHS = 5


class Steps(Struct, frozen=True):
    """Consecutive steps of an epoch, each on `samples` samples.

    loss_sums: of each step, the losses of its batches, weighted by their samples. rates: the
    learning rates.
    """

    loss_sums: Sequence[float]
    samples: int
    rates: Sequence[float]

    def __len__(self) -> int:
        return len(self.loss_sums)


class Plan(Struct, frozen=True):
    """A job's plan. epochs: None if only steps or time end it.

    total_steps: None if only time ends it. A step is one update by the optimizer; the last of an
    epoch takes the samples that are left.
    """

    hyperparameters: Hyperparameters
    steps_per_epoch: int
    epochs: int | None
    total_steps: int | None

    def ending(self, state: LoopState) -> Ending | None:
        """Why training is over in this state, or None."""
        wanted = self.hyperparameters
        if self.total_steps is not None and state.step >= self.total_steps:
            return "finished"
        patience = wanted.early_stopping_patience
        if patience is not None and state.stale_epochs >= max(1, patience):
            return "early_stopped"
        if wanted.max_seconds is not None and state.seconds >= wanted.max_seconds:
            return "out_of_time"
        return None

    def step_in_epoch(self, state: LoopState) -> int:
        """Steps done in the current epoch."""
        return max(0, state.step - state.epoch * self.steps_per_epoch)

    def epoch_is_complete(self, state: LoopState) -> bool:
        """Whether every sample of the current epoch was seen, so that its validation is due."""
        return self.step_in_epoch(state) >= self.steps_per_epoch

    def after_steps(self, state: LoopState, taken: Steps, *, seconds: float) -> LoopState:
        """The state after more steps of the epoch."""
        fresh = state.step == state.epoch * self.steps_per_epoch
        total, samples = (0.0, 0) if fresh else (state.loss_sum, state.loss_count)
        for part in taken.loss_sums:  # one by one: the sum does not depend on how they are grouped
            total += part
        return replace(
            state,
            step=state.step + len(taken),
            seconds=seconds,
            loss_sum=total,
            loss_count=samples + len(taken) * taken.samples,
        )

    def learning_rates(self, state: LoopState, steps: int) -> list[float]:
        """The rates of the next steps, of which there may be fewer left.

        If only time ends the job, the decay follows the seconds instead of the steps.
        """
        first, wanted = state.step, self.hyperparameters
        if self.total_steps is not None:
            steps = min(steps, self.total_steps - first)
        if wanted.schedule == "constant" and first >= wanted.warmup_steps:
            return [wanted.learning_rate] * steps
        return [self._learning_rate(step, state.seconds) for step in range(first, first + steps)]

    def _learning_rate(self, step: int, seconds: float) -> float:
        wanted = self.hyperparameters
        warmup = warmup_factor(step, wanted.warmup_steps)
        if self.total_steps is not None:
            done = decay_fraction(step, wanted.warmup_steps, self.total_steps)
        else:
            done = min(1.0, seconds / (wanted.max_seconds or 1.0))
        return wanted.learning_rate * warmup * decay_factor(wanted.schedule, done)


def make_plan(wanted: Hyperparameters, train_samples: int) -> Plan:
    """The plan for this many samples; five epochs if no end is given.

    A computed head takes no steps.
    """
    samples_per_step = wanted.batch_size * wanted.accumulation_steps
    steps_per_epoch = ceil(train_samples / samples_per_step)
    if wanted.computes_head:
        return Plan(wanted, steps_per_epoch, 0, 0)
    epochs = wanted.epochs
    if epochs is None and wanted.max_steps is None and wanted.max_seconds is None:
        epochs = DEFAULT_EPOCHS
    limits = [] if epochs is None else [epochs * steps_per_epoch]
    if wanted.max_steps is not None:
        limits.append(wanted.max_steps)
    return Plan(wanted, steps_per_epoch, epochs, min(limits, default=None))


def warmup_factor(step: int, warmup_steps: int) -> float:
    """Linear rise from 0 before the first step to 1 at step `warmup_steps`; never 0 at a step."""
    return (step + 1) / (warmup_steps + 1) if step < warmup_steps else 1.0


def decay_fraction(step: int, warmup_steps: int, total_steps: int) -> float:
    """The elapsed share of the decay: 0 until warm-up ends, 1 after the last step."""
    if step <= warmup_steps:
        return 0.0
    return min(1.0, (step - warmup_steps) / (total_steps - warmup_steps))


def decay_factor(schedule: str, fraction: float) -> float:
    """The share of the peak at this fraction of the decay, in [0, 1]."""
    if schedule == "linear":
        return 1.0 - fraction
    if schedule == "cosine":
        return 0.5 * (1.0 + cos(pi * fraction))
    return 1.0
