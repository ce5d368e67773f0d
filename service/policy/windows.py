"""Windows: times of the week at which training may run, in local time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
MINUTES_PER_DAY = 1440


@dataclass(frozen=True, slots=True)
class Window:
    """From start to end on each of the days; past midnight if the end is the earlier.

    days: names of DAYS, on which it starts. start_minute: 0 to 1439 after midnight, included.
    end_minute: 1 to 1440, excluded. The local clock decides: when it is put forward the skipped
    hour is missing, when it is put back the repeated hour counts twice.
    """

    days: tuple[str, ...]
    start_minute: int
    end_minute: int

    def holds(self, local: datetime) -> bool:
        """Whether it is open at this local time."""
        minute = local.hour * 60 + local.minute
        today = DAYS[local.weekday()] in self.days
        if self.start_minute < self.end_minute:
            return today and self.start_minute <= minute < self.end_minute
        yesterday = DAYS[local.weekday() - 1] in self.days
        return (today and minute >= self.start_minute) or (yesterday and minute < self.end_minute)

    def next_start(self, local: datetime) -> datetime:
        """The next time the local clock shows its start, without a zone."""
        midnight = local.replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=None)
        starts = (
            midnight + timedelta(days=ahead, minutes=self.start_minute)
            for ahead in range(8)
            if DAYS[(local.weekday() + ahead) % 7] in self.days
        )
        return next(start for start in starts if start > local.replace(tzinfo=None))


def is_open(windows: Sequence[Window], local: datetime) -> bool:
    """Whether any window is open; without windows it is open always."""
    return not windows or any(window.holds(local) for window in windows)


def next_opening(windows: Sequence[Window], local: datetime) -> datetime:
    """When a closed set of windows opens next by the local clock."""
    return min(window.next_start(local) for window in windows)


def clock_time(minute: int) -> str:
    """`22:30`; 1440 is `24:00`."""
    return f"{minute // 60:02}:{minute % 60:02}"
