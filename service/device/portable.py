"""Sensors of every platform: free disk space, local time, and signals that it does not tell."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

from service.device.linux.files import reason
from service.device.reading import Moment, Reading

ZONE_FILE = Path("/etc/localtime")


class FreeDisk:
    """Free space on the data folder's disk, as far as an ordinary user may use it."""

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir

    def read(self, now: Moment) -> tuple[Reading, ...]:
        """free_disk_bytes."""
        free, detail = None, ""
        try:
            free = shutil.disk_usage(self._data_dir).free
        except OSError as error:
            detail = reason(error, str(self._data_dir))
        return (Reading("free_disk_bytes", free, "B", str(self._data_dir), now, detail),)


class LocalTime:
    """The wall clock in the device's time zone.

    The value has its offset from UTC, including daylight saving. A changed zone takes effect at the
    next reading; on Windows only after a restart of the daemon.
    """

    def read(self, now: Moment) -> tuple[Reading, ...]:
        """local_time: an aware datetime."""
        if hasattr(time, "tzset"):
            time.tzset()
        local = now.wall.astimezone()
        return (Reading("local_time", local, "", _zone() or str(local.tzname()), now),)


class Untold:
    """Signals that this platform does not tell."""

    def __init__(self, *names: str, unit: str, why: str) -> None:
        self._names = names
        self._unit = unit
        self._why = why

    def read(self, now: Moment) -> tuple[Reading, ...]:
        """All unknown."""
        return tuple(Reading(n, None, self._unit, "none", now, self._why) for n in self._names)


def _zone() -> str:
    named = os.environ.get("TZ")
    if named:
        return f"TZ={named}"
    try:
        target = str(ZONE_FILE.readlink())
    except OSError:
        return ""
    return target.rpartition("zoneinfo/")[2]
