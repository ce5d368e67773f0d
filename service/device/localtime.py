"""The time of day where the device is."""

from __future__ import annotations

import os
import time
from pathlib import Path

from service.device.reading import Moment, Reading

NAME = "local_time"
ZONE_FILE = Path("/etc/localtime")


class LocalTime:
    """The wall clock in the device's time zone.

    The value carries its offset from UTC, so daylight saving is in it. A zone that the person
    changes is seen at the next reading; on Windows only after a restart of the daemon.
    """

    def read(self, now: Moment) -> tuple[Reading, ...]:
        """local_time: an aware datetime."""
        if hasattr(time, "tzset"):
            time.tzset()
        local = now.wall.astimezone()
        return (Reading(NAME, local, "", _zone() or str(local.tzname()), now),)


def _zone() -> str:
    named = os.environ.get("TZ")
    if named:
        return f"TZ={named}"
    try:
        target = str(ZONE_FILE.readlink())
    except OSError:
        return ""
    return target.rpartition("zoneinfo/")[2]
