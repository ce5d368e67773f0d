"""A switch with two levels and two delays, so that a signal near its limit does not flap."""

from __future__ import annotations

from msgspec import Struct


class Hysteresis(Struct):
    """One condition: open or blocked.

    It blocks when the signal has been bad for block_after_s without a break, and opens when it
    has been good for clear_after_s without a break. A signal between its two levels is neither, and
    changes nothing. The first update decides at once, and only a good signal opens.
    """

    is_blocked: bool | None = None
    changing_since_s: float | None = None

    def update(
        self, *, bad: bool, good: bool, now_s: float, block_after_s: float, clear_after_s: float
    ) -> bool:
        """Whether the condition blocks now. now_s: monotonic."""
        if self.is_blocked is None:
            self.is_blocked = not good
            return self.is_blocked
        changes, delay_s = (good, clear_after_s) if self.is_blocked else (bad, block_after_s)
        if not changes:
            self.changing_since_s = None
            return self.is_blocked
        if self.changing_since_s is None:
            self.changing_since_s = now_s
        if now_s - self.changing_since_s >= delay_s:
            self.is_blocked = not self.is_blocked
            self.changing_since_s = None
        return self.is_blocked

    def held_s(self, now_s: float) -> float:
        """How long the signal has called for a change that has not been made yet."""
        return 0.0 if self.changing_since_s is None else now_s - self.changing_since_s

    def restart(self) -> None:
        """Nothing was observed for a while, so a running delay starts again."""
        self.changing_since_s = None
