"""Readings of signals: a value with its source and its age."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timezone
from time import monotonic
from typing import Protocol

from msgspec import Struct

CLOCK_JUMP_S = 5.0
"""A difference between wall and monotonic clock that counts as a jump, or a sleep."""
Value = bool | int | float | str | tuple[str, ...] | datetime


class Moment(Struct, frozen=True):
    """One instant on two clocks.

    wall: aware, UTC; gives the time of day and may jump. monotonic_s: measures durations; on Linux
    and macOS it stops while the device sleeps.
    """

    wall: datetime
    monotonic_s: float

    @classmethod
    def now(cls) -> Moment:
        """The current time of the device's clocks."""
        return cls(datetime.now(timezone.utc), monotonic())

    def jumped_since(self, before: Moment) -> bool:
        """Whether the wall clock has jumped since then, or the device has slept."""
        by_wall_s = (self.wall - before.wall).total_seconds()
        return abs(by_wall_s - (self.monotonic_s - before.monotonic_s)) > CLOCK_JUMP_S


class Reading(Struct, frozen=True):
    """One signal at one moment.

    value: None for unknown, with the reason in `detail`. unit: `%`, `s`, `B`, `°C` or empty.
    source: where the value comes from.
    """

    name: str
    value: Value | None
    unit: str
    source: str
    read_at: Moment
    detail: str = ""

    def age_s(self, now: Moment) -> float:
        """Seconds since the value was read, regardless of the wall clock."""
        return max(0.0, now.monotonic_s - self.read_at.monotonic_s)


class Signals(Struct, frozen=True):
    """Every signal by name, as old as its `read_at` says. A name that is missing is unknown."""

    readings: Mapping[str, Reading]

    def number(self, name: str) -> float | None:
        """The value of a measured quantity."""
        value = self._value(name)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return None
        return float(value)

    def flag(self, name: str) -> bool | None:
        """The value of a yes-or-no signal."""
        value = self._value(name)
        return value if isinstance(value, bool) else None

    def names(self, name: str) -> tuple[str, ...] | None:
        """The value of a list of names."""
        value = self._value(name)
        return value if isinstance(value, tuple) else None

    def time(self, name: str) -> datetime | None:
        """The value of a time."""
        value = self._value(name)
        return value if isinstance(value, datetime) else None

    def why_unknown(self, name: str) -> str:
        """The sensor's detail text."""
        reading = self.readings.get(name)
        return reading.detail if reading and reading.detail else "no sensor tells it"

    def _value(self, name: str) -> object:
        reading = self.readings.get(name)
        return None if reading is None else reading.value


class Sensor(Protocol):
    """One source of signals."""

    def read(self, now: Moment) -> tuple[Reading, ...]:
        """The same names in every call. An unavailable value is unknown; this never raises."""
