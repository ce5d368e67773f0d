"""Quotas: evicts samples when a model exceeds its limits. The base set does not count."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heapreplace
from typing import Any

from storage.database.codec import load
from storage.database.connection import sqlite3
from storage.database.transaction import Transaction
from storage.erasure.sample_rows import delete_samples
from storage.errors import StorageFull
from storage.records.models import Quota

# An eviction frees a hundredth of the quota more than necessary, so that a full model does not
# evict at every upload.
_SLACK = 100
_STATE = """
SELECT quota, sample_bytes,
  (SELECT coalesce(sum(count), 0) FROM sample_counts
   WHERE model_id = models.id AND split <> 'base') AS samples,
  (SELECT coalesce(sum(count), 0) FROM sample_counts
   WHERE model_id = models.id AND split = 'base') AS base
FROM models WHERE id = ?
"""
_BASE_BYTES = "SELECT coalesce(sum(length), 0) FROM samples WHERE model_id = ? AND split = 'base'"
_EVICTABLE = "FROM samples WHERE model_id = ? AND split = 'train' AND NOT pinned"
_OLDEST = f"SELECT id, length {_EVICTABLE} ORDER BY id"
# The id's place in a uniform, fixed shuffle (the multiplier of PCG's 32-bit output steps): the
# lowest stay, so that every sample that ever came had the same chance.
_RESERVOIR = (
    f"SELECT id, length {_EVICTABLE} ORDER BY ((id * 747796405 + 2891336453) % 4294967296) DESC, id"
)
_CLASS = "CASE typeof(label) WHEN 'integer' THEN label WHEN 'null' THEN -1 ELSE -2 END"
_CLASSES = f"SELECT {_CLASS} AS class, count(*) AS count {_EVICTABLE} GROUP BY 1"
_OF_CLASS = f"SELECT id, length {_EVICTABLE} AND {_CLASS} = ? ORDER BY id"
_VALIDATION = """
SELECT coalesce(sum(count), 0) FROM sample_counts WHERE model_id = ? AND split = 'validation'
"""


def enforce_quota(transaction: Transaction, model_id: int) -> int:
    """Evict samples until the quota holds; returns how many.

    Raises StorageFull if validation and pinned samples, which must stay, exceed the quota.
    """
    row = transaction.execute(_STATE, (model_id,)).fetchone()
    quota = Quota(**load(row["quota"]))
    samples, spare_samples = _excess(row["samples"], quota.max_samples)
    held_bytes = row["sample_bytes"]
    if row["base"] and quota.max_bytes is not None and held_bytes > quota.max_bytes:
        held_bytes -= transaction.execute(_BASE_BYTES, (model_id,)).fetchone()[0]
    size_bytes, spare_bytes = _excess(held_bytes, quota.max_bytes)
    if samples <= 0 and size_bytes <= 0:
        return 0
    gone = []
    for sample_id, length in _victims(transaction.connection, model_id, quota):
        gone.append(sample_id)
        samples -= 1
        size_bytes -= length
        if samples <= -spare_samples and size_bytes <= -spare_bytes:
            break
    if samples > 0 or size_bytes > 0:
        raise StorageFull(
            "the model's quota is full of validation samples and pinned ones, which stay; raise "
            "the quota, or delete some of them"
        )
    return delete_samples(transaction, model_id, gone)


def validation_is_full(transaction: Transaction, model_id: int) -> bool:
    """Whether validation samples, which are never evicted, already take a tenth of the quota."""
    row = transaction.execute("SELECT quota FROM models WHERE id = ?", (model_id,)).fetchone()
    limit = Quota(**load(row["quota"])).max_samples
    if limit is None:
        return False
    held = int(transaction.execute(_VALIDATION, (model_id,)).fetchone()[0])
    return held >= max(1, limit // 10)


def _excess(held: int, limit: int | None) -> tuple[int, int]:
    """How much must be evicted, and how much more should be; zeros within the limit."""
    if limit is None or held <= limit:
        return 0, 0
    return held - limit, limit // _SLACK


def _victims(
    connection: sqlite3.Connection, model_id: int, quota: Quota
) -> Iterator[tuple[int, int]]:
    """(id, length) of samples that may be evicted, in the order of eviction."""
    if quota.when_full == "balanced":
        yield from _from_the_largest(connection, model_id)
        return
    query = _OLDEST if quota.when_full == "oldest" else _RESERVOIR
    yield from connection.execute(query, (model_id,))


def _from_the_largest(connection: sqlite3.Connection, model_id: int) -> Iterator[tuple[int, int]]:
    """Repeatedly the oldest of what is then the largest class; unlabelled samples are a class."""
    rows = connection.execute(_CLASSES, (model_id,)).fetchall()
    heap: list[tuple[int, int, Iterator[Any]]] = [
        (-row["count"], row["class"], connection.execute(_OF_CLASS, (model_id, row["class"])))
        for row in rows
    ]
    heapify(heap)
    while heap and heap[0][0] < 0:
        count, kind, members = heap[0]
        yield tuple(next(members))
        heapreplace(heap, (count + 1, kind, members))
