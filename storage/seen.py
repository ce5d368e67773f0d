"""Which samples a job has trained on, and forgetting the versions that saw what was erased."""

from __future__ import annotations

import builtins
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from storage.connection import Readers, sqlite3
from storage.files import FileStore
from storage.id_set import decode, encode
from storage.job_rows import find_job, move_job
from storage.promotions import LATEST, move_alias
from storage.records import Job, JobState
from storage.versions import find_version
from storage.writer import Transaction, Writer

Ids = NDArray[np.int64]
_RECORD = """
INSERT INTO job_samples (job_id, ids) VALUES (?, ?) ON CONFLICT DO UPDATE SET ids = excluded.ids
"""
# A job of an older Hone did not write down what it saw; its watermark bounds that.
_OF_MODEL = """
SELECT jobs.id AS job_id, ids, watermark FROM jobs LEFT JOIN job_samples ON jobs.id = job_id
WHERE model_id = ? AND started_at IS NOT NULL AND (
  ids IS NOT NULL OR EXISTS (SELECT 1 FROM versions WHERE versions.job_id = jobs.id)
)
"""
_WISHES = """
SELECT forgettings.job_id, forgettings.ids FROM forgettings JOIN jobs ON jobs.id = job_id
WHERE model_id = ? AND (jobs.id = ? OR jobs.state IN ('succeeded', 'failed', 'cancelled'))
"""
_REASON = "UPDATE versions SET reason = ? WHERE model_id = ? AND version = ?"
_ALIASES = """
SELECT alias FROM aliases WHERE model_id = ? AND version = ?
"""
_FILES_OF_VERSION = """
SELECT sha256 FROM versions WHERE model_id = :model_id AND version = :version
UNION SELECT sha256 FROM variants
WHERE model_id = :model_id AND version = :version AND sha256 IS NOT NULL
"""
_WAITING_FOR = """
SELECT id, state FROM jobs
WHERE state IN ('queued', 'paused') AND (
  id = :job_id
  OR start IN (SELECT CAST(id AS TEXT) FROM checkpoints WHERE job_id = :job_id)
)
"""


