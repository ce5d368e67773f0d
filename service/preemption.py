"""What a running job is told when the verdict turns: to wait in memory, to go on, to end."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from storage.records import Blocker

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
