"""Readings of signals: a value with its source and its age."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timezone
from time import monotonic
from typing import Protocol

from msgspec import Struct

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


class DeviceSnapshot(Struct, frozen=True):
    """Every signal by name. Readings are as old as their `read_at` says."""

    signals: Mapping[str, Reading]


class Sensor(Protocol):
    """One source of signals."""

    def read(self, now: Moment) -> tuple[Reading, ...]:
        """The same names in every call. An unavailable value is unknown; this never raises."""
