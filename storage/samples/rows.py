"""Rows of samples: written when their bytes are placed, and read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from storage.blobs.packs import Placement
from storage.database.codec import dump_time
from storage.database.connection import insert_rows, sqlite3
from storage.database.rows import record
from storage.database.transaction import Transaction
from storage.errors import NotFound
from storage.records.models import Quota
from storage.records.samples import SAMPLE_COLUMNS, VALIDATION_BELOW, Sample, Split
from storage.samples.quota import NOBODY, validation_is_full
from storage.samples.staged_rows import StagedRows

_NEXT_ID = "SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'samples'), 0) + 1"
_STAGED = ("length", "sha256", "label", *(name for name in SAMPLE_COLUMNS if name != "split"))
_COLUMNS = ("id", "offset", "split", *_STAGED)
# Samples without a given split are for validation if their digests are below the parameter.
_SELECT = f"""
SELECT
  coalesce(split, CASE WHEN sha256 < ?
    THEN '{Split.VALIDATION.value}' ELSE '{Split.TRAIN.value}' END),
  {", ".join(_STAGED)}
FROM staged ORDER BY n
"""  # noqa: S608 - our own names
_COUNT_SAMPLES = """
INSERT INTO sample_counts (model_id, split, class, count) VALUES (?, ?, ?, ?)
ON CONFLICT DO UPDATE SET count = count + excluded.count
"""
_COUNT_BY_OWNER = """
INSERT INTO sample_owners (model_id, owner, split, count, size_bytes) VALUES (?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET
  count = count + excluded.count, size_bytes = size_bytes + excluded.size_bytes
"""
BASE_SET_CHANGED = "UPDATE models SET base_set_at = ? WHERE id = ?"
_PACK_SIZE = """
INSERT INTO packs (model_id, pack, size_bytes) VALUES (?, ?, ?)
ON CONFLICT DO UPDATE SET size_bytes = excluded.size_bytes
"""


def insert_samples(
    transaction: Transaction,
    model_id: int,
    staged: StagedRows,
    placement: Placement,
    *,
    owner: str | None,
    quota: Quota,
) -> int:
    """Store an upload's rows, and update counts and bytes; returns the first of consecutive ids."""
    first_id: int = transaction.execute(_NEXT_ID).fetchone()[0]
    constant = {
        "model_id": model_id,
        "owner": owner,
        "pack": placement.pack,
        "created_at": dump_time(transaction.now),
    }
    holder = owner or NOBODY
    below = b"" if validation_is_full(transaction, model_id, holder, quota) else VALIDATION_BELOW
    counts, sizes = Counter[tuple[str, int]](), Counter[str]()
    rows = staged.select(_SELECT, (below,))
    placed = _placed(rows, counts, sizes, first_id=first_id, offset=placement.offset_bytes)
    insert_rows(transaction.connection, "samples", _COLUMNS, placed, constant=constant)
    counted = ((model_id, *kind, count) for kind, count in counts.items())
    transaction.executemany(_COUNT_SAMPLES, counted)
    splits = Counter[str]()
    for (split, _), count in counts.items():
        splits[split] += count
    owned = ((model_id, holder, split, splits[split], size) for split, size in sizes.items())
    transaction.executemany(_COUNT_BY_OWNER, owned)
    transaction.execute(_PACK_SIZE, (model_id, placement.pack, placement.size_bytes))
    if Split.BASE in splits:
        transaction.execute(BASE_SET_CHANGED, (constant["created_at"], model_id))
    return first_id


def find_sample_row(
    connection: sqlite3.Connection, model_id: int, sample_id: int, *, owner: str | None = None
) -> sqlite3.Row:
    """The row of a sample; owner: None for any. Raises NotFound."""
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
    """The sample of a row with all columns."""
    return record(Sample, row, size_bytes=row["length"], sha256=row["sha256"].hex())


def _placed(
    rows: Iterable[tuple[Any, ...]],
    counts: Counter[tuple[str, int]],
    sizes: Counter[str],
    *,
    first_id: int,
    offset: int,
) -> Iterator[tuple[Any, ...]]:
    """rows: (split, length, digest, label, …), in the order of the bytes in the pack.

    counts: by split and class. sizes: bytes by split. Both are updated while iterating.
    """
    for sample_id, row in enumerate(rows, first_id):
        split, length, _, label, *_ = row
        kind = label if isinstance(label, int) else -1 if label is None else -2
        counts[split, kind] += 1
        sizes[split] += length
        yield (sample_id, offset, *row)
        offset += length
