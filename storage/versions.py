"""Versions: exported inference models, and the aliases that name them."""

from __future__ import annotations

import builtins
from typing import Any

from storage.codec import dump, dump_time, load, load_time
from storage.connection import Readers, sqlite3
from storage.errors import NotFound
from storage.files import FileStore
from storage.jobs import move_job
from storage.records import FileRecord, JobState, Version
from storage.writer import Transaction, Writer

_SELECT = """
SELECT versions.*, files.size_bytes, models.name AS model,
  (SELECT json_group_array(alias) FROM aliases
   WHERE aliases.model_id = versions.model_id AND aliases.version = versions.version) AS aliases
FROM versions JOIN files USING (sha256) JOIN models ON models.id = versions.model_id
"""
_ONE = f"{_SELECT} WHERE versions.model_id = ? AND versions.version = ?"
_INSERT = """
INSERT INTO versions
SELECT
  :model_id, coalesce(max(version), 0) + 1, :sha256, :created_at, :job_id, :checkpoint_id,
  :metrics, :baseline, :promoted, :reason
FROM versions WHERE model_id = :model_id
RETURNING version
"""
_SET_ALIAS = """
INSERT INTO aliases (model_id, alias, version) VALUES (?, ?, ?)
ON CONFLICT DO UPDATE SET version = excluded.version
"""


class Versions:
    """Versions by model and number."""

    def __init__(self, writer: Writer, readers: Readers, *, files: FileStore) -> None:
        self._writer = writer
        self._readers = readers
        self._files = files

    def publish(
        self,
        *,
        model_id: int,
        job_id: int,
        checkpoint_id: int | None,
        file: FileRecord,
        metrics: dict[str, Any],
        baseline: dict[str, Any],
        promoted: bool,
        reason: str,
        job_metrics: dict[str, Any],
    ) -> Version:
        """Make an adopted file the next version, and its running job succeed, at once.

        promoted: whether `latest` moves to it. job_metrics: replace the job's own.
        Raises NotFound, and StateConflict if the job is not running.
        """
        row = {
            "model_id": model_id,
            "sha256": file.sha256,
            "job_id": job_id,
            "checkpoint_id": checkpoint_id,
            "metrics": dump(metrics),
            "baseline": dump(baseline),
            "promoted": promoted,
            "reason": reason,
        }

        def insert(transaction: Transaction) -> Version:
            self._files.reference(transaction, [file])
            created_at = {"created_at": dump_time(transaction.now)}
            number = _insert(transaction, row | created_at)
            version = _one(transaction.connection, model_id, number)
            transaction.event(
                "version.created", version.model, {"version": number, "job_id": job_id}
            )
            if promoted:
                _point(transaction, version, "latest")
            move_job(
                transaction,
                job_id,
                from_=JobState.RUNNING,
                to=JobState.SUCCEEDED,
                fields={"version": number, "metrics": dump(job_metrics)},
            )
            return _one(transaction.connection, model_id, number)

        return self._writer.write(insert)

    def get(self, model_id: int, n: int) -> Version:
        """Raises NotFound."""
        with self._readers.snapshot() as connection:
            return _one(connection, model_id, n)

    def list(self, model_id: int, limit: int, after: int | None = None) -> builtins.list[Version]:
        """Versions of a model, newest first; after: the last page's last number."""
        condition, parameters = ("version < ?", (after,)) if after is not None else ("1", ())
        with self._readers.snapshot() as connection:
            rows = connection.execute(
                f"{_SELECT} WHERE model_id = ? AND {condition} ORDER BY version DESC LIMIT ?",
                (model_id, *parameters, limit),
            ).fetchall()
        return [_version(row) for row in rows]

    def by_alias(self, model_id: int, alias: str) -> Version:
        """Raises NotFound."""
        with self._readers.snapshot() as connection:
            row = connection.execute(
                "SELECT version FROM aliases WHERE model_id = ? AND alias = ?", (model_id, alias)
            ).fetchone()
            if row is None:
                raise NotFound(f"this model has no alias {alias!r}")
            return _one(connection, model_id, row["version"])

    def set_alias(self, model_id: int, alias: str, n: int) -> Version:
        """Point an alias at a version. Raises NotFound."""

        def point(transaction: Transaction) -> Version:
            _point(transaction, _one(transaction.connection, model_id, n), alias)
            return _one(transaction.connection, model_id, n)

        return self._writer.write(point)

    def aliases(self, model_id: int) -> dict[str, int]:
        """Alias → version."""
        with self._readers.snapshot() as connection:
            rows = connection.execute(
                "SELECT alias, version FROM aliases WHERE model_id = ? ORDER BY alias", (model_id,)
            ).fetchall()
        return {row["alias"]: row["version"] for row in rows}


def _insert(transaction: Transaction, row: dict[str, Any]) -> int:
    return int(transaction.execute(_INSERT, row).fetchone()["version"])


def _point(transaction: Transaction, version: Version, alias: str) -> None:
    """Move an alias; `latest` moving is a promotion, whoever moves it."""
    transaction.execute(_SET_ALIAS, (version.model_id, alias, version.version))
    kind = "version.promoted" if alias == "latest" else "alias.moved"
    transaction.event(kind, version.model, {"alias": alias, "version": version.version})


def _one(connection: sqlite3.Connection, model_id: int, number: int) -> Version:
    row = connection.execute(_ONE, (model_id, number)).fetchone()
    if row is None:
        raise NotFound(f"this model has no version {number}")
    return _version(row)


def _version(row: sqlite3.Row) -> Version:
    return Version(
        model_id=row["model_id"],
        model=row["model"],
        version=row["version"],
        file=FileRecord(row["sha256"], row["size_bytes"]),
        created_at=load_time(row["created_at"]),
        job_id=row["job_id"],
        checkpoint_id=row["checkpoint_id"],
        metrics=load(row["metrics"]),
        baseline=load(row["baseline"]),
        promoted=bool(row["promoted"]),
        reason=row["reason"],
        aliases=tuple(sorted(load(row["aliases"]))),
    )
