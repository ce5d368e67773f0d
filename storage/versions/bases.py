"""Bases: the forward files that a model's versions descend from, and the upgrade to a new one.

The current base is that of the version that `latest` names; so it changes with it, in one
transaction, and a rollback returns to the old one. An upgrade is a base of which no version was
`latest` yet.
"""

from __future__ import annotations

import builtins
import shutil
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from storage.blobs.cache_folder import cache_path
from storage.blobs.files import FileStore
from storage.database.codec import dump
from storage.database.connection import Readers, sqlite3
from storage.database.repository import Repository, writes
from storage.database.rows import record
from storage.database.transaction import Transaction
from storage.database.writer import Writer
from storage.errors import InUse, NotFound
from storage.records.jobs import Job, JobState, NewJob
from storage.records.models import Base, NewModel
from storage.tables.jobs import fetch_jobs, insert_job, move_job
from storage.tables.model_rows import LABELLED, find_model, insert_base, model_name

_SELECT = """
SELECT bases.*, (
  SELECT json_group_array(version) FROM versions
  WHERE versions.model_id = bases.model_id AND versions.base = bases.base
) AS versions
FROM bases WHERE model_id = ? ORDER BY base
"""
# Jobs of a dropped base stay, so that its number is not given again.
_NEXT = """
SELECT 1 + max(base) AS base FROM (
  SELECT base FROM bases WHERE model_id = :model_id
  UNION ALL SELECT base FROM jobs WHERE model_id = :model_id
)
"""
_WAITING = """
SELECT name, model_id, base FROM bases JOIN models ON models.id = model_id WHERE adopted_at IS NULL
"""
_QUEUED = f"""
UPDATE bases SET job_id = ?, labelled = ({LABELLED})
FROM models WHERE models.id = model_id AND model_id = ? AND base = ?
"""  # noqa: S608 - our own
_UNFINISHED = """
WHERE jobs.model_id = ? AND jobs.base = ? AND state IN ('queued', 'running', 'paused')
"""
_NAMED = """
SELECT alias, version FROM aliases JOIN versions USING (model_id, version)
WHERE model_id = ? AND base = ? LIMIT 1
"""
_DELETE_WITH_FILES = (
    "DELETE FROM variants WHERE model_id = :model_id AND version IN "
    "(SELECT version FROM versions WHERE model_id = :model_id AND base = :base) RETURNING sha256",
    "DELETE FROM versions WHERE model_id = :model_id AND base = :base RETURNING sha256",
    "DELETE FROM checkpoints WHERE job_id IN "
    "(SELECT id FROM jobs WHERE model_id = :model_id AND base = :base) RETURNING sha256",
    "DELETE FROM base_files WHERE model_id = :model_id AND base = :base RETURNING sha256",
)
_DELETE = "DELETE FROM bases WHERE model_id = :model_id AND base = :base"
# The first stays with version 1, the current one has a version; upgrades wait without any.
_UNUSED = """
SELECT base FROM bases WHERE model_id = :model_id AND base > 1 AND adopted_at IS NOT NULL
  AND NOT EXISTS (
    SELECT 1 FROM versions WHERE model_id = :model_id AND versions.base = bases.base)
  AND NOT EXISTS (
    SELECT 1 FROM jobs WHERE model_id = :model_id AND jobs.base = bases.base AND (
      state IN ('queued', 'running', 'paused')
      OR EXISTS (SELECT 1 FROM checkpoints WHERE job_id = jobs.id)))
"""


