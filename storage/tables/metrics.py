"""The curves of jobs."""

from __future__ import annotations

import builtins

from storage.database.codec import dump, load
from storage.database.connection import Readers
from storage.database.transaction import Transaction
from storage.database.writer import Writer
from storage.records.jobs import MetricPoint

_ADD = """
INSERT INTO metrics (job_id, step, epoch, measured) VALUES (?, ?, ?, ?)
ON CONFLICT DO UPDATE SET
  epoch = excluded.epoch, measured = json_patch(measured, excluded.measured)
"""


class Metrics:
    """Points by job and step: one point per step, with every value measured there."""

    def __init__(self, writer: Writer, readers: Readers) -> None:
        self._writer = writer
        self._readers = readers

    def add(self, job_id: int, points: builtins.list[MetricPoint]) -> None:
        """Add values; at an existing step they are added, or replace those of the same name.

        Raises ValueError if a value is not finite, NotFound if there is no such job.
        """
        rows = [(job_id, point.step, point.epoch, dump(point.values)) for point in points]

        def insert(transaction: Transaction) -> None:
            transaction.executemany(_ADD, rows)

        self._writer.write(insert)

    def list(
        self, job_id: int, limit: int, after_step: int | None = None
    ) -> builtins.list[MetricPoint]:
        """Points after `after_step`, by step."""
        after = -1 if after_step is None else after_step
        with self._readers.snapshot() as connection:
            rows = connection.execute(
                "SELECT * FROM metrics WHERE job_id = ? AND step > ? ORDER BY step LIMIT ?",
                (job_id, after, limit),
            ).fetchall()
        return [MetricPoint(row["step"], row["epoch"], load(row["measured"])) for row in rows]
