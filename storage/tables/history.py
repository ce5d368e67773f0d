"""Deletes old events, curves, logs, and jobs that nothing needs any more."""

from __future__ import annotations

from datetime import timedelta

from storage.database.codec import dump_time
from storage.database.transaction import Transaction
from storage.database.writer import Writer

EVENTS_KEPT = 10_000
"""At most so many, however young they are."""
_EVENTS = "DELETE FROM events WHERE created_at < ? OR id <= (SELECT max(id) FROM events) - ?"
_CURVES = "DELETE FROM metrics WHERE job_id IN (SELECT id FROM jobs WHERE finished_at < ?)"
_LOGS = "DELETE FROM job_logs WHERE job_id IN (SELECT id FROM jobs WHERE finished_at < ?)"
# The newest job of a model says when that was trained last. A checkpoint goes with its job, so one
# that is there keeps it; so does a version, which was made by it, and what asks for its like.
_JOBS = """
DELETE FROM jobs WHERE finished_at < ?
  AND id NOT IN (SELECT max(id) FROM jobs GROUP BY model_id)
  AND NOT EXISTS (SELECT 1 FROM versions WHERE versions.job_id = jobs.id)
  AND NOT EXISTS (SELECT 1 FROM checkpoints WHERE checkpoints.job_id = jobs.id)
  AND NOT EXISTS (SELECT 1 FROM forgettings WHERE forgettings.job_id = jobs.id)
  AND NOT EXISTS (SELECT 1 FROM triggers WHERE triggers.job_id = jobs.id)
  AND NOT EXISTS (SELECT 1 FROM job_files WHERE job_files.job_id = jobs.id)
"""


class History:
    """Removes what is old."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    def prune(self, age: timedelta, *, events_kept: int = EVENTS_KEPT) -> int:
        """Forget what ended longer ago than this; how many rows went."""

        def delete(transaction: Transaction) -> int:
            before = dump_time(transaction.now - age)
            gone = transaction.execute(_EVENTS, (before, events_kept)).rowcount
            gone += transaction.execute(_CURVES, (before,)).rowcount
            gone += transaction.execute(_LOGS, (before,)).rowcount
            return gone + transaction.execute(_JOBS, (before,)).rowcount

        return self._writer.write(delete)
