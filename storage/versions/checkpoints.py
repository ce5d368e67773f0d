"""Checkpoints: training states from which jobs resume."""

from __future__ import annotations

import builtins
from collections.abc import Iterable, Sequence
from typing import Any

from storage.blobs.files import FileStore
from storage.database.codec import dump, dump_time
from storage.database.connection import Readers, sqlite3
from storage.database.repository import Repository, writes
from storage.database.rows import record
from storage.database.transaction import Transaction
from storage.database.writer import Writer
from storage.errors import InUse, NotFound
from storage.records.models import FileRecord
from storage.records.versions import Checkpoint
from storage.tables.job_rows import find_job

_SELECT = "SELECT checkpoints.*, size_bytes FROM checkpoints JOIN files USING (sha256)"
_KEPT = {"periodic": 2, "best": 1}
_NEEDED_BY_VERSION = "SELECT 1 FROM versions WHERE checkpoint_id = :id"
# `start` holds an id as text when a job begins from a checkpoint.
_NEEDED_AS_START = """
SELECT 1 FROM jobs
WHERE state IN ('queued', 'running', 'paused') AND start = CAST(:id AS TEXT)
"""
_NEEDED_TO_RESUME = """
SELECT 1 FROM checkpoints JOIN jobs ON jobs.id = checkpoints.job_id
WHERE checkpoints.id = :id AND jobs.state IN ('queued', 'running', 'paused')
"""
_SUPERSEDED = """
SELECT id, sha256 FROM checkpoints WHERE job_id = ? AND role = ? AND NOT pinned
ORDER BY id DESC LIMIT -1 OFFSET ?
"""


class Checkpoints(Repository):
    """Checkpoints by id."""

    def __init__(self, writer: Writer, readers: Readers, *, files: FileStore) -> None:
        super().__init__(writer, readers)
        self._files = files

    @writes
    def add(
        self,
        transaction: Transaction,
        *,
        model_id: int,
        job_id: int,
        role: str,
        step: int,
        epoch: int,
        engine: str,
        file: FileRecord,
        state: dict[str, Any],
    ) -> Checkpoint:
        """Record an adopted file as a checkpoint, and drop the job's older ones of that role.

        Two `periodic` ones and one `best` stay, and so do pinned ones and those needed elsewhere.
        Raises NotFound.
        """
        job = find_job(transaction.connection, job_id)
        self._files.reference(transaction, [file])
        values = {
            "model_id": model_id,
            "job_id": job_id,
            "role": role,
            "step": step,
            "epoch": epoch,
            "engine": engine,
            "sha256": file.sha256,
            "state": dump(state),
            "created_at": dump_time(transaction.now),
        }
        row = transaction.insert("checkpoints", values)
        self._drop_superseded(transaction, job_id, role)
        data = {"checkpoint_id": row["id"], "job_id": job_id, "role": role, "step": step}
        transaction.event("checkpoint.saved", job.model, data)
        return _one(transaction.connection, row["id"])

    def get(self, id: int) -> Checkpoint:  # noqa: A002
        """Raises NotFound."""
        return self._readers.read(_one, id)

    def list(
        self, model_id: int, limit: int, after: int | None = None
    ) -> builtins.list[Checkpoint]:
        """Checkpoints of a model, newest first; after: the last page's last id."""
        condition, parameters = ("id < ?", (after,)) if after is not None else ("1", ())
        rows = self._readers.all(
            f"{_SELECT} WHERE model_id = ? AND {condition} ORDER BY id DESC LIMIT ?",
            (model_id, *parameters, limit),
        )
        return [_checkpoint(row) for row in rows]

    def latest_of(
        self, job_id: int, roles: Sequence[str] = ("periodic", "final")
    ) -> Checkpoint | None:
        """The job's newest checkpoint of these roles that is not known to be damaged."""
        marks = ", ".join("?" * len(roles))
        row = self._readers.one(
            f"{_SELECT} WHERE job_id = ? AND role IN ({marks}) "  # noqa: S608
            "AND sha256 NOT IN (SELECT sha256 FROM damaged_files) ORDER BY id DESC LIMIT 1",
            (job_id, *roles),
        )
        return None if row is None else _checkpoint(row)

    @writes
    def update(
        self,
        transaction: Transaction,
        id: int,  # noqa: A002
        *,
        pinned: bool | None = None,
        note: str | None = None,
    ) -> Checkpoint:
        """Replace the fields that are set. Raises NotFound."""
        transaction.execute(
            "UPDATE checkpoints SET pinned = coalesce(?, pinned), note = coalesce(?, note) "
            "WHERE id = ?",
            (pinned, note, id),
        )
        return _one(transaction.connection, id)

    @writes
    def delete(self, transaction: Transaction, id: int) -> None:  # noqa: A002
        """Raises NotFound, and InUse while a version or an unfinished job needs it."""
        checkpoint = _one(transaction.connection, id)
        for user, query in (
            ("a version was exported from it", _NEEDED_BY_VERSION),
            ("a job that is not finished starts from it", _NEEDED_AS_START),
            (f"job {checkpoint.job_id} may go on from it", _NEEDED_TO_RESUME),
        ):
            if transaction.execute(query, {"id": id}).fetchone():
                raise InUse(f"checkpoint {id} cannot be deleted: {user}")
        self._drop(transaction, [id], [checkpoint.file.sha256])

    def _drop_superseded(self, transaction: Transaction, job_id: int, role: str) -> None:
        if role not in _KEPT:
            return
        rows = [
            row
            for row in transaction.execute(_SUPERSEDED, (job_id, role, _KEPT[role])).fetchall()
            if not _needed_elsewhere(transaction, row["id"])
        ]
        self._drop(transaction, [row["id"] for row in rows], [row["sha256"] for row in rows])

    def _drop(self, transaction: Transaction, ids: Iterable[int], hashes: Iterable[str]) -> None:
        transaction.executemany("DELETE FROM checkpoints WHERE id = ?", [(each,) for each in ids])
        self._files.release(transaction, hashes)


def _needed_elsewhere(transaction: Transaction, checkpoint_id: int) -> bool:
    return any(
        transaction.execute(query, {"id": checkpoint_id}).fetchone()
        for query in (_NEEDED_BY_VERSION, _NEEDED_AS_START)
    )


def no_checkpoint(checkpoint_id: int) -> NotFound:
    """The error for a checkpoint that does not exist."""
    return NotFound(f"there is no checkpoint {checkpoint_id}")


def _one(connection: sqlite3.Connection, checkpoint_id: int) -> Checkpoint:
    row = connection.execute(f"{_SELECT} WHERE id = ?", (checkpoint_id,)).fetchone()
    if row is None:
        raise no_checkpoint(checkpoint_id)
    return _checkpoint(row)


def _checkpoint(row: sqlite3.Row) -> Checkpoint:
    return record(Checkpoint, row, file=record(FileRecord, row))
