"""The device's last day: its readings, minute by minute."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from msgspec import Struct, field

from service.device.reading import Moment, Reading
from storage.records.jobs import DeviceMinute
from storage.tables.policy import MINUTES_KEPT_FOR, DeviceHistory

MINUTE = timedelta(minutes=1)
WRITTEN_EVERY = 15
"""Minutes written together, so that an idle device's disk can sleep. A killed daemon loses at most
these."""
MOST_WAITING = int(MINUTES_KEPT_FOR / MINUTE)


class _Gathered(Struct, frozen=True):
    """One minute so far. sums: of each signal, with how many were added."""

    at: datetime
    eligible: bool = True
    trained_s: float = 0.0
    sums: Mapping[str, tuple[float, int]] = field(default_factory=dict)

    def plus(self, signals: Mapping[str, float], *, eligible: bool, trained_s: float) -> _Gathered:
        sums = dict(self.sums)
        for name, value in signals.items():
            total, count = sums.get(name, (0.0, 0))
            sums[name] = (total + value, count + 1)
        return _Gathered(self.at, self.eligible and eligible, self.trained_s + trained_s, sums)

    def minute(self) -> DeviceMinute:
        means = {name: _short(total / count) for name, (total, count) in self.sums.items()}
        return DeviceMinute(self.at, self.eligible, round(self.trained_s, 1), means)


class SignalHistory:
    """Averages readings by the minute. One thread at a time may add; any may read."""

    def __init__(self, rows: DeviceHistory) -> None:
        self._rows = rows
        self._now: _Gathered | None = None
        self._waiting: tuple[DeviceMinute, ...] = ()
        self._trained_today_s: float | None = None
        self.is_due = False
        """Whether enough minutes have accumulated to be written."""

    def add(
        self, at: Moment, signals: Mapping[str, Reading], *, eligible: bool, trained_today_s: float
    ) -> None:
        """Add one reading to its minute."""
        minute = at.wall.replace(second=0, microsecond=0)
        if self._now is None or self._now.at != minute:
            self._close_minute()
            self._now = _Gathered(minute)
        before, self._trained_today_s = self._trained_today_s, trained_today_s
        # The count restarts at midnight.
        trained_s = trained_today_s - (before if before is not None else trained_today_s)
        self._now = self._now.plus(
            {
                name: float(signal.value)
                for name, signal in signals.items()
                if isinstance(signal.value, bool | int | float)
            },
            eligible=eligible,
            trained_s=trained_s if trained_s >= 0 else trained_today_s,
        )

    def write(self) -> None:
        """Store the pending minutes. Those that cannot be written are kept for the next time."""
        self.is_due = False
        waiting = self._waiting
        if waiting:
            self._rows.add(waiting)
            self._waiting = self._waiting[len(waiting) :]

    def close(self) -> None:
        """Write everything, including the current minute."""
        self._close_minute()
        self.write()

    def since(self, moment: datetime) -> list[DeviceMinute]:
        """The minutes since then, stored or not yet, oldest first. Blocking."""
        now, waiting = self._now, self._waiting  # before the rows, which may include them by then
        known = {row.at: row for row in self._rows.since(moment)}
        begun = () if now is None else (now.minute(),)
        known |= {row.at: row for row in (*waiting, *begun) if row.at >= moment}
        return [known[at] for at in sorted(known)]

    def _close_minute(self) -> None:
        if self._now is not None:
            self._waiting = (*self._waiting, self._now.minute())[-MOST_WAITING:]
            self._now = None
            self.is_due = len(self._waiting) % WRITTEN_EVERY == 0


class Intervals(Struct, frozen=True):
    """Minutes merged into intervals without gaps: None where nothing is known.

    since: start of the first. eligible: for the whole interval.
    """

    since: datetime
    eligible: tuple[bool | None, ...]
    trained_s: tuple[float, ...]
    signals: Mapping[str, tuple[float | None, ...]]


def intervals(
    minutes: Iterable[DeviceMinute], *, since: datetime, until: datetime, length: timedelta
) -> Intervals:
    """Means over each interval from `since` to `until`."""
    count = max(1, -((since - until) // length))
    by_interval: list[list[DeviceMinute]] = [[] for _ in range(count)]
    for minute in minutes:
        if since <= minute.at < since + count * length:
            by_interval[(minute.at - since) // length].append(minute)
    names = dict.fromkeys(name for some in by_interval for row in some for name in row.signals)
    return Intervals(
        since,
        tuple(all(row.eligible for row in some) if some else None for some in by_interval),
        tuple(round(sum(row.trained_s for row in some), 1) for some in by_interval),
        {name: tuple(_mean(some, name) for some in by_interval) for name in names},
    )


def _mean(minutes: Sequence[DeviceMinute], name: str) -> float | None:
    known = [minute.signals[name] for minute in minutes if name in minute.signals]
    return _short(sum(known) / len(known)) if known else None


def _short(value: float) -> float:
    """Round to what a chart can show: a day of these values is stored."""
    return float(f"{value:.5g}")
