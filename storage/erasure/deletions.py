"""Deletions of many samples: a few at a time, so that the writes of others come in between.

A deletion of many is recorded before the first of them goes, and acknowledged when the last one has
gone: the next start goes on with what a crash has interrupted. Until then no job of the model
begins, and its classes stay as they are.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

import msgspec
import numpy as np

from storage.blobs.sharing import LockByModel
from storage.database.codec import convert, dump, load
from storage.database.connection import Readers
from storage.database.transaction import Transaction
from storage.database.writer import Writer
from storage.erasure.sample_rows import delete_matching, delete_rows
from storage.records.id_set import Ids, encode, within
from storage.samples.filter import SampleFilter

_T = TypeVar("_T")
AT_ONCE = 500
"""More samples are deleted in several transactions."""
_LEAST, _MOST, _TARGET_S = 50, 10_000, 0.03
# By rising id: neighbours share pages, and in any other order each row would change several more.
_IDS = "SELECT id FROM samples WHERE model_id = ? ORDER BY id"
_RECORD = "INSERT INTO deletions (model_id, ids, condition) VALUES (?, ?, ?) RETURNING id"
_FORGET = "DELETE FROM deletions WHERE id = ?"
_LEFT = "SELECT id FROM deletions WHERE model_id = ? AND ids IS NOT NULL ORDER BY id"
_SAMPLES_LEFT = "SELECT DISTINCT model_id FROM deletions WHERE ids IS NOT NULL"
_MODELS_LEFT = "SELECT DISTINCT model_id FROM deletions WHERE ids IS NULL"


class Deletions:
    """Deletes samples, for one thread at a time of each model."""

    def __init__(self, writer: Writer, readers: Readers) -> None:
        self._writer = writer
        self._readers = readers
        self._locks = LockByModel(threading.Lock)

    def run(
        self,
        model_id: int,
        choose: Callable[[], Ids],
        first: Callable[[Transaction], _T],
        *,
        where: SampleFilter = SampleFilter(),  # noqa: B008 - frozen
    ) -> tuple[_T, list[int]]:
        """Delete those of the chosen samples that match the filter when their turn comes.

        choose: called when no other deletion of the model is under way or left. first: changes
        what belongs to the deletion, in the transaction that records it, or that deletes a few.
        Returns its result, and the ids of the deleted samples. Raises as `first` and
        `Writer.write`; what has been recorded by then goes on later.
        """

        def begin(transaction: Transaction) -> tuple[_T, list[int], int | None]:
            result = first(transaction)
            if len(ids) <= AT_ONCE:
                gone = delete_matching(transaction, ids.tolist(), model_id=model_id, where=where)
                return result, gone, None
            row = (model_id, encode(ids), dump(msgspec.to_builtins(where)))
            return result, [], int(transaction.execute(_RECORD, row).fetchone()["id"])

        with self._locks.of(model_id):
            self._finish(model_id)
            ids = choose()
            result, gone, recorded = self._writer.write(begin)
            return result, gone if recorded is None else self._carry_out(recorded)

    def run_with_model(
        self, model_id: int, first: Callable[[Transaction], object], last: Callable[[], None]
    ) -> None:
        """Delete a model's samples, then call `last`, which deletes the model with its packs."""

        def begin(transaction: Transaction) -> None:
            first(transaction)
            transaction.execute("INSERT INTO deletions (model_id) VALUES (?)", (model_id,))

        with self._locks.of(model_id):
            with self._readers.snapshot() as connection:
                ids = [row["id"] for row in connection.execute(_IDS, (model_id,))]
            if len(ids) > AT_ONCE:
                self._writer.write(begin)
                in_slices(self._writer, ids, delete_rows)
            last()

    def models_left(self) -> list[int]:
        """Models whose own deletion was interrupted, is under way, or has failed."""
        return [row["model_id"] for row in self._readers.all(_MODELS_LEFT)]

    def finish(self) -> None:
        """Go on with deletions of samples that were interrupted, or have failed."""
        for row in self._readers.all(_SAMPLES_LEFT):
            self.finish_of(row["model_id"])

    def finish_of(self, model_id: int) -> None:
        """As `finish`, of one model; waits for those that are under way."""
        with self._locks.of(model_id):
            self._finish(model_id)

    def _finish(self, model_id: int) -> None:
        for row in self._readers.all(_LEFT, (model_id,)):
            self._carry_out(row["id"])

    def _carry_out(self, recorded: int) -> list[int]:
        with self._readers.snapshot() as connection:
            row = connection.execute("SELECT * FROM deletions WHERE id = ?", (recorded,)).fetchone()
            if row is None:  # another thread has carried it out, or its model is gone
                return []
            stored = connection.execute(_IDS, (row["model_id"],))
            ids = within(row["ids"], np.fromiter((sample["id"] for sample in stored), np.int64))
        where = convert(load(row["condition"]), SampleFilter)
        delete = partial(delete_matching, model_id=row["model_id"], where=where)
        gone = in_slices(self._writer, ids.tolist(), delete)
        self._writer.write(lambda transaction: transaction.execute(_FORGET, (recorded,)))
        return gone


def in_slices(
    writer: Writer,
    items: Sequence[_T],
    change: Callable[[Transaction, Sequence[_T]], list[_T]],
) -> list[_T]:
    """Change rows in transactions of a few hundredths of a second each.

    change: called with some of the items; returns those that it changed, as this does of all.
    """
    changed, start, size, began_s = list[_T](), 0, AT_ONCE, 0.0

    def timed(transaction: Transaction) -> list[_T]:
        nonlocal began_s
        began_s = time.monotonic()
        return change(transaction, items[start : start + size])

    while start < len(items):
        changed += writer.write(timed)
        start += size
        # By what it took with its COMMIT; every few write all that earlier ones have changed, too.
        fitting = int(size * _TARGET_S / max(time.monotonic() - began_s, 1e-6))
        size = min(max(fitting, size // 2, _LEAST), size * 5 // 4, _MOST)
    return changed
