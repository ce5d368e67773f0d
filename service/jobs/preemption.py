"""What a running job is told when the verdict turns: to wait in memory, to go on, to end."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from enum import Enum

from service.jobs.blockers import conditions_of
from service.jobs.run import Run
from service.jobs.runner import Slot
from service.logs import event
from service.policy.device_monitor import Guardian
from service.policy.observer import Look
from storage.records.jobs import Blocker

logger = logging.getLogger(__name__)

LASTING = frozenset(
    {"asleep", "paused", "snoozed", "window", "daily_limit", "memory", "memory_pressure"}
)
"""Conditions that will last, or want the memory back: nothing waits in memory for them."""


class Move(Enum):
    """What to tell the child."""

    HOLD = "hold"
    GO_ON = "go on"
    END = "end"


class Preemption:
    """Decides for one run, look after look; it has no clock of its own."""

    def __init__(self) -> None:
        self._held_at_s: float | None = None
        self._has_ended = False

    def decide(self, blockers: Iterable[Blocker], *, now_s: float, suspend_s: float) -> Move | None:
        """None: nothing new. suspend_s: how long it may wait in memory. now_s: monotonic."""
        if self._has_ended:
            return None
        conditions = {blocker.condition for blocker in blockers}
        if not conditions:
            was_held, self._held_at_s = self._held_at_s is not None, None
            return Move.GO_ON if was_held else None
        is_held = self._held_at_s is not None
        if self._held_at_s is None:
            self._held_at_s = now_s
        if conditions & LASTING or now_s - self._held_at_s >= suspend_s:
            self._has_ended = True
            return Move.END
        return None if is_held else Move.HOLD


class Preemptor:
    """Tells the run in the slot what the verdict asks of it. Belongs to the event loop."""

    def __init__(self, slot: Slot, guardian: Guardian) -> None:
        self._slot = slot
        self._guardian = guardian
        self._preemption = Preemption()
        self._move: Move | None = None

    def begin(self) -> None:
        """Another run is in the slot: what the last one was told does not count."""
        self._preemption, self._move = Preemption(), None

    def decide(self, look: Look) -> bool:
        """Whether there is something to tell."""
        run = self._slot.run
        if run is not None and not run.is_ending:
            move = self._preemption.decide(
                look.blockers(run.job),
                now_s=look.at.monotonic_s,
                suspend_s=look.policy.suspend_in_memory_seconds,
            )
            self._move = move or self._move
        return self._move is not None

    async def tell(self) -> bool:
        """Tell the run what was decided; False if that is nothing."""
        run, move, self._move = self._slot.run, self._move, None
        if run is None or move is None or run.is_ending:
            return False
        await _tell(run, move, self._guardian.blockers(run.job))
        return True

    async def make_room(self) -> None:
        """Another job may run: end the run if it waits in memory, unless it may go on itself."""
        run = self._slot.run
        if run is None or not run.is_held or run.is_ending:
            return
        reasons = self._guardian.blockers(run.job)
        if reasons:
            await _tell(run, Move.END, reasons)


async def _tell(run: Run, move: Move, reasons: tuple[Blocker, ...]) -> None:
    names = conditions_of(reasons)
    event(logger, logging.INFO, "job.preempted", job=run.job.id, move=move.value, by=names)
    match move:
        case Move.HOLD:
            await run.hold(*reasons)
        case Move.GO_ON:
            await run.go_on()
        case Move.END:
            await run.pause(*reasons)
