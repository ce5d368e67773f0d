"""Merges an upload's twins, unless the model keeps duplicates.

Twins are samples with the same SHA-256 of their inputs. Of those with the same label one stays; a
twin without a label gets that of another; twins with different labels are all kept.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from itertools import groupby
from operator import itemgetter

from msgspec import Struct

from storage.database.connection import sqlite3
from storage.database.transaction import Transaction
from storage.records.samples import DAMAGED, Label
from storage.samples.staged_rows import BEGINNING_BYTES, StagedRows

_TOLD = 1000
_PREFIX = f"substr(sha256, 1, {BEGINNING_BYTES})"
"""As in the index `samples_by_content`; a whole digest would make that three times as large."""
# Without INDEXED BY, SQLite scans all samples of the model, since they are in the order of ids.
# A sample that contradicts a label of the base set does not join it, but has its own split.
# The prefixes are one blob, so that one prepared statement serves any number of them.
_STORED = f"""
WITH RECURSIVE sought (at) AS (
  SELECT 1 UNION ALL
  SELECT at + {BEGINNING_BYTES} FROM sought WHERE at + {BEGINNING_BYTES} < length(:prefixes)
)
SELECT id, sha256, label, nullif(split, 'base') AS split
FROM sought CROSS JOIN samples INDEXED BY samples_by_content
WHERE model_id = :model_id AND {_PREFIX} = substr(:prefixes, at, {BEGINNING_BYTES})
  AND (:owner IS NULL OR owner IS :owner)
  AND (quarantine IS NULL OR quarantine NOT LIKE '{DAMAGED}%') ORDER BY id
"""  # noqa: S608 - our own
_TAKE_LABEL = "UPDATE samples SET label = ? WHERE id = ? AND label IS NULL"
_TAKE_KEY = "UPDATE samples SET key = ? WHERE id = ? AND key IS NULL"
# The sample may have been deleted since it was found.
_ADD_KEY = """
INSERT INTO sample_keys (model_id, key, sample_id) SELECT model_id, ?, id FROM samples WHERE id = ?
"""


class _Twin(Struct, frozen=True):
    """id: of a stored sample, or the ordinal of a staged row."""

    id: int
    split: str | None


Twins = dict[Label, _Twin]
"""Samples with the same content, by label."""


def drop_stored(
    rows: StagedRows, database: sqlite3.Connection, model_id: int, *, owner: str | None
) -> None:
    """Drop the staged rows that equal a stored sample; owner: None for any."""
    new = rows.beginnings()
    if new is not None and not _stored(database, model_id, new, rows, owner=owner):
        return
    for batch in rows.batches():
        prefixes = {row[1][:BEGINNING_BYTES] for row in batch}
        stored = _stored(database, model_id, prefixes, rows, owner=owner)
        for n, digest, label, key, _ in batch if stored else ():
            twins = stored.get(digest)
            if twins is None:
                continue
            twin, takes_label = _match(twins, label)
            if twin is None:
                rows.conflict(n, split=next(iter(twins.values())).split)
                continue
            if takes_label:
                rows.label_stored(twin.id, label)
            rows.drop(n, stored=twin.id, key=key)


def drop_repeated(rows: StagedRows) -> None:
    """Drop the staged rows that equal an earlier one."""
    if rows.beginnings() is not None:
        return
    for _, same in groupby(rows.repeated(), key=itemgetter(1)):
        twins: Twins = {}
        for n, _, label, key, split in same:
            twin, takes_label = _match(twins, label)
            if twin is None:
                if twins:
                    rows.conflict(n, split=next(iter(twins.values())).split)
                twins[label] = _Twin(n, split)
                continue
            if takes_label:
                rows.set_label(twin.id, label)
            rows.drop(n, of=twin.id, key=key)


def apply_merges(transaction: Transaction, rows: StagedRows, *, first_id: int) -> dict[int, int]:
    """Give stored samples the labels and additional keys of their dropped twins.

    Returns ordinal → sample id of the first thousand dropped rows.
    """
    taken = ((label, sample_id) for sample_id, label in rows.stored_labels())
    transaction.executemany(_TAKE_LABEL, taken)
    told: dict[int, int] = {}
    for n, sample_id, key in rows.resolved(first_id):
        if len(told) < _TOLD:
            told[n] = sample_id
        if key is not None and not transaction.execute(_TAKE_KEY, (key, sample_id)).rowcount:
            transaction.execute(_ADD_KEY, (key, sample_id))
    return told


def _match(twins: Twins, label: Label) -> tuple[_Twin | None, bool]:
    """The twin that a row equals, if any, and whether that gets the row's label."""
    if label in twins:
        return twins[label], False
    if label is None:
        return next(iter(twins.values()), None), False
    if None in twins:
        twins[label] = twins.pop(None)
        return twins[label], True
    return None, False


def _stored(
    database: sqlite3.Connection,
    model_id: int,
    prefixes: Iterable[bytes],
    rows: StagedRows,
    *,
    owner: str | None,
) -> dict[bytes, Twins]:
    """Stored samples by digest; those that get a label from this upload already have it."""
    sought = {"model_id": model_id, "prefixes": b"".join(sorted(prefixes)), "owner": owner}
    twins: defaultdict[bytes, Twins] = defaultdict(dict)
    for row in database.execute(_STORED, sought):
        label = row["label"] if row["label"] is not None else rows.label_for(row["id"])
        twins[row["sha256"]].setdefault(label, _Twin(row["id"], row["split"]))
    return twins
