"""Rows of models: written and read."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from storage.database.codec import dump, dump_time
from storage.database.connection import sqlite3
from storage.database.rows import columns, record
from storage.database.transaction import Transaction
from storage.errors import AlreadyExists, NotFound
from storage.records.models import FileRecord, Model, NewModel

SAMPLE_COUNTS = """json_object(
  'train', coalesce(sum(count) FILTER (WHERE split = 'train' AND class <> -1), 0),
  'validation', coalesce(sum(count) FILTER (WHERE split = 'validation' AND class <> -1), 0),
  'base', coalesce(sum(count) FILTER (WHERE split = 'base' AND class <> -1), 0),
  'unlabelled', coalesce(sum(count) FILTER (WHERE class = -1), 0)
)"""
"""What `SampleCounts` are, as JSON, of rows of sample_counts."""
LABELLED = """
SELECT coalesce(sum(count), 0) FROM sample_counts
WHERE model_id = models.id AND split <> 'base' AND class <> -1
"""
"""The number of labelled samples of a row of models, without its base set."""
_SELECT = f"""
SELECT models.*, bases.base, engine, output, loss_output, trainable,
  trainable_parameters, frozen_parameters, notes, shapes, preprocess,
  json_object(
    'inputs', json(inputs), 'target', json(target), 'loss_of_samples', loss_of_samples
  ) AS signature,
  (SELECT json_group_object(
     role, json_object('sha256', base_files.sha256, 'size_bytes', size_bytes)
   ) FROM base_files JOIN files ON files.sha256 = base_files.sha256
   WHERE base_files.model_id = models.id AND base_files.base = bases.base) AS files,
  (SELECT {SAMPLE_COUNTS} FROM sample_counts WHERE model_id = models.id) AS samples,
  (SELECT version FROM aliases WHERE model_id = models.id AND alias = 'latest') AS latest_version
FROM models JOIN bases ON bases.model_id = models.id AND bases.base = coalesce(?, (
  SELECT versions.base FROM aliases JOIN versions USING (model_id, version)
  WHERE aliases.model_id = models.id AND alias = 'latest'
))
"""  # noqa: S608 - our own
_PREPARED = ("engine", "trainable", "trainable_parameters", "frozen_parameters", "notes", "shapes")
"""Columns of a base that preparing it sets."""
_CHANGING = (
    *("hyperparameters", "gate", "retention", "quota"),
    *("keeps_duplicates", "features", "federation"),
)
_NEW = (
    *("name", "loss", "optimizer", "hyperparameters"),
    *("gate", "retention", "keeps_duplicates", "features"),
)
_OF_BASE = ("sha256", "output", "loss_output", "preprocess", *_PREPARED)
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


def find_model(
    connection: sqlite3.Connection, column: str, value: str | int, *, base: int | None = None
) -> Model:
    """The model by `id` or by `name`; base: None for that of `latest`. Raises NotFound."""
    models = fetch_models(connection, f"WHERE models.{column} = ?", (value,), base=base)
    if not models:
        raise no_model(value)
    return models[0]


def model_name(transaction: Transaction, model_id: int) -> str:
    """Raises NotFound."""
    row = transaction.execute("SELECT name FROM models WHERE id = ?", (model_id,)).fetchone()
    if row is None:
        raise no_model(model_id)
    return str(row["name"])


def fetch_models(
    connection: sqlite3.Connection,
    clauses: str,
    parameters: tuple[Any, ...],
    *,
    base: int | None = None,
) -> list[Model]:
    """Models; clauses: what follows the SELECT: WHERE, ORDER BY, LIMIT."""
    rows = connection.execute(f"{_SELECT} {clauses}", (base, *parameters)).fetchall()
    return [record(Model, row) for row in rows]


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
    row = {
        **columns(new, _NEW),
        **columns(new.signature, ("target",)),
        "created_at": dump_time(transaction.now),
    }
    return int(transaction.insert("models", row)["id"])


def insert_base(
    transaction: Transaction, model_id: int, base: int, new: NewModel, **others: object
) -> None:
    """Insert a base of a model, as it was prepared, with its files. others: further columns."""
    values = {
        "model_id": model_id,
        "base": base,
        **columns(new, _OF_BASE),
        **columns(new.signature, ("inputs", "loss_of_samples")),
        "arrived_at": dump_time(transaction.now),
        **others,
    }
    transaction.insert("bases", values)
    _insert_files(transaction, model_id, base, new.files)


def _insert_files(
    transaction: Transaction, model_id: int, base: int, files: dict[str, FileRecord]
) -> None:
    transaction.executemany(
        "INSERT INTO base_files VALUES (?, ?, ?, ?)",
        [(model_id, base, role, record.sha256) for role, record in files.items()],
    )


def renew_base(transaction: Transaction, model: Model) -> None:
    """Write the fields and files that preparing the model's base sets."""
    _update_base(transaction, model, columns(model, _PREPARED))
    key = (model.id, model.base)
    transaction.execute("DELETE FROM base_files WHERE model_id = ? AND base = ?", key)
    _insert_files(transaction, model.id, model.base, model.files)


def update_model(transaction: Transaction, model: Model) -> None:
    """Write the fields of a model that may change."""
    row = {**columns(model, _CHANGING), **columns(model.signature, ("target",))}
    transaction.update("models", row, where={"id": model.id})
    _update_base(transaction, model, columns(model, ("preprocess",)))


def _update_base(transaction: Transaction, model: Model, row: dict[str, Any]) -> None:
    transaction.update("bases", row, where={"model_id": model.id, "base": model.base})
