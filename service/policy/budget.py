"""Training time today, by the local calendar, across restarts."""

from __future__ import annotations

from collections import defaultdict
from datetime import date

from service.device.reading import Moment
from storage.tables.policy import PolicyRows

WRITE_INTERVAL_S = 60.0
"""A killed daemon loses at most this much."""


class DayBudget:
    """Counts the seconds in which a job trains. Blocking; one thread at a time may use it."""

    def __init__(self, rows: PolicyRows) -> None:
        self._rows = rows
        self._today: date | None = None
        self._stored_s = 0.0
        self._unwritten_s: defaultdict[date, float] = defaultdict(float)
        self._counted_to_s: float | None = None

    def count(self, now: Moment, *, training: bool) -> float:
        """Seconds since local midnight. training: whether a job trains from now on.

        Time is measured by the monotonic clock, and belongs to the day on which it is counted.
        """
        today = now.wall.astimezone().date()
        if today != self._today:
            self._today, self._stored_s = today, self._rows.trained_s(today)
        if self._counted_to_s is not None:
            self._unwritten_s[today] += max(0.0, now.monotonic_s - self._counted_to_s)
        self._counted_to_s = now.monotonic_s if training else None
        return self._stored_s + self._unwritten_s[today]

    @property
    def is_due(self) -> bool:
        """Whether it is time to write: a minute has accumulated, or training has ended."""
        unwritten_s = sum(self._unwritten_s.values())
        return unwritten_s >= WRITE_INTERVAL_S or (unwritten_s > 0 and self._counted_to_s is None)

    def write(self) -> None:
        """Make the count durable. If that fails, it is kept for the next time."""
        for day, seconds in list(self._unwritten_s.items()):
            if seconds > 0:
                self._rows.add_trained(day, seconds)
            if day == self._today:
                self._stored_s += seconds
            del self._unwritten_s[day]
