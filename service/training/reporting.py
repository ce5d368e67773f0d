"""Reports to the parent while a job trains: heartbeats, and points of its curves."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from service.training.protocol.messages.training import LoopState, Measured, Progress
from service.training.schedule import Plan, Steps

if TYPE_CHECKING:
    from service.training.protocol.messages.unions import Message

PROGRESS_INTERVAL_S = 0.5
CURVE_POINTS = 200


class Tally(Struct):
    """Loss, weighted by samples, and number of samples, since the process started."""

    loss: float = 0.0
    samples: int = 0

    def mean_since(self, then: Tally) -> float | None:
        samples = self.samples - then.samples
        return (self.loss - then.loss) / samples if samples else None


class Reporter:
    """Sends Progress every half second, and with it Measured, about 200 times per job.

    samples_per_second: samples trained by this process ÷ the time it spent in steps; validation
    and checkpoints do not count. eta_seconds does count them.
    """

    def __init__(
        self,
        plan: Plan,
        start: LoopState,
        *,
        seconds: Callable[[], float],
        send: Callable[[Message], None],
    ) -> None:
        self._plan = plan
        self._start = start
        self._seconds = seconds
        self._send = send
        self._points: list[Measured] = []
        self._tally = Tally()
        self._progress_tally = Tally()
        self._point_tally = Tally()
        self._idle_seconds = self._idle_until = 0.0
        self._progress_at = start.seconds
        # The next point of the curve is due when both are reached.
        self._point_step, self._point_at = 1, 0.0
        if start.step > 0:
            self._next_point(start.step, start.seconds)

    def after_steps(self, state: LoopState, taken: Steps) -> None:
        # Between two steps Python runs on cold caches: do next to nothing unless a report is due.
        tally, step = self._tally, state.step - len(taken)
        for loss_sum, rate in zip(taken.loss_sums, taken.rates, strict=True):
            step += 1
            tally.loss += loss_sum
            tally.samples += taken.samples
            due = step >= self._point_step and state.seconds >= self._point_at
            # A step has one point; that of an epoch's last step waits for its validation.
            if due and (step < state.step or not self._validation_follows(state)):
                self.add_point(step, state, rate=rate)
        if state.seconds >= self._progress_at:
            self.progress(state)

    def alive(self, state: LoopState) -> None:
        """Called between batches that are not trained on."""
        if self._seconds() >= self._progress_at:
            self.progress(state)

    def steps_go_on(self, state: LoopState) -> None:
        """Steps continue: the time since the step that led to this state was not training."""
        now = self._seconds()
        self._idle_seconds += now - max(state.seconds, self._idle_until)
        self._idle_until = now

    def progress(self, state: LoopState) -> None:
        now = self._seconds()
        self._progress_at = now + PROGRESS_INTERVAL_S
        known_until = max(state.seconds, self._idle_until)
        busy_seconds = known_until - self._start.seconds - self._idle_seconds
        rate = self._tally.samples / busy_seconds if busy_seconds > 0 else 0.0
        loss = self._tally.mean_since(self._progress_tally)
        self._progress_tally = replace(self._tally)
        self.flush()
        self._send(
            Progress(
                step=state.step,
                total_steps=self._plan.total_steps,
                epoch=state.epoch,
                epochs=self._plan.epochs,
                samples_per_second=rate,
                eta_seconds=self._eta(state, now),
                train_loss=loss,
            )
        )

    def add_point(
        self,
        step: int,
        state: LoopState,
        *,
        rate: float | None,
        validation: dict[str, Any] | None = None,
    ) -> None:
        """Add a point of the curve, sent with the next Progress.

        state: of this step or of a later one of its epoch. rate: of the step, None before a
        process's first. validation: only values that are a single number are kept.
        """
        values = {} if rate is None else {"learning_rate": rate}
        loss = self._tally.mean_since(self._point_tally)
        self._point_tally = replace(self._tally)
        if loss is not None:
            values["train_loss"] = loss
        for name, value in (validation or {}).items():
            if isinstance(value, float):
                values[f"validation_{name}"] = value
        self._next_point(step, state.seconds)
        self._points.append(Measured(step, state.epoch, values))

    def flush(self) -> None:
        """Send pending points, all at once because a message on cold caches costs 0.1 ms."""
        for point in self._points:
            self._send(point)
        self._points.clear()

    def _next_point(self, step: int, seconds: float) -> None:
        if self._plan.total_steps is not None:
            stride = max(1, ceil(self._plan.total_steps / CURVE_POINTS))
            self._point_step = (step // stride + 1) * stride
        else:
            budget = self._plan.hyperparameters.max_seconds or 0.0
            self._point_at = seconds + budget / CURVE_POINTS

    def _validation_follows(self, state: LoopState) -> bool:
        return self._plan.epoch_is_complete(state) or self._plan.ending(state) is not None

    def _eta(self, state: LoopState, now: float) -> float | None:
        """Seconds to the end at the pace of this process; None before its first step."""
        limits = []
        done = state.step - self._start.step
        if self._plan.total_steps is not None and done > 0:
            pace = (now - self._start.seconds) / done
            limits.append((self._plan.total_steps - state.step) * pace)
        if self._plan.hyperparameters.max_seconds is not None:
            limits.append(self._plan.hyperparameters.max_seconds - now)
        return max(0.0, min(limits)) if limits else None
