"""Rows of models: written and read."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from msgspec.structs import asdict

from storage.database.codec import (
    dump,
    dump_time,
    load,
    load_optional_time,
    load_time,
)
from storage.database.connection import sqlite3
from storage.database.transaction import Transaction
from storage.errors import AlreadyExists, NotFound
from storage.records.models import FileRecord, Model, NewModel, Quota, SampleCounts
from storage.records.signatures import dump_signature, load_signature

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
    columns = {
        "name": new.name,
        "created_at": dump_time(transaction.now),
        "loss": new.loss,
        "loss_output": new.loss_output,
        "optimizer": new.optimizer,
        "engine": new.engine,
        "output": new.output,
        "signature": dump_signature(new.signature),
        "trainable": dump(new.trainable),
        "trainable_parameters": new.trainable_parameters,
        "frozen_parameters": new.frozen_parameters,
        "hyperparameters": dump(new.hyperparameters),
        "notes": dump(new.notes),
        "gate": dump(new.gate),
        "retention": dump(new.retention),
        "preprocess": dump(new.preprocess),
        "keeps_duplicates": new.keeps_duplicates,
        "features": None if new.features is None else dump(new.features),
    }
    row = transaction.execute(
        f"INSERT INTO models ({', '.join(columns)}) "  # noqa: S608 - our own names
        f"VALUES ({', '.join('?' * len(columns))}) RETURNING id",
        tuple(columns.values()),
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
    columns = {
        "engine": model.engine,
        "trainable": dump(model.trainable),
        "trainable_parameters": model.trainable_parameters,
        "frozen_parameters": model.frozen_parameters,
        "notes": dump(model.notes),
    }
    _update(transaction, model.id, columns)
    transaction.execute("DELETE FROM model_files WHERE model_id = ?", (model.id,))
    insert_files(transaction, model.id, files)


def update_model(transaction: Transaction, model: Model) -> None:
    """Write the fields of a model that may change."""
    columns = {
        "hyperparameters": dump(model.hyperparameters),
        "signature": dump_signature(model.signature),
        "gate": dump(model.gate),
        "retention": dump(model.retention),
        "preprocess": dump(model.preprocess),
        "quota": dump(asdict(model.quota)),
        "keeps_duplicates": model.keeps_duplicates,
        "features": None if model.features is None else dump(model.features),
        "federation": dump(model.federation),
    }
    _update(transaction, model.id, columns)


def _update(transaction: Transaction, model_id: int, columns: dict[str, Any]) -> None:
    assignments = ", ".join(f"{column} = ?" for column in columns)
    transaction.execute(
        f"UPDATE models SET {assignments} WHERE id = ?",  # noqa: S608 - our own names
        (*columns.values(), model_id),
    )


def _model(row: sqlite3.Row) -> Model:
    return Model(
        id=row["id"],
        name=row["name"],
        created_at=load_time(row["created_at"]),
        loss=row["loss"],
        loss_output=row["loss_output"],
        optimizer=row["optimizer"],
        engine=row["engine"],
        output=row["output"],
        signature=load_signature(row["signature"]),
        trainable=tuple(load(row["trainable"])),
        trainable_parameters=row["trainable_parameters"],
        frozen_parameters=row["frozen_parameters"],
        hyperparameters=load(row["hyperparameters"]),
        files={role: FileRecord(*fields) for role, fields in load(row["files"]).items()},
        notes=tuple(load(row["notes"])),
        samples=SampleCounts(
            **{name: row[name] for name in ("train", "validation", "base", "unlabelled")}
        ),
        latest_version=row["latest_version"],
        gate=load(row["gate"]),
        retention=load(row["retention"]),
        held_since=load_optional_time(row["held_since"]),
        reference_frozen_at=load_optional_time(row["reference_frozen_at"]),
        base_set_at=load_optional_time(row["base_set_at"]),
        preprocess=tuple(load(row["preprocess"])),
        quota=Quota(**load(row["quota"])),
        keeps_duplicates=bool(row["keeps_duplicates"]),
        features=None if row["features"] is None else tuple(load(row["features"])),
        federation=load(row["federation"]),
    )
