"""Changes to a model's classes, and to the labels that are their indices; no job may be running."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from storage.database.codec import dump, load
from storage.database.connection import sqlite3
from storage.database.transaction import Transaction
from storage.errors import InUse, StateConflict, counted
from storage.records.signatures import TargetSpec, load_target
from storage.tables.model_rows import is_deleting

_UNFINISHED = """
SELECT id, state FROM jobs
WHERE model_id = ? AND state IN ('queued', 'running', 'paused') ORDER BY id LIMIT 1
"""
_LABELLED = "SELECT sum(count) AS n FROM sample_counts WHERE model_id = ? AND class = ?"
_RELABEL = """
UPDATE samples SET label = ? WHERE model_id = ? AND typeof(label) = 'integer' AND label = ?
"""
_CLOSE_GAP = """
UPDATE samples SET label = label - 1
WHERE model_id = ? AND typeof(label) = 'integer' AND label > ?
"""
_TARGET = "SELECT target FROM models WHERE id = ?"
_NAME_VERSIONS = """
UPDATE versions SET target = json_set(target, '$.classes', json(?))
WHERE model_id = ? AND json_extract(target, '$.classes') IS NULL
"""
_REQUESTS = (("triggers", "id", "hyperparameters"), ("bases", "base", "request"))


class Removal(Struct, frozen=True):
    """Removes the class at `index`; its samples get the label `into`, or lose theirs if None.

    unlabel: whether they may lose it.
    """

    index: int
    into: int | None = None
    unlabel: bool = False


def require_idle(connection: sqlite3.Connection, model_id: int) -> None:
    """Raises InUse while a job of the model waits or runs, or samples are being deleted: these
    depend on the present classes.
    """
    job = connection.execute(_UNFINISHED, (model_id,)).fetchone()
    if job is not None:
        raise InUse(
            f"job {job['id']} of this model is {job['state']} and counts on its classes; "
            "cancel it, or wait until it has ended"
        )
    if is_deleting(connection, model_id):
        raise InUse("samples of this model are being deleted; ask again when that is done")


def require_unlabelled(connection: sqlite3.Connection, model_id: int, removal: Removal) -> None:
    """Raises InUse if samples would lose their labels but may not."""
    row = connection.execute(_LABELLED, (model_id, removal.index)).fetchone()
    if row["n"] and removal.into is None and not removal.unlabel:
        raise InUse(
            f"this class is the label of {counted(row['n'], 'sample')}; merge it into another, "
            "delete its samples, or let them lose their labels with ?unlabel=true"
        )


def remove_label(transaction: Transaction, model_id: int, removal: Removal) -> int:
    """Relabel the samples of a class, and of those after it; returns how many the class had.

    Raises InUse.
    """
    require_unlabelled(transaction.connection, model_id, removal)
    moved = transaction.execute(_RELABEL, (removal.into, model_id, removal.index)).rowcount
    transaction.execute(_CLOSE_GAP, (model_id, removal.index))
    return moved


def edit_requests(
    transaction: Transaction, model_id: int, edit: Callable[[dict[str, Any]], dict[str, Any]]
) -> None:
    """Edit the hyperparameters of a model's triggers, and those that its bases' jobs begin with."""
    for table, key, column in _REQUESTS:
        rows = transaction.execute(
            f"SELECT {key}, {column} FROM {table} WHERE model_id = ?",  # noqa: S608 - our own
            (model_id,),
        )
        for row in rows.fetchall():
            where = {"model_id": model_id, key: row[key]}
            transaction.update(table, {column: dump(edit(load(row[column])))}, where=where)


def name_versions(transaction: Transaction, model_id: int, classes: tuple[str, ...]) -> None:
    """Give the names to the versions that were made before the classes had names."""
    transaction.execute(_NAME_VERSIONS, (dump(classes), model_id))


def require_same_classes(
    transaction: Transaction, model_id: int, class_ids: tuple[int, ...]
) -> None:
    """Raises StateConflict unless these are the model's classes, in this order."""
    row = transaction.execute(_TARGET, (model_id,)).fetchone()
    if row is not None and load_target(row["target"]).ids != class_ids:
        raise StateConflict(
            "the model's classes were changed while the job was asked for; ask again"
        )


def require_same_indices(transaction: Transaction, model_id: int, checked: TargetSpec) -> None:
    """Raises StateConflict if labels checked with this target mean different classes by now."""
    row = transaction.execute(_TARGET, (model_id,)).fetchone()
    if row is not None and load_target(row["target"]).ids[: len(checked.ids)] != checked.ids:
        raise StateConflict(
            "the model's classes were changed while the labels were read; send them again"
        )
