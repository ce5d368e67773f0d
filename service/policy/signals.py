"""A snapshot's readings, with their types checked."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from msgspec import Struct

from service.device.reading import Reading


class Signals(Struct, frozen=True):
    """Readings by name. A name that is missing is unknown."""

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
