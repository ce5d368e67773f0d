"""Preempts the running job when the verdict changes: it waits in memory, continues, or ends."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from enum import Enum

from service.jobs.run import JobRun
from service.jobs.runner import JobRunner
from service.jobs.waiting import conditions_of
from service.logs import event
from service.policy.device_monitor import DeviceMonitor
from service.policy.observer import Observation
from storage.records.jobs import Blocker

logger = logging.getLogger(__name__)

LASTING = frozenset(
    {"asleep", "paused", "snoozed", "window", "daily_limit", "memory", "memory_pressure"}
)
"""Conditions that last long or need memory free: the run ends instead of waiting in memory."""


class Instruction(Enum):
    """What the child should do."""

    HOLD = "hold"
    GO_ON = "go on"
    END = "end"


class Preemption:
    """Decides for one run, from each look at the device; it has no clock of its own."""

    def __init__(self) -> None:
        self._held_at_s: float | None = None
        self._has_ended = False

    def decide(
        self, blockers: Iterable[Blocker], *, now_s: float, suspend_s: float
    ) -> Instruction | None:
        """The next instruction, None if nothing changes.

        suspend_s: how long the job may wait in memory. now_s: monotonic.
        """
        if self._has_ended:
            return None
        conditions = {blocker.condition for blocker in blockers}
        if not conditions:
            was_held, self._held_at_s = self._held_at_s is not None, None
            return Instruction.GO_ON if was_held else None
        is_held = self._held_at_s is not None
        if self._held_at_s is None:
            self._held_at_s = now_s
        if conditions & LASTING or now_s - self._held_at_s >= suspend_s:
            self._has_ended = True
            return Instruction.END
        return None if is_held else Instruction.HOLD


class Preemptor:
    """Makes the running job follow the verdict. Belongs to the event loop."""

    def __init__(self, runner: JobRunner, monitor: DeviceMonitor) -> None:
        self._runner = runner
        self._monitor = monitor
        self._preemption = Preemption()
        self._pending: Instruction | None = None

    def begin(self) -> None:
        """Another job runs now: forget the instructions to the last one."""
        self._preemption, self._pending = Preemption(), None

    def decide(self, observation: Observation) -> bool:
        """Whether there is an instruction to send."""
        run = self._runner.run
        if run is not None and not run.is_ending:
            instruction = self._preemption.decide(
                observation.blockers(run.job),
                now_s=observation.at.monotonic_s,
                suspend_s=observation.policy.suspend_in_memory_seconds,
            )
            self._pending = instruction or self._pending
        return self._pending is not None

    async def tell(self) -> bool:
        """Send the run the pending instruction; False if there is none."""
        run, instruction, self._pending = self._runner.run, self._pending, None
        if run is None or instruction is None or run.is_ending:
            return False
        await _tell(run, instruction, self._monitor.blockers(run.job))
        return True

    async def make_room(self) -> None:
        """Another job may run: end the run if it waits in memory and is still blocked."""
        run = self._runner.run
        if run is None or not run.is_held or run.is_ending:
            return
        reasons = self._monitor.blockers(run.job)
        if reasons:
            await _tell(run, Instruction.END, reasons)


async def _tell(run: JobRun, instruction: Instruction, reasons: tuple[Blocker, ...]) -> None:
    names = conditions_of(reasons)
    event(logger, logging.INFO, "job.preempted", job=run.job.id, move=instruction.value, by=names)
    match instruction:
        case Instruction.HOLD:
            await run.hold(*reasons)
        case Instruction.GO_ON:
            await run.go_on()
        case Instruction.END:
            await run.pause(*reasons)
