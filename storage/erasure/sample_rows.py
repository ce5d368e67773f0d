"""How deletions and rewritten packs change the rows of samples.

The database and each copy of it go through the same steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import TypeAlias

import numpy as np

from storage.arrays import NDArray
from storage.database.codec import dump
from storage.database.connection import sqlite3
from storage.database.transaction import Transaction
from storage.samples.filter import SampleFilter
from storage.tables.model_rows import model_name

Table: TypeAlias = "NDArray[np.int64]"

Move = tuple[int, int]
"""(new offset, sample id)."""
# The ids are one JSON list: statements with one placeholder per id would be prepared, and kept, for
# every number of ids.
_THESE = "+model_id = ?1 AND id IN (SELECT value FROM json_each(?2))"
_REMEMBER = f"""
INSERT INTO erasures (model_id, pack, offset, length, sample_id)
SELECT model_id, pack, offset, length, id FROM samples WHERE {_THESE}
"""  # noqa: S608 - our own
_WEIGH = f"""
UPDATE packs SET erased_bytes = erased_bytes + gone.bytes
FROM (
  SELECT pack, sum(length) AS bytes FROM samples WHERE {_THESE} GROUP BY pack
) AS gone
WHERE packs.model_id = ?1 AND packs.pack = gone.pack
"""  # noqa: S608 - our own
_DELETE = f"DELETE FROM samples WHERE {_THESE}"  # noqa: S608 - our own
_DELETE_ROWS = "DELETE FROM samples WHERE id IN (SELECT value FROM json_each(?))"
# By their ids, whatever index the filter's condition has.
_GIVEN = """
SELECT id FROM (SELECT value FROM json_each(?)) AS given CROSS JOIN samples ON id = given.value
"""
_MOVE = "UPDATE samples SET offset = ?, pack = ? WHERE id = ? AND pack = ?"
_PLACES = """
SELECT id, pack, offset, size_bytes FROM samples JOIN packs USING (model_id, pack)
WHERE model_id = ? ORDER BY id
"""
_NEW_PACK = "INSERT OR IGNORE INTO packs (model_id, pack, size_bytes) VALUES (?, ?, ?)"
_EMPTY_PACKS = """
DELETE FROM packs
WHERE model_id = ?1 AND pack NOT IN (SELECT pack FROM samples WHERE model_id = ?1)
"""


def delete_samples(transaction: Transaction, model_id: int, ids: Iterable[int]) -> int:
    """Delete rows, and record which bytes to overwrite; returns the number of samples.

    The range is recorded in the same transaction: after a crash in between, start-up overwrites it
    again, which does no harm. In the reverse order a crash would leave a row of zeros.
    """
    which = (model_id, dump(list(ids)))
    transaction.execute(_REMEMBER, which)
    transaction.execute(_WEIGH, which)
    return transaction.execute(_DELETE, which).rowcount


def delete_rows(transaction: Transaction, ids: Sequence[int]) -> list[int]:
    """Delete rows alone, of a model whose packs go as a whole."""
    transaction.execute(_DELETE_ROWS, (dump(ids),))
    return [*ids]


def delete_matching(
    transaction: Transaction, ids: Sequence[int], *, model_id: int, where: SampleFilter
) -> list[int]:
    """As `delete_samples`, of those that match a filter; returns their ids."""
    condition, parameters = where.sql(model_id)
    query = f"{_GIVEN} WHERE {condition}"
    rows = transaction.execute(query, (dump(ids), *parameters))
    matching = [row["id"] for row in rows]
    if delete_samples(transaction, model_id, matching):
        told = {"deleted": len(matching)}
        transaction.tell("samples.deleted", model_name(transaction, model_id), told)
    return matching


def move_rows(transaction: Transaction, moves: Sequence[Move], *, pack: int, to: int) -> list[Move]:
    """Record the new places of samples of a pack; returns those that it still had."""
    return [
        (offset, id_)
        for offset, id_ in moves
        if transaction.execute(_MOVE, (offset, to, id_, pack)).rowcount
    ]


def integers(rows: sqlite3.Cursor, *, columns: int) -> Table:
    """(n, columns) of rows that hold integers only."""
    return np.fromiter(chain.from_iterable(rows), np.int64).reshape(-1, columns)


def places_of(connection: sqlite3.Connection, model_id: int) -> Table:
    """(n, 4), by rising id: a model's samples, their packs, their offsets, and the packs' sizes."""
    return integers(connection.execute(_PLACES, (model_id,)), columns=4)


def follow_places(transaction: Transaction, model_id: int, places: Table) -> None:
    """In a copy, delete a model's samples that have no place, and record that of the others."""
    query = "SELECT id, pack FROM samples WHERE model_id = ? ORDER BY id"
    known = integers(transaction.execute(query, (model_id,)), columns=2)
    is_stored = np.isin(known[:, 0], places[:, 0])
    delete_samples(transaction, model_id, known[~is_stored, 0].tolist())
    now = places[np.isin(places[:, 0], known[:, 0])]
    before = known[is_stored, 1]
    moved = [*zip(before.tolist(), now.tolist(), strict=True)]
    moved = [(old, place) for old, place in moved if old != place[1]]
    packs = {(model_id, pack, size_bytes) for _, (_, pack, _, size_bytes) in moved}
    transaction.executemany(_NEW_PACK, packs)
    transaction.executemany(_MOVE, [(at, to, id_, old) for old, (id_, to, at, _) in moved])
    transaction.execute(_EMPTY_PACKS, (model_id,))