class SeenSamples:
    """Sets of sample ids by job; the sets of what a job started from are in its own."""

    def __init__(self, writer: Writer, readers: Readers, *, files: FileStore) -> None:
        self._writer = writer
        self._readers = readers
        self._files = files

    def add(self, job_id: int, ids: Ids, *, started_from: int | None) -> None:
        """Record what a job is about to train on; what it trained on before stays recorded.

        started_from: the job whose parameters it began with. Raises NotFound.
        """

        def record(transaction: Transaction) -> None:
            find_job(transaction.connection, job_id)
            sets = [ids]
            for known in {job_id, started_from} - {None}:
                found = _seen(transaction.connection, known)
                if found is not None:
                    sets.append(found)
            transaction.execute(_RECORD, (job_id, encode(np.concatenate(sets))))

        self._writer.write(record)

    def by(self, job_id: int) -> Ids | None:
        """What a job trained on, rising; None if that was not recorded."""
        with self._readers.snapshot() as connection:
            return _seen(connection, job_id)

    def jobs_that_saw(self, model_id: int, ids: Ids) -> builtins.list[int]:
        """Jobs that have trained on one of these samples."""
        with self._readers.snapshot() as connection:
            return _jobs_that_saw(connection, model_id, ids)

    def forget_after(self, job_id: int, ids: Iterable[int] | Ids) -> None:
        """Once a job succeeds, have `carry_out` delete the versions that saw these samples."""
        wish = (job_id, encode(ids))
        self._writer.write(
            lambda transaction: transaction.execute("INSERT INTO forgettings VALUES (?, ?)", wish)
        )

    def carry_out(self, job: Job) -> builtins.list[int]:
        """Delete the versions that saw erased samples, now that a job succeeded without them.

        Their aliases move to the job's version first; the checkpoints of every job that saw them
        go too, and waiting jobs that would start from one are cancelled. The versions' numbers.
        """

        def forget(transaction: Transaction) -> builtins.list[int]:
            gone: builtins.list[int] = []
            own = _seen(transaction.connection, job.id)
            wishes = transaction.execute(_WISHES, (job.model_id, job.id)).fetchall()
            if own is None or job.version is None:
                return gone
            for row in wishes:
                ids = decode(row["ids"])
                if np.isin(ids, own).any():
                    continue
                gone += self._forget(transaction, job, ids)
                transaction.execute("DELETE FROM forgettings WHERE job_id = ?", (row["job_id"],))
            return gone

        return self._writer.write(forget)

    def forget_at_once(self, model_id: int, ids: Ids) -> builtins.list[int]:
        """Delete the versions that saw these samples; their aliases move to version 1."""
        return self._writer.write(
            lambda transaction: self._forget_versions(transaction, model_id, ids, heir=1)
        )

    def unfinished_wishes(self) -> builtins.list[int]:
        """Jobs that have succeeded, and whose wish is yet to be carried out."""
        with self._readers.snapshot() as connection:
            rows = connection.execute(
                "SELECT job_id FROM forgettings JOIN jobs ON jobs.id = job_id "
                "WHERE state = 'succeeded'"
            ).fetchall()
        return [row["job_id"] for row in rows]

    def _forget(self, transaction: Transaction, job: Job, ids: Ids) -> builtins.list[int]:
        assert job.version is not None
        return self._forget_versions(transaction, job.model_id, ids, heir=job.version)

    def _forget_versions(
        self, transaction: Transaction, model_id: int, ids: Ids, *, heir: int
    ) -> builtins.list[int]:
        gone: builtins.list[int] = []
        hashes: builtins.list[str] = []
        for job_id in _jobs_that_saw(transaction.connection, model_id, ids):
            for row in transaction.execute(_WAITING_FOR, {"job_id": job_id}).fetchall():
                state = JobState(row["state"])
                move_job(transaction, row["id"], from_=state, to=JobState.CANCELLED, fields={})
            versions = transaction.execute(
                "SELECT version FROM versions WHERE job_id = ? ORDER BY version", (job_id,)
            ).fetchall()
            for row in versions:
                hashes += _delete_version(transaction, model_id, row["version"], heir=heir)
                gone.append(row["version"])
            rows = transaction.execute(
                "DELETE FROM checkpoints WHERE job_id = ? RETURNING sha256", (job_id,)
            ).fetchall()
            hashes += [row["sha256"] for row in rows]
        self._files.release(transaction, hashes)
        return gone


def _delete_version(
    transaction: Transaction, model_id: int, number: int, *, heir: int
) -> builtins.list[str]:
    """Remove a version once its aliases name the heir; the files that it had."""
    version = find_version(transaction.connection, model_id, heir)
    for row in transaction.execute(_ALIASES, (model_id, number)).fetchall():
        move_alias(transaction, version, row["alias"])
        if row["alias"] == LATEST:
            why = f"latest, because version {number} had seen erased samples"
            reason = f"{why} (before: {version.reason})"
            transaction.execute(_REASON, (reason, model_id, heir))
    key = {"model_id": model_id, "version": number}
    files = [row["sha256"] for row in transaction.execute(_FILES_OF_VERSION, key)]
    transaction.execute(
        "DELETE FROM versions WHERE model_id = :model_id AND version = :version", key
    )
    transaction.event("version.deleted", version.model, {"version": number})
    return files


def _seen(connection: sqlite3.Connection, job_id: int | None) -> Ids | None:
    row = connection.execute("SELECT ids FROM job_samples WHERE job_id = ?", (job_id,)).fetchone()
    return None if row is None else decode(row["ids"])


def _jobs_that_saw(connection: sqlite3.Connection, model_id: int, ids: Ids) -> builtins.list[int]:
    rows = connection.execute(_OF_MODEL, (model_id,)).fetchall()
    return [row["job_id"] for row in rows if _saw(row, ids)]


def _saw(row: sqlite3.Row, ids: Ids) -> bool:
    if row["ids"] is None:
        return bool((ids <= row["watermark"]).any())
    return bool(np.isin(ids, decode(row["ids"])).any())
