"""The stored policy and pauses, and each day's training time."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any

from storage.database.codec import dump, dump_time
from storage.database.repository import Repository, writes
from storage.database.rows import record
from storage.database.transaction import Transaction
from storage.records.jobs import StoredPolicy

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
