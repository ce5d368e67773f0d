"""Rows of versions: read within a transaction or a snapshot."""

from __future__ import annotations

from typing import Any

from storage.database.codec import load, load_time
from storage.database.connection import sqlite3
from storage.errors import NotFound
from storage.records.models import FileRecord
from storage.records.signatures import load_target
from storage.records.versions import Variant, Version

_SELECT = """
SELECT versions.*, files.size_bytes, coalesce((
    SELECT own.size_bytes FROM assembled_files JOIN files AS own ON own.sha256 = recipe
    WHERE assembled_files.sha256 = versions.sha256
  ), files.size_bytes) AS stored_bytes, models.name AS model,
  (SELECT json_group_array(alias) FROM aliases
   WHERE aliases.model_id = versions.model_id AND aliases.version = versions.version) AS aliases,
  (SELECT json_group_array(json_object(
     'name', variant, 'sha256', variants.sha256, 'size_bytes', made.size_bytes, 'method', method,
     'metrics', json(variants.metrics), 'verdict', json(variants.verdict),
     'reason', variants.reason, 'created_at', variants.created_at
   )) FROM variants LEFT JOIN files AS made USING (sha256)
   WHERE variants.model_id = versions.model_id AND variants.version = versions.version) AS variants
FROM versions JOIN files USING (sha256) JOIN models ON models.id = versions.model_id
"""


def find_version(connection: sqlite3.Connection, model_id: int, number: int) -> Version:
    """Raises NotFound."""
    found = fetch_versions(connection, "WHERE model_id = ? AND version = ?", (model_id, number))
    if not found:
        raise NotFound(f"this model has no version {number}")
    return found[0]


def fetch_versions(
    connection: sqlite3.Connection, clauses: str, parameters: tuple[Any, ...]
) -> list[Version]:
    """Versions; clauses: what follows the SELECT: WHERE, ORDER BY, LIMIT."""
    rows = connection.execute(f"{_SELECT} {clauses}", parameters).fetchall()
    return [_version(row) for row in rows]


def _version(row: sqlite3.Row) -> Version:
    return Version(
        model_id=row["model_id"],
        model=row["model"],
        version=row["version"],
        file=FileRecord(row["sha256"], row["size_bytes"]),
        stored_bytes=row["stored_bytes"],
        created_at=load_time(row["created_at"]),
        job_id=row["job_id"],
        checkpoint_id=row["checkpoint_id"],
        metrics=load(row["metrics"]),
        baseline=load(row["baseline"]),
        promoted=bool(row["promoted"]),
        reason=row["reason"],
        aliases=tuple(sorted(load(row["aliases"]))),
        verdict=load(row["verdict"]),
        provenance=load(row["provenance"]),
        target=load_target(row["target"]),
        variants=tuple(map(_variant, load(row["variants"]))),
    )


def _variant(fields: dict[str, Any]) -> Variant:
    sha256, size_bytes = fields.pop("sha256"), fields.pop("size_bytes")
    file = None if sha256 is None else FileRecord(sha256, size_bytes)
    created_at = load_time(fields.pop("created_at"))
    return Variant(file=file, created_at=created_at, **fields)
