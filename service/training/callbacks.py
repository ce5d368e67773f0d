"""What happens between the steps of a job: reports, checkpoints, validation, commands."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import time
from typing import Any

from msgspec.structs import replace

from service.training.checkpoints import BestCheckpoint, CheckpointWriter
from service.training.data.batches import Batches
from service.training.engine import Engine
from service.training.errors import CheckpointUnreadable
from service.training.evaluation.validation import AT_THE_START, RECEIVED, TOO_LARGE, validate
from service.training.protocol.messages.training import LoopState, Start, Train
from service.training.protocol.pipe import Interrupted, Pipe
from service.training.reporting import Reporter
from service.training.schedule import Plan, Steps
from service.training.tasks import TASKS

HELD_HEARTBEAT_S = 1.0
"""Interval of heartbeats while a child waits in memory."""


class OutOfTime(Exception):
    """A round's deadline has passed; holds the state at that moment."""

    def __init__(self, state: LoopState) -> None:
        super().__init__()
        self.state = state


class Stopwatch:
    """Training time in seconds, continued from earlier runs of the job."""

    def __init__(self, clock: Callable[[], float], *, spent: float) -> None:
        self._clock = clock
        self._zero = clock() - spent
        self._stopped_at: float | None = None

    def __call__(self) -> float:
        now = self._clock() if self._stopped_at is None else self._stopped_at
        return now - self._zero

    def stop(self) -> None:
        """Stop counting until `go_on`."""
        self._stopped_at = self._clock()

    def go_on(self) -> None:
        """Count again."""
        if self._stopped_at is not None:
            self._zero += self._clock() - self._stopped_at
            self._stopped_at = None


class JobCallbacks:
    """The loop's `Callbacks` of a job, from `state` on. Its clock starts on creation.

    Raises Interrupted if the parent wants the job to end, and OutOfTime. Before a pause or a hold,
    the state is saved, unless the newest checkpoint already has it.
    """

    def __init__(
        self,
        task: Train,
        pipe: Pipe,
        engine: Engine,
        validation_set: Batches,
        *,
        plan: Plan,
        state: LoopState,
        clock: Callable[[], float],
    ) -> None:
        self.seconds = Stopwatch(clock, spent=state.seconds)
        self.reporter = Reporter(plan, state, seconds=self.seconds, send=pipe.send)
        self.saver = CheckpointWriter(engine, work_dir=Path(task.work_dir), send=pipe.send)
        self.best = self._early_stopping(task, validation_set)
        self._pipe = pipe
        self._engine = engine
        self._validation_set = validation_set
        self._make_metrics = partial(TASKS[task.loss].pass_metrics, task.signature.target)
        self._batch_size = task.hyperparameters.batch_size
        self._at_the_start = RECEIVED if task.start.given else AT_THE_START
        self._interval_s = task.checkpoint_interval_s
        self._save_at = state.seconds + self._interval_s
        self._saved = task.start.state
        self._deadline = None if task.update is None else task.update.deadline
        self._rate: float | None = None
        self._validated_step: int | None = None
        self._validation: dict[str, Any] = {}

    def after_steps(self, state: LoopState, taken: Steps) -> None:
        self._rate = taken.rates[-1]
        self.reporter.after_steps(state, taken)
        if state.seconds >= self._save_at:
            self._save(state)
        if self._pipe.stop is not None or self._pipe.held:
            self._obey(state)
        self._heed_deadline(state)

    def after_epoch(self, state: LoopState) -> LoopState:
        metrics = self.measure(state)
        state = replace(state, epoch=state.epoch + 1)
        if self.best is not None:
            state = replace(state, stale_epochs=state.stale_epochs + 1)
            state = self.best.offer(state, metrics)
        self.reporter.steps_go_on(state)
        return state

    def measure(self, state: LoopState) -> dict[str, Any]:
        """Validate, and send a point of the curve; at most once for one step."""
        if self._validated_step != state.step:
            self._validation = self.validate(state)
            self._validated_step = state.step
            self.reporter.add_point(state.step, state, rate=self._rate, validation=self._validation)
            self.reporter.flush()
        return self._validation

    def validate(self, state: LoopState) -> dict[str, Any]:
        """Validate the current parameters. Commands are obeyed between batches."""
        return validate(
            self._engine,
            self._validation_set,
            make_metrics=self._make_metrics,
            batch_size=self._batch_size,
            tick=lambda: self.tick(state),
            advice=self._at_the_start if state.step == 0 else TOO_LARGE,
        )

    def tick(self, state: LoopState) -> None:
        """Called between pieces of work other than steps."""
        self.reporter.alive(state)
        if self._pipe.stop is not None or self._pipe.held:
            self._obey(state)
        self._heed_deadline(state)

    def _obey(self, state: LoopState) -> None:
        self._wait_while_held(state)
        reason = self._pipe.stop
        if reason == "paused":
            self._save_unless_saved(state)
        if reason is not None:
            raise Interrupted(reason)

    def _wait_while_held(self, state: LoopState) -> None:
        """Save first: a waiting child may be killed, or lose power."""
        self.seconds.stop()
        if self._pipe.held and self._pipe.stop is None:
            self._save_unless_saved(state)
        while self._pipe.held and self._pipe.stop is None:
            self._heed_deadline(state)
            self.reporter.progress(state)
            self._pipe.wait(HELD_HEARTBEAT_S)
        self.seconds.go_on()

    def _heed_deadline(self, state: LoopState) -> None:
        if self._deadline is not None and time() >= self._deadline:
            raise OutOfTime(state)

    def _save_unless_saved(self, state: LoopState) -> None:
        if state != self._saved:
            self._save(state)

    def _save(self, state: LoopState) -> None:
        self.reporter.flush()
        self.saver.save(state, "periodic")
        self._saved = state
        self._save_at = self.seconds() + self._interval_s
        self.reporter.steps_go_on(state)

    def _early_stopping(self, task: Train, validation_set: Batches) -> BestCheckpoint | None:
        if task.hyperparameters.early_stopping_patience is None or not len(validation_set):
            return None
        return BestCheckpoint(self.saver, best_so_far(task.start))


def best_so_far(start: Start) -> Path | None:
    """Path of the best parameters of a resumed job, if it has any.

    Raises CheckpointUnreadable if its state mentions them, but the task does not.
    """
    if start.how != "resume" or start.state is None or start.state.best_loss is None:
        return None
    if start.best_checkpoint is None:
        raise CheckpointUnreadable(
            "the job stops early, but its best checkpoint is gone; start a new job instead"
        )
    return Path(start.best_checkpoint)