class Bases(Repository):
    """Bases by model and number."""

    def __init__(
        self, writer: Writer, readers: Readers, *, files: FileStore, cache_dir: Path
    ) -> None:
        super().__init__(writer, readers)
        self._files = files
        self._cache_dir = cache_dir

    def list(self, model_id: int) -> builtins.list[Base]:
        """The bases of a model, oldest first."""
        return self._readers.read(_fetch, model_id)

    def waiting(self) -> dict[str, tuple[int, int]]:
        """Name of a model with an upgrade → its id and the upgrade's base."""
        rows = self._readers.all(_WAITING)
        return {row["name"]: (row["model_id"], row["base"]) for row in rows}

    @writes
    def begin(
        self, transaction: Transaction, new: NewModel, job: NewJob, *, request: dict[str, Any]
    ) -> Job:
        """Store an upgrade, whose files are adopted, and queue its first job; an earlier upgrade
        that waits is dropped.

        request: what its jobs are asked for. Raises NotFound, InUse while one trains or if an alias
        names a version of it, StateConflict if the model's classes have changed.
        """
        name = model_name(transaction, job.model_id)
        for upgrade in _upgrades(transaction.connection, job.model_id):
            self._drop(transaction, upgrade)
        self._files.reference(transaction, new.files.values())
        row = transaction.execute(_NEXT, {"model_id": job.model_id}).fetchone()
        base = int(row["base"])
        insert_base(transaction, job.model_id, base, new, request=dump(request))
        queued = _queue(transaction, replace(job, base=base))
        told = {"base": base, "sha256": new.sha256, "job_id": queued.id}
        transaction.event("base.arrived", name, told)
        return queued

    def try_again(self, job: NewJob) -> Job:
        """Queue another job of an upgrade. Raises NotFound, StateConflict."""
        return self._writer.write(lambda transaction: _queue(transaction, job))

    @writes
    def drop(self, transaction: Transaction, model_id: int) -> None:
        """Drop the upgrade that waits, and its versions; its job is cancelled.

        Raises NotFound without one, InUse while it trains or if an alias names a version of it.
        """
        upgrades = _upgrades(transaction.connection, model_id)
        if not upgrades:
            raise NotFound("no upgrade of this model waits")
        for upgrade in upgrades:
            self._drop(transaction, upgrade)

    def drop_unused(self, transaction: Transaction, model_id: int) -> None:
        """Drop the former bases of which no version or checkpoint is left."""
        for row in transaction.execute(_UNUSED, {"model_id": model_id}).fetchall():
            self._remove(transaction, model_id, row["base"])

    def drop_caches(self, model_id: int, base: int) -> None:
        """Drop what is cached of a base's rows; it is made again if it is needed."""
        folder = cache_path(self._cache_dir, model_id, base)
        if folder.exists():
            shutil.rmtree(folder)

    def _drop(self, transaction: Transaction, upgrade: Base) -> None:
        key = (upgrade.model_id, upgrade.base)
        named = transaction.execute(_NAMED, key).fetchone()
        if named is not None:
            raise InUse(
                f"{named['alias']} names version {named['version']}, which descends from the "
                "upgrade; delete or move the alias first"
            )
        for job in fetch_jobs(transaction.connection, _UNFINISHED, key):
            if job.state is JobState.RUNNING:
                raise InUse(f"job {job.id} trains the upgrade; cancel it first")
            move_job(transaction, job.id, from_=job.state, to=JobState.CANCELLED, fields={})
        self._remove(transaction, *key)

    def _remove(self, transaction: Transaction, model_id: int, base: int) -> None:
        key = {"model_id": model_id, "base": base}
        for delete in _DELETE_WITH_FILES:
            self._files.release_deleted(transaction, delete, key)
        transaction.execute(_DELETE, key)
        transaction.event("base.dropped", model_name(transaction, model_id), {"base": base})
        transaction.after_commit(lambda: self.drop_caches(model_id, base))


def _queue(transaction: Transaction, job: NewJob) -> Job:
    assert job.base is not None
    find_model(transaction.connection, "id", job.model_id, base=job.base)
    queued = insert_job(transaction, job)
    transaction.execute(_QUEUED, (queued.id, job.model_id, job.base))
    return queued


def _fetch(connection: sqlite3.Connection, model_id: int) -> builtins.list[Base]:
    return [record(Base, row) for row in connection.execute(_SELECT, (model_id,)).fetchall()]


def _upgrades(connection: sqlite3.Connection, model_id: int) -> builtins.list[Base]:
    return [base for base in _fetch(connection, model_id) if base.adopted_at is None]
