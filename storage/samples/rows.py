"""Rows of samples: written when their bytes are placed, and read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields
from typing import Any

from storage.blobs.packs import Placement
from storage.database.codec import dump_time, load_time
from storage.database.connection import sqlite3
from storage.database.transaction import Transaction
from storage.errors import NotFound
from storage.records.samples import SAMPLE_COLUMNS, Sample, Split
from storage.samples.quota import validation_is_full

_VALIDATION_BELOW = 2**64 // 10
_NEXT_ID = "SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'samples'), 0) + 1"
_COLUMNS = (
    *("id", "model_id", "owner", "pack", "offset", "created_at", "length", "sha256", "label"),
    *SAMPLE_COLUMNS,
)
_SPLIT = list(SAMPLE_COLUMNS).index("split")
_INSERT_SAMPLE = (
    f"INSERT INTO samples ({', '.join(_COLUMNS)}) "  # noqa: S608 - our own names
    f"VALUES ({', '.join('?' * len(_COLUMNS))})"
)
_COUNT_SAMPLES = """
INSERT INTO sample_counts (model_id, split, class, count)
SELECT
  model_id, split,
  CASE typeof(label) WHEN 'integer' THEN label WHEN 'null' THEN -1 ELSE -2 END AS kind, count(*)
FROM samples WHERE id >= ? GROUP BY model_id, split, kind
ON CONFLICT DO UPDATE SET count = count + excluded.count
"""
_WEIGH_SAMPLES = """
UPDATE models SET sample_bytes = sample_bytes +
  (SELECT sum(length) FROM samples WHERE id >= ? AND model_id = models.id)
WHERE id = ?
"""
_PACK_SIZE = """
INSERT INTO packs (model_id, pack, size_bytes) VALUES (?, ?, ?)
ON CONFLICT DO UPDATE SET size_bytes = excluded.size_bytes
"""


def insert_samples(
    transaction: Transaction,
    model_id: int,
    staged: Iterable[tuple[Any, ...]],
    placement: Placement,
    *,
    owner: str | None,
) -> int:
    """Store the rows of an upload, counted and weighed; the first id, which the others follow.

    staged: (length, digest, label, …SAMPLE_COLUMNS), in the order of the bytes in the pack.
    """
    first_id: int = transaction.execute(_NEXT_ID).fetchone()[0]
    rows = _placed(
        staged,
        placement,
        model_id=model_id,
        owner=owner,
        first_id=first_id,
        created_at=dump_time(transaction.now),
        all_train=validation_is_full(transaction, model_id),
    )
    transaction.executemany(_INSERT_SAMPLE, rows)
    transaction.execute(_COUNT_SAMPLES, (first_id,))
    transaction.execute(_WEIGH_SAMPLES, (first_id, model_id))
    transaction.execute(_PACK_SIZE, (model_id, placement.pack, placement.size_bytes))
    return first_id


def split_of(sha256: bytes) -> Split:
    """One sample in ten is for validation, by chance of its inputs' digest and so for ever.

    Equal inputs are in the same split, so that no sample is measured on what it was trained on.
    """
    is_validation = int.from_bytes(sha256[:8], "big") < _VALIDATION_BELOW
    return Split.VALIDATION if is_validation else Split.TRAIN


def find_sample_row(
    connection: sqlite3.Connection, model_id: int, sample_id: int, *, owner: str | None = None
) -> sqlite3.Row:
    """owner: None for anybody's. Raises NotFound."""
    row: sqlite3.Row | None = connection.execute(
        "SELECT * FROM samples WHERE id = ? AND model_id = ?", (sample_id, model_id)
    ).fetchone()
    if row is None or owner not in (None, row["owner"]):
        raise NotFound(f"this model has no sample {sample_id}{_added_by(owner)}")
    return row


def no_key(owner: str | None) -> NotFound:
    """The error for a key that no sample of the owner has."""
    return NotFound(f"this model has no sample with that key{_added_by(owner)}")


def _added_by(owner: str | None) -> str:
    return "" if owner is None else f" that {owner} has added"


def to_sample(row: sqlite3.Row) -> Sample:
    """A sample, of all columns of its row."""
    values = {name: row[name] for name in _FIELDS} | {"size_bytes": row["length"]}
    return Sample(**values | {name: read(row[name]) for name, read in _READ.items()})


_FIELDS = tuple(each.name for each in fields(Sample) if each.name != "size_bytes")
_READ: dict[str, Callable[[Any], Any]] = {
    "split": Split,
    "sha256": bytes.hex,
    "created_at": load_time,
    "pinned": bool,
}
"""Columns whose text or number stands for something else."""


def _placed(
    staged: Iterable[tuple[Any, ...]],
    placement: Placement,
    *,
    model_id: int,
    owner: str | None,
    first_id: int,
    created_at: str,
    all_train: bool,
) -> Iterator[tuple[Any, ...]]:
    """all_train: samples that name no split are for training, whatever their ids say."""
    offset = placement.offset_bytes
    for sample_id, (length, sha256, label, *columns) in enumerate(staged, first_id):
        if columns[_SPLIT] is None:
            columns[_SPLIT] = (Split.TRAIN if all_train else split_of(sha256)).value
        place = (sample_id, model_id, owner, placement.pack, offset, created_at)
        yield (*place, length, sha256, label, *columns)
        offset += length
