"""Checkpoints: training states from which jobs resume."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any

from storage.database.codec import dump, dump_time
from storage.database.connection import sqlite3
from storage.database.repository import FileRepository, writes
from storage.database.rows import matching, record
from storage.database.transaction import Transaction
from storage.errors import InUse, NotFound
from storage.records.models import FileRecord
from storage.records.versions import Checkpoint
from storage.tables.jobs import find_job

_SELECT = "SELECT checkpoints.*, size_bytes FROM checkpoints JOIN files USING (sha256)"
_KEPT = {"periodic": 2, "best": 1}
_BY_VERSION = "EXISTS (SELECT 1 FROM versions WHERE checkpoint_id = checkpoints.id)"
# `start` holds an id as text when a job begins from a checkpoint.
_AS_START = """EXISTS (
  SELECT 1 FROM jobs
  WHERE state IN ('queued', 'running', 'paused') AND start = CAST(checkpoints.id AS TEXT)
)"""
_TO_RESUME = """EXISTS (
  SELECT 1 FROM jobs
  WHERE jobs.id = checkpoints.job_id AND state IN ('queued', 'running', 'paused')
)"""
UNNEEDED = f"NOT {_BY_VERSION} AND NOT {_AS_START}"
"""Whether neither a version nor another job needs a checkpoint."""
_DROP_SUPERSEDED = f"""
DELETE FROM checkpoints WHERE id IN (
  SELECT id FROM checkpoints WHERE job_id = ? AND role = ? AND NOT pinned
  ORDER BY id DESC LIMIT -1 OFFSET ?
) AND {UNNEEDED} RETURNING sha256
"""  # noqa: S608 - our own
_DELETE = "DELETE FROM checkpoints WHERE id = ? RETURNING sha256"


class Checkpoints(FileRepository):
    """Checkpoints by id."""

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
        if role in _KEPT:
            superseded = (job_id, role, _KEPT[role])
            self._files.release_deleted(transaction, _DROP_SUPERSEDED, superseded)
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
        condition, values = matching(("model_id = ?", model_id), ("id < ?", after))
        query = f"{_SELECT} WHERE {condition} ORDER BY id DESC LIMIT ?"
        rows = self._readers.all(query, (*values, limit))
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
        for user, condition in (
            ("a version was exported from it", _BY_VERSION),
            ("a job that is not finished starts from it", _AS_START),
            (f"job {checkpoint.job_id} may go on from it", _TO_RESUME),
        ):
            query = f"SELECT 1 FROM checkpoints WHERE id = ? AND {condition}"  # noqa: S608
            if transaction.execute(query, (id,)).fetchone():
                raise InUse(f"checkpoint {id} cannot be deleted: {user}")
        self._files.release_deleted(transaction, _DELETE, (id,))


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
