"""Windows: times of the week at which training may run, in local time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Annotated, Literal, get_args

from pydantic import AfterValidator, ConfigDict, Field, ValidationInfo
from pydantic.dataclasses import dataclass

Day = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
DAYS: tuple[Day, ...] = get_args(Day)
CLOCK_TIME = r"^([01][0-9]|2[0-3]):[0-5][0-9]$"


def _in_order(days: tuple[Day, ...]) -> tuple[Day, ...]:
    return tuple(day for day in DAYS if day in days)


def _end(end: str, window: ValidationInfo) -> str:
    if end == window.data.get("start"):
        raise ValueError("has no length; a whole day is 00:00 to 24:00")
    return "24:00" if end == "00:00" else end


@dataclass(frozen=True, slots=True, config=ConfigDict(extra="forbid"))
class Window:
    """From start to end on each of the days; past midnight if the end is earlier.

    days: those on which it starts. start, end: local times such as `22:30`; an end of `00:00` is
    stored as `24:00`. The local clock decides: when it is set forward, the skipped hour is missing;
    when it is set back, the repeated hour counts twice.
    """

    days: Annotated[tuple[Day, ...], Field(min_length=1), AfterValidator(_in_order)]
    start: Annotated[str, Field(pattern=CLOCK_TIME)]
    end: Annotated[str, Field(pattern=rf"{CLOCK_TIME}|^24:00$"), AfterValidator(_end)]

    def holds(self, local: datetime) -> bool:
        """Whether it is open at this local time."""
        minute = local.hour * 60 + local.minute
        today = DAYS[local.weekday()] in self.days
        start, end = _minute_of(self.start), _minute_of(self.end)
        if start < end:
            return today and start <= minute < end
        yesterday = DAYS[local.weekday() - 1] in self.days
        return (today and minute >= start) or (yesterday and minute < end)

    def next_start(self, local: datetime) -> datetime:
        """The next time the local clock shows its start, without a zone."""
        midnight = local.replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=None)
        starts = (
            midnight + timedelta(days=ahead, minutes=_minute_of(self.start))
            for ahead in range(8)
            if DAYS[(local.weekday() + ahead) % 7] in self.days
        )
        return next(start for start in starts if start > local.replace(tzinfo=None))


def is_open(windows: Sequence[Window], local: datetime) -> bool:
    """Whether any window is open; always true without windows."""
    return not windows or any(window.holds(local) for window in windows)


def next_opening(windows: Sequence[Window], local: datetime) -> datetime:
    """When a closed set of windows next opens by the local clock."""
    return min(window.next_start(local) for window in windows)


def _minute_of(clock_time: str) -> int:
    """Minutes after midnight of a time such as `22:30`; 1440 for `24:00`."""
    hours, minutes = clock_time.split(":")
    return int(hours) * 60 + int(minutes)
