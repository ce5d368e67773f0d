"""Rows of models: written and read."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from storage.database.codec import dump, dump_time, load
from storage.database.connection import sqlite3
from storage.database.rows import columns, record
from storage.database.transaction import Transaction
from storage.errors import AlreadyExists, NotFound
from storage.records.models import FileRecord, Model, NewModel

_SELECT = """
SELECT models.*,
  (SELECT json_group_object(role, json_array(sha256, size_bytes))
   FROM model_files JOIN files USING (sha256) WHERE model_id = models.id) AS files,
  (SELECT coalesce(sum(count), 0) FROM sample_counts
   WHERE model_id = models.id AND split = 'train' AND class <> -1) AS train,
  (SELECT coalesce(sum(count), 0) FROM sample_counts
   WHERE model_id = models.id AND split = 'validation' AND class <> -1) AS validation,
  (SELECT coalesce(sum(count), 0) FROM sample_counts
   WHERE model_id = models.id AND split = 'base' AND class <> -1) AS base,
  (SELECT coalesce(sum(count), 0) FROM sample_counts
   WHERE model_id = models.id AND class = -1) AS unlabelled,
  (SELECT version FROM aliases WHERE model_id = models.id AND alias = 'latest') AS latest_version
FROM models
"""
_PREPARED = ("engine", "trainable", "trainable_parameters", "frozen_parameters", "notes")
"""Columns that preparing a model sets."""
_CHANGING = (
    *("hyperparameters", "signature", "gate", "retention", "preprocess", "quota"),
    *("keeps_duplicates", "features", "federation"),
)
_NEW = (
    *("name", "loss", "loss_output", "optimizer", "output", "signature", "hyperparameters"),
    *("gate", "retention", "preprocess", "keeps_duplicates", "features", *_PREPARED),
)
_DELETING = """
SELECT 1 FROM deletions WHERE model_id = :model_id
UNION ALL SELECT 1 FROM packs WHERE model_id = :model_id AND leftovers
"""


def is_deleting(connection: sqlite3.Connection, model_id: int) -> bool:
    """Whether samples of a model are being deleted, or packs rewritten without deleted ones."""
    return connection.execute(_DELETING, {"model_id": model_id}).fetchone() is not None


def no_model(model: str | int) -> NotFound:
    """The error for a model that does not exist; model: its name or id."""
    name = f"{model!r}" if isinstance(model, str) else f"with id {model}"
    return NotFound(f"there is no model {name}; GET /v1/models lists them")


def find_model(connection: sqlite3.Connection, column: str, value: str | int) -> Model:
    """The model by `id` or by `name`. Raises NotFound."""
    found = fetch_models(connection, f"WHERE models.{column} = ?", (value,))
    if not found:
        raise no_model(value)
    return found[0]


def model_name(transaction: Transaction, model_id: int) -> str:
    """Raises NotFound."""
    row = transaction.execute("SELECT name FROM models WHERE id = ?", (model_id,)).fetchone()
    if row is None:
        raise no_model(model_id)
    return str(row["name"])


def fetch_models(
    connection: sqlite3.Connection, clauses: str, parameters: tuple[Any, ...]
) -> list[Model]:
    """Models; clauses: what follows the SELECT: WHERE, ORDER BY, LIMIT."""
    rows = connection.execute(f"{_SELECT} {clauses}", parameters).fetchall()
    return [_model(row) for row in rows]


def among(column: str, names: Collection[str] | None) -> tuple[str, tuple[str, ...]]:
    """The condition that a column holds one of the names, and its parameters; None: any name."""
    if names is None:
        return "1", ()
    condition = f"{column} IN (SELECT value FROM json_each(?))"  # noqa: S608 - our own
    return condition, (dump(sorted(names)),)


def name_taken(name: str) -> AlreadyExists:
    """The error for a second model with this name."""
    return AlreadyExists(f"a model named {name!r} exists; choose another name or delete it")


def insert_model(transaction: Transaction, new: NewModel) -> int:
    """The new row's id. Raises AlreadyExists if the name is taken."""
    taken = transaction.execute("SELECT 1 FROM models WHERE name = ?", (new.name,)).fetchone()
    if taken:
        raise name_taken(new.name)
    given = {**columns(new, _NEW), "created_at": dump_time(transaction.now)}
    row = transaction.execute(
        f"INSERT INTO models ({', '.join(given)}) "  # noqa: S608 - our own names
        f"VALUES ({', '.join('?' * len(given))}) RETURNING id",
        tuple(given.values()),
    ).fetchone()
    return int(row["id"])


def insert_files(transaction: Transaction, model_id: int, files: dict[str, FileRecord]) -> None:
    """Insert the rows of a model's files, by role."""
    transaction.executemany(
        "INSERT INTO model_files VALUES (?, ?, ?)",
        [(model_id, role, record.sha256) for role, record in files.items()],
    )


def renew_model(transaction: Transaction, model: Model, files: dict[str, FileRecord]) -> None:
    """Write the fields and files that preparing a model sets."""
    _update(transaction, model, _PREPARED)
    transaction.execute("DELETE FROM model_files WHERE model_id = ?", (model.id,))
    insert_files(transaction, model.id, files)


def update_model(transaction: Transaction, model: Model) -> None:
    """Write the fields of a model that may change."""
    _update(transaction, model, _CHANGING)


def _update(transaction: Transaction, model: Model, names: Iterable[str]) -> None:
    given = columns(model, names)
    assignments = ", ".join(f"{column} = ?" for column in given)
    transaction.execute(
        f"UPDATE models SET {assignments} WHERE id = ?",  # noqa: S608 - our own names
        (*given.values(), model.id),
    )


def _model(row: sqlite3.Row) -> Model:
    files = {
        role: {"sha256": sha256, "size_bytes": size_bytes}
        for role, (sha256, size_bytes) in load(row["files"]).items()
    }
    counts = {name: row[name] for name in ("train", "validation", "base", "unlabelled")}
    return record(Model, row, files=files, samples=counts)
