"""When the device trains: the policy and pauses, each day's training time, the signals of a day."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, datetime, timedelta
from typing import Any

from storage.database.codec import dump, dump_time
from storage.database.repository import Repository, writes
from storage.database.rows import record
from storage.database.transaction import Transaction
from storage.records.jobs import DeviceMinute, StoredPolicy

DAYS_KEPT = 400
_ADD_SECONDS = """
INSERT INTO training_days VALUES (?, ?)
ON CONFLICT DO UPDATE SET seconds = seconds + excluded.seconds
"""
_FORGET_DAYS = """
DELETE FROM training_days WHERE day NOT IN (
  SELECT day FROM training_days ORDER BY day DESC LIMIT ?
)
"""
MINUTES_KEPT_FOR = timedelta(hours=24)
_FORGET = "DELETE FROM device_history WHERE at < ? OR at > ?"


class PolicyRows(Repository):
    """The policy's settings, snooze and pause, and the seconds of training per day."""

    def get(self) -> StoredPolicy:
        """The policy as it was last set."""
        return record(StoredPolicy, self._readers.one("SELECT * FROM policy"))

    def set_settings(self, settings: dict[str, Any] | None) -> None:
        """Replace the settings; None restores the device's defaults."""
        text = None if settings is None else dump(settings)
        self._set("settings", text, {"changed": "policy"})

    def set_snooze(self, until: datetime | None) -> None:
        """Snooze training until this time; None ends the snooze."""
        text = None if until is None else dump_time(until)
        self._set("snoozed_until", text, {"changed": "snooze", "until": text})

    def set_paused(self, paused: bool) -> None:
        """Pause all training, or resume it."""
        self._set("paused", int(paused), {"changed": "pause", "paused": paused})

    def trained_s(self, day: date) -> float:
        """Seconds of training on a local day."""
        row = self._readers.one(
            "SELECT seconds FROM training_days WHERE day = ?", (day.isoformat(),)
        )
        return 0.0 if row is None else float(row["seconds"])

    @writes
    def add_trained(self, transaction: Transaction, day: date, seconds: float) -> None:
        """Add seconds of training to a local day."""
        transaction.execute(_ADD_SECONDS, (day.isoformat(), seconds))
        transaction.execute(_FORGET_DAYS, (DAYS_KEPT,))

    @writes
    def _set(
        self, transaction: Transaction, column: str, value: str | int | None, told: dict[str, Any]
    ) -> None:
        transaction.execute(f"UPDATE policy SET {column} = ?", (value,))  # noqa: S608 - our own
        transaction.event("policy.updated", None, told)


class DeviceHistory(Repository):
    """Minutes of the device by time; those recorded while the clock was ahead are deleted."""

    def add(self, minutes: Iterable[DeviceMinute]) -> None:
        """Store minutes, and delete those older than `MINUTES_KEPT_FOR`."""
        rows = [
            (dump_time(minute.at), minute.eligible, minute.trained_s, dump(minute.signals))
            for minute in minutes
        ]

        def insert(transaction: Transaction) -> None:
            transaction.executemany(
                "INSERT OR REPLACE INTO device_history VALUES (?, ?, ?, ?)", rows
            )
            now = transaction.now
            transaction.execute(_FORGET, (dump_time(now - MINUTES_KEPT_FOR), dump_time(now)))

        self._writer.write(insert, may_use_ballast=False)

    def since(self, moment: datetime) -> list[DeviceMinute]:
        """Minutes from this one on, oldest first."""
        rows = self._readers.all(
            "SELECT * FROM device_history WHERE at >= ? ORDER BY at", (dump_time(moment),)
        )
        return [record(DeviceMinute, row) for row in rows]
