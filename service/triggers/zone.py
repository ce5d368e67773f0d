"""The time zone for cron expressions and times of day."""

from __future__ import annotations

import time
from datetime import datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo


class LocalZone(tzinfo):
    """The device's own zone according to its C library, which accepts every form of TZ.

    It treats an invalid TZ as UTC, and so do the policy's windows.
    """

    def utcoffset(self, moment: datetime | None) -> timedelta | None:
        """In a skipped hour the offset before it, in a repeated one by `fold` (PEP 495)."""
        if moment is None:
            return None
        naive = moment.replace(tzinfo=None, microsecond=0)
        ahead_s = naive.replace(tzinfo=timezone.utc).timestamp() - naive.timestamp()
        return timedelta(seconds=ahead_s)

    def fromutc(self, moment: datetime) -> datetime:
        """`moment` counts in UTC, as tzinfo has it."""
        whole = moment.replace(tzinfo=timezone.utc, microsecond=0)
        local = datetime.fromtimestamp(whole.timestamp())
        return local.replace(tzinfo=self, microsecond=moment.microsecond)

    def dst(self, moment: datetime | None) -> timedelta | None:  # noqa: ARG002
        """Not known apart from the offset."""
        return None

    def tzname(self, moment: datetime | None) -> str | None:  # noqa: ARG002
        """Of the zone, not of the moment."""
        return "the device's"


def zone_of(name: str | None) -> tzinfo:
    """The named time zone, or the device's current one. Raises ValueError for a name."""
    if name is None:
        return local_zone()
    try:
        return ZoneInfo(name)
    except (KeyError, OSError, ValueError) as error:
        raise ValueError(f"there is no time zone {name!r}; one is Europe/Berlin") from error


def local_zone() -> tzinfo:
    """The device's own. Without tzset, as on Windows, the C library keeps the zone of its start."""
    if not hasattr(time, "tzset"):
        return registry_zone()
    time.tzset()
    return LocalZone()


def registry_zone() -> tzinfo:
    """The zone in the system's current settings, or the C library's if they name none."""
    from tzlocal import reload_localzone

    try:
        return reload_localzone()
    except (LookupError, OSError, ValueError):
        return LocalZone()
