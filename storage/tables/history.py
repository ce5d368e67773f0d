"""Deletes old events, curves, logs, and jobs that nothing needs any more."""

from __future__ import annotations

from datetime import timedelta

from storage.database.codec import dump_time
from storage.database.repository import Repository, writes
from storage.database.transaction import Transaction

EVENTS_KEPT = 10_000
"""The maximum number of events, however recent."""
_EVENTS = "DELETE FROM events WHERE created_at < ? OR id <= (SELECT max(id) FROM events) - ?"
_OF_JOBS = tuple(
    f"DELETE FROM {table} WHERE job_id IN (SELECT id FROM jobs WHERE finished_at < ?)"  # noqa: S608
    for table in ("curves", "metrics", "job_logs")
)
# A model's newest job tells when it was last trained, and the last that made a version which number
# comes next. A job's checkpoints would be deleted with it, so they keep it, as do its versions, its
# files, and triggers, bases, forgettings and records of samples that refer to it.
_JOBS = """
DELETE FROM jobs WHERE finished_at < ?
  AND id NOT IN (SELECT max(id) FROM jobs GROUP BY model_id)
  AND id NOT IN (SELECT max(id) FROM jobs WHERE version IS NOT NULL GROUP BY model_id)
  AND NOT EXISTS (SELECT 1 FROM versions WHERE versions.job_id = jobs.id)
  AND NOT EXISTS (SELECT 1 FROM checkpoints WHERE checkpoints.job_id = jobs.id)
  AND NOT EXISTS (SELECT 1 FROM forgettings WHERE forgettings.job_id = jobs.id)
  AND NOT EXISTS (SELECT 1 FROM triggers WHERE triggers.job_id = jobs.id)
  AND NOT EXISTS (SELECT 1 FROM bases WHERE bases.job_id = jobs.id)
  AND NOT EXISTS (SELECT 1 FROM job_files WHERE job_files.job_id = jobs.id)
  AND NOT EXISTS (SELECT 1 FROM job_samples WHERE job_samples.started_from = jobs.id)
"""


class History(Repository):
    """Deletes old rows."""

    @writes
    def prune(
        self, transaction: Transaction, age: timedelta, *, events_kept: int = EVENTS_KEPT
    ) -> int:
        """Delete rows of what ended longer ago than `age`; returns how many."""
        before = dump_time(transaction.now - age)
        gone = transaction.execute(_EVENTS, (before, events_kept)).rowcount
        gone += sum(transaction.execute(job, (before,)).rowcount for job in _OF_JOBS)
        return gone + transaction.execute(_JOBS, (before,)).rowcount
