"""Lineage: which samples each job, and so each version, was trained on.

A job that started from another was trained on that one's samples too. Its record names the other,
and holds only the samples that it added: a model's records grow with its samples, not with those
times its jobs.
"""

from __future__ import annotations

import numpy as np

from storage.database.codec import dump
from storage.database.connection import sqlite3
from storage.database.repository import Repository, writes
from storage.database.transaction import Transaction
from storage.records.id_set import Ids, decode, encode, meeting, union
from storage.tables.jobs import find_job

_SEEN = """
WITH RECURSIVE line (job_id) AS (
  SELECT ? UNION SELECT started_from FROM job_samples JOIN line USING (job_id)
)
SELECT ids FROM job_samples JOIN line USING (job_id)
"""
# A job that has just begun has no record: it may have read every sample up to its watermark. So has
# one that was published without.
_OF_MODEL = """
SELECT jobs.id AS job_id, ids, watermark FROM jobs LEFT JOIN job_samples ON jobs.id = job_id
WHERE model_id = ? AND started_at IS NOT NULL AND (
  ids IS NOT NULL OR state = 'running'
  OR EXISTS (SELECT 1 FROM versions WHERE versions.job_id = jobs.id)
)
"""
_AND_THOSE_AFTER = """
WITH RECURSIVE saw (job_id) AS (
  SELECT value FROM json_each(?)
  UNION SELECT job_samples.job_id FROM job_samples JOIN saw ON started_from = saw.job_id
)
SELECT job_id FROM saw ORDER BY job_id
"""
_FIRST_ONES = """
SELECT job_id, ids FROM job_samples JOIN jobs ON jobs.id = job_id
WHERE model_id = ? AND started_from IS NULL
"""
_SET = """
INSERT INTO job_samples (job_id, started_from, ids) VALUES (?, ?, ?)
ON CONFLICT DO UPDATE SET started_from = excluded.started_from, ids = excluded.ids
"""
# No job can start from what is left of them, and there is nothing to delete if a sample goes. One
# that several jobs started from stays, or each of these would have to hold its samples.
_UNNEEDED = """
SELECT job_id, started_from, ids FROM job_samples JOIN jobs ON jobs.id = job_id
WHERE model_id = ? AND state IN ('succeeded', 'failed', 'cancelled')
  AND NOT EXISTS (SELECT 1 FROM versions WHERE versions.job_id = jobs.id)
  AND NOT EXISTS (SELECT 1 FROM checkpoints WHERE checkpoints.job_id = jobs.id)
  AND NOT EXISTS (SELECT 1 FROM job_files WHERE job_files.job_id = jobs.id)
  AND (SELECT count(*) FROM job_samples AS after WHERE after.started_from = jobs.id) < 2
ORDER BY job_id DESC LIMIT 1
"""


class Lineage(Repository):
    """Sets of sample ids by job, including those of the jobs that it started from."""

    @writes
    def add(
        self, transaction: Transaction, job_id: int, ids: Ids, *, started_from: int | None
    ) -> None:
        """Record the samples that a job will train on, in addition to earlier ones.

        started_from: the job whose parameters it began with. Raises NotFound.
        """
        find_job(transaction.connection, job_id)
        _record(transaction, job_id, ids, started_from=started_from)

    def by(self, job_id: int) -> Ids | None:
        """Ascending ids that a job trained on; None if they were not recorded."""
        return self._readers.read(seen_by, job_id)

    def jobs_that_saw(self, model_id: int, ids: Ids) -> list[int]:
        """Jobs that have trained on one of these samples."""
        return self._readers.read(jobs_that_saw, model_id, ids)


def seen_by(connection: sqlite3.Connection, job_id: int | None) -> Ids | None:
    """Ascending ids that a job trained on; None if they were not recorded."""
    sets = _line(connection, job_id)
    return union(sets) if sets else None


def jobs_that_saw(connection: sqlite3.Connection, model_id: int, ids: Ids) -> list[int]:
    """Jobs of a model that have trained on one of these samples, ascending."""
    rows = connection.execute(_OF_MODEL, (model_id,)).fetchall()
    unknown = [row for row in rows if row["ids"] is None]
    known = [row for row in rows if row["ids"] is not None]
    saw = [row["job_id"] for row in unknown if (ids <= row["watermark"]).any()]
    which = meeting((row["ids"] for row in known), ids)
    saw += [row["job_id"] for row, is_one in zip(known, which, strict=True) if is_one]
    return [row["job_id"] for row in connection.execute(_AND_THOSE_AFTER, (dump(saw),))]


def count_as_seen(transaction: Transaction, model_id: int, ids: Ids) -> None:
    """Add these samples to the record of every job of a model."""
    for row in transaction.execute(_FIRST_ONES, (model_id,)).fetchall():
        _set(transaction, row["job_id"], None, union([decode(row["ids"]), ids]))


def drop_unneeded(transaction: Transaction, model_id: int) -> None:
    """Drop the records of ended jobs of which nothing is left."""
    while (row := transaction.execute(_UNNEEDED, (model_id,)).fetchone()) is not None:
        _pass_on(transaction, row)
        transaction.execute("DELETE FROM job_samples WHERE job_id = ?", (row["job_id"],))


def _record(transaction: Transaction, job_id: int, ids: Ids, *, started_from: int | None) -> None:
    """Record these samples, and all that the job and the one that it started from used."""
    connection = transaction.connection
    own = connection.execute("SELECT * FROM job_samples WHERE job_id = ?", (job_id,)).fetchone()
    if own is not None:
        # Jobs that started from it did not use more than it had until then; and it may start from
        # one of them.
        _pass_on(transaction, own)
        ids = union([ids, *_line(connection, job_id)])
        started_from = own["started_from"] if started_from in (None, job_id) else started_from
    before = seen_by(connection, started_from)
    if before is not None:
        ids = ids[~np.isin(ids, before)]
    _set(transaction, job_id, None if before is None else started_from, ids)


def _pass_on(transaction: Transaction, row: sqlite3.Row) -> None:
    """Give what a record holds to those of the jobs that started from this one."""
    query = "SELECT job_id, ids FROM job_samples WHERE started_from = ?"
    for after in transaction.execute(query, (row["job_id"],)).fetchall():
        ids = union([decode(after["ids"]), decode(row["ids"])])
        _set(transaction, after["job_id"], row["started_from"], ids)


def _set(transaction: Transaction, job_id: int, started_from: int | None, ids: Ids) -> None:
    transaction.execute(_SET, (job_id, started_from, encode(ids)))


def _line(connection: sqlite3.Connection, job_id: int | None) -> list[Ids]:
    """What a job used, and each of those before it that it started from."""
    return [decode(row["ids"]) for row in connection.execute(_SEEN, (job_id,)).fetchall()]
