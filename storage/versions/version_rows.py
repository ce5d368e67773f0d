"""Rows of versions: read within a transaction or a snapshot, and deleted."""

from __future__ import annotations

from typing import Any

from storage.blobs.files import FileStore
from storage.database.codec import load
from storage.database.connection import sqlite3
from storage.database.rows import record
from storage.database.transaction import Transaction
from storage.errors import NotFound
from storage.records.models import FileRecord
from storage.records.versions import Version
from storage.tables.model_rows import model_name

_SELECT = """
SELECT versions.*, files.size_bytes, coalesce((
    SELECT own.size_bytes FROM assembled_files JOIN files AS own ON own.sha256 = recipe
    WHERE assembled_files.sha256 = versions.sha256
  ), files.size_bytes) AS stored_bytes, models.name AS model,
  (SELECT json_group_array(alias) FROM aliases
   WHERE aliases.model_id = versions.model_id AND aliases.version = versions.version) AS aliases,
  (SELECT json_group_array(json_object(
     'name', variant, 'method', method, 'file', json(iif(variants.sha256 IS NULL, 'null',
       json_object('sha256', variants.sha256, 'size_bytes', made.size_bytes))),
     'metrics', json(variants.metrics), 'verdict', json(variants.verdict),
     'reason', variants.reason, 'created_at', variants.created_at
   )) FROM variants LEFT JOIN files AS made USING (sha256)
   WHERE variants.model_id = versions.model_id AND variants.version = versions.version) AS variants
FROM versions JOIN files USING (sha256) JOIN models ON models.id = versions.model_id
"""
_NAMED = "SELECT version FROM aliases WHERE model_id = ? AND alias = ?"
# The variants first: they would go with the version, without a word of their files.
_DELETE = (
    "DELETE FROM variants WHERE model_id = ? AND version = ? RETURNING sha256",
    "DELETE FROM versions WHERE model_id = ? AND version = ? RETURNING sha256",
)


def find_version(connection: sqlite3.Connection, model_id: int, number: int) -> Version:
    """Raises NotFound."""
    versions = fetch_versions(connection, "WHERE model_id = ? AND version = ?", (model_id, number))
    if not versions:
        raise NotFound(f"this model has no version {number}")
    return versions[0]


def named_version(connection: sqlite3.Connection, model_id: int, alias: str) -> Version:
    """The version that an alias names. Raises NotFound."""
    row = connection.execute(_NAMED, (model_id, alias)).fetchone()
    if row is None:
        raise NotFound(f"this model has no alias {alias!r}")
    return find_version(connection, model_id, row["version"])


def fetch_versions(
    connection: sqlite3.Connection, clauses: str, parameters: tuple[Any, ...]
) -> list[Version]:
    """Versions; clauses: what follows the SELECT: WHERE, ORDER BY, LIMIT."""
    rows = connection.execute(f"{_SELECT} {clauses}", parameters).fetchall()
    return [_version(row) for row in rows]


def delete_version(transaction: Transaction, files: FileStore, model_id: int, number: int) -> None:
    """Delete a version with its variants, and the files that nothing refers to any more."""
    for delete in _DELETE:
        files.release_deleted(transaction, delete, (model_id, number))
    name = model_name(transaction, model_id)
    transaction.event("version.deleted", name, {"version": number})


def _version(row: sqlite3.Row) -> Version:
    aliases = sorted(load(row["aliases"]))
    return record(Version, row, file=record(FileRecord, row), aliases=aliases)
