"""Lineage: which samples each job, and so each version, was trained on."""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from storage.database.connection import Readers, sqlite3
from storage.database.transaction import Transaction
from storage.database.writer import Writer
from storage.records.id_set import decode, encode
from storage.tables.job_rows import find_job

if TYPE_CHECKING:
    from numpy.typing import NDArray

Ids: TypeAlias = "NDArray[np.int64]"
_RECORD = """
INSERT INTO job_samples (job_id, ids) VALUES (?, ?) ON CONFLICT DO UPDATE SET ids = excluded.ids
"""
# Jobs of an older Hone and jobs that have just begun have no record: such a job may have read every
# sample up to its watermark.
_OF_MODEL = """
SELECT jobs.id AS job_id, ids, watermark FROM jobs LEFT JOIN job_samples ON jobs.id = job_id
WHERE model_id = ? AND started_at IS NOT NULL AND (
  ids IS NOT NULL OR state = 'running'
  OR EXISTS (SELECT 1 FROM versions WHERE versions.job_id = jobs.id)
)
"""
_RECORDED = "SELECT job_id FROM job_samples JOIN jobs ON jobs.id = job_id WHERE model_id = ?"


class Lineage:
    """Sets of sample ids by job, including those of the jobs that it started from."""

    def __init__(self, writer: Writer, readers: Readers) -> None:
        self._writer = writer
        self._readers = readers

    def add(self, job_id: int, ids: Ids, *, started_from: int | None) -> None:
        """Record the samples that a job will train on, in addition to earlier ones.

        started_from: the job whose parameters it began with. Raises NotFound.
        """

        def record(transaction: Transaction) -> None:
            find_job(transaction.connection, job_id)
            _record(transaction, job_id, ids, of={job_id, started_from} - {None})

        self._writer.write(record)

    def by(self, job_id: int) -> Ids | None:
        """Ascending ids that a job trained on; None if they were not recorded."""
        with self._readers.snapshot() as connection:
            return seen_by(connection, job_id)

    def jobs_that_saw(self, model_id: int, ids: Ids) -> builtins.list[int]:
        """Jobs that have trained on one of these samples."""
        with self._readers.snapshot() as connection:
            return jobs_that_saw(connection, model_id, ids)


def seen_by(connection: sqlite3.Connection, job_id: int | None) -> Ids | None:
    """Ascending ids that a job trained on; None if they were not recorded."""
    row = connection.execute("SELECT ids FROM job_samples WHERE job_id = ?", (job_id,)).fetchone()
    return None if row is None else decode(row["ids"])


def jobs_that_saw(connection: sqlite3.Connection, model_id: int, ids: Ids) -> builtins.list[int]:
    """Jobs of a model that have trained on one of these samples."""
    rows = connection.execute(_OF_MODEL, (model_id,)).fetchall()
    return [row["job_id"] for row in rows if _saw(row, ids)]


def count_as_seen(transaction: Transaction, model_id: int, ids: Ids) -> None:
    """Add these samples to the record of every job of a model."""
    for row in transaction.execute(_RECORDED, (model_id,)).fetchall():
        _record(transaction, row["job_id"], ids, of={row["job_id"]})


def _record(transaction: Transaction, job_id: int, ids: Ids, *, of: set[int | None]) -> None:
    """Record these samples, and all that the jobs in `of` used."""
    known = [seen_by(transaction.connection, each) for each in of]
    sets = [ids, *(each for each in known if each is not None)]
    transaction.execute(_RECORD, (job_id, encode(np.concatenate(sets))))


def _saw(row: sqlite3.Row, ids: Ids) -> bool:
    if row["ids"] is None:
        return bool((ids <= row["watermark"]).any())
    return bool(np.isin(ids, decode(row["ids"])).any())
