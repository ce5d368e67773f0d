"""The device's signals of a day: one row a minute, in a table that does not grow."""

from __future__ import annotations

import builtins
from collections.abc import Iterable
from datetime import datetime, timedelta

from storage.database.codec import dump, dump_time
from storage.database.repository import Repository
from storage.database.rows import record
from storage.database.transaction import Transaction
from storage.records.jobs import DeviceMinute

KEPT = timedelta(hours=24)
_FORGET = "DELETE FROM device_history WHERE at < ? OR at > ?"


class DeviceHistory(Repository):
    """Minutes of the device by time; those recorded while the clock was ahead are deleted."""

    def add(self, minutes: Iterable[DeviceMinute]) -> None:
        """Store minutes, and delete those older than `KEPT`."""
        rows = [
            (dump_time(minute.at), minute.eligible, minute.trained_s, dump(minute.signals))
            for minute in minutes
        ]

        def insert(transaction: Transaction) -> None:
            transaction.executemany(
                "INSERT OR REPLACE INTO device_history VALUES (?, ?, ?, ?)", rows
            )
            now = transaction.now
            transaction.execute(_FORGET, (dump_time(now - KEPT), dump_time(now)))

        self._writer.write(insert, may_use_ballast=False)

    def since(self, moment: datetime) -> builtins.list[DeviceMinute]:
        """Minutes from this one on, oldest first."""
        rows = self._readers.all(
            "SELECT * FROM device_history WHERE at >= ? ORDER BY at", (dump_time(moment),)
        )
        return [record(DeviceMinute, row) for row in rows]
