"""Quotas: evicts samples when a model exceeds its limits. The base set does not count.

Samples of the owner that holds most go first, so that no app, whatever it uploads, replaces samples
of another that holds no more than an equal share.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from heapq import heapify, heappop, heapreplace
from typing import Any

from storage.database.codec import load
from storage.database.connection import sqlite3
from storage.database.transaction import Transaction
from storage.erasure.sample_rows import delete_samples
from storage.errors import StorageFull
from storage.records.models import Quota
from storage.records.samples import Split
from storage.samples.filter import SampleFilter
from storage.tables.model_rows import LABELLED

NOBODY = ""
"""In `sample_owners`, the owner of samples that only an administrator of the model may change."""
# An eviction frees a hundredth of the quota more than necessary, so that a full model does not
# evict at every upload.
_SLACK = 100
EVICTABLE = SampleFilter(split=Split.TRAIN, pinned=False)
"""What a change of the quota may evict."""
_QUOTA = "SELECT quota FROM models WHERE id = ?"
_NEW = f"""
UPDATE triggers SET labelled = labelled + :sign * ({LABELLED})
FROM models WHERE models.id = model_id AND model_id = :model_id
"""  # noqa: S608 - our own
# Before and after an eviction, so that those that arrive at a full model still count as new.
_DELETING = "SELECT 1 FROM deletions WHERE model_id = ?"
_HELD = """
SELECT
  owner, sum(count) AS samples, sum(size_bytes) AS size_bytes,
  sum(CASE split WHEN 'validation' THEN count ELSE 0 END) AS validation
FROM sample_owners WHERE model_id = ? AND split <> 'base' GROUP BY owner HAVING sum(count) > 0
"""
_TRAINING = """
FROM samples WHERE model_id = :model_id AND split = 'train' AND NOT pinned AND {of_owner}
"""
_OLDEST = "SELECT id, length {training} ORDER BY id"
# The id's place in a uniform, fixed shuffle (the multiplier of PCG's 32-bit output steps): the
# lowest stay, so that every sample that ever came had the same chance.
_RESERVOIR = (
    "SELECT id, length {training} ORDER BY ((id * 747796405 + 2891336453) % 4294967296) DESC, id"
)
_CLASS = "CASE typeof(label) WHEN 'integer' THEN label WHEN 'null' THEN -1 ELSE -2 END"
_CLASSES = f"SELECT {_CLASS} AS class, count(*) AS count {{training}} GROUP BY 1"
_OF_CLASS = f"SELECT id, length {{training}} AND {_CLASS} = :class ORDER BY id"
_VALIDATION = """
SELECT id, length FROM samples
WHERE model_id = :model_id AND owner = :owner AND split = 'validation' AND NOT pinned
  AND id NOT IN (SELECT sample_id FROM reference_samples)
ORDER BY id
"""

Victims = Generator[tuple[int, int], None, None]
"""(id, length) of samples that may be evicted, in the order of eviction."""


def find_quota(transaction: Transaction, model_id: int) -> Quota:
    """The quota of a model that is there."""
    return Quota(**load(transaction.execute(_QUOTA, (model_id,)).fetchone()["quota"]))


def enforce_quota(transaction: Transaction, model_id: int, quota: Quota, *, added_by: str) -> int:
    """Evict samples until the quota holds; returns how many; none while others are being deleted.

    added_by: the owner of new samples, or NOBODY. Raises as `to_evict`.
    """
    if transaction.execute(_DELETING, (model_id,)).fetchone():
        return 0
    gone = to_evict(transaction.connection, model_id, quota, added_by=added_by)
    if not gone:
        return 0
    transaction.execute(_NEW, {"model_id": model_id, "sign": -1})
    evicted = delete_samples(transaction, model_id, gone)
    transaction.execute(_NEW, {"model_id": model_id, "sign": 1})
    return evicted


def to_evict(
    connection: sqlite3.Connection, model_id: int, quota: Quota, *, added_by: str | None = None
) -> list[int]:
    """Ids of the samples that go so that a quota holds.

    added_by: None if the quota was changed. Raises StorageFull if what must stay exceeds the quota,
    or the share of that owner: validation samples, except those of other owners, and pinned ones.
    """
    if quota.max_samples is None and quota.max_bytes is None:
        return []
    eviction = _Eviction(connection, model_id, quota, added_by=added_by)
    try:
        eviction.meet("samples", quota.max_samples)
        eviction.meet("size_bytes", quota.max_bytes)
    finally:
        eviction.close()
    return eviction.gone


def validation_is_full(transaction: Transaction, model_id: int, owner: str, quota: Quota) -> bool:
    """Whether an owner's validation samples, which seldom go, take a tenth of its share."""
    if quota.max_samples is None:
        return False
    rows = transaction.execute(_HELD, (model_id,))
    validation = {owner: 0} | {row["owner"]: row["validation"] for row in rows}
    return bool(validation[owner] >= max(1, quota.max_samples // len(validation) // 10))


class _Eviction:
    """Chooses the samples that go, of the owner that holds most. gone: their ids."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        model_id: int,
        quota: Quota,
        *,
        added_by: str | None,
    ) -> None:
        self.gone: list[int] = []
        self._connection = connection
        self._model_id = model_id
        self._when_full = quota.when_full
        self._added_by = added_by
        self._held = {row["owner"]: dict(row) for row in connection.execute(_HELD, (model_id,))}
        self._victims = {owner: self._of(owner) for owner in self._held}

    def meet(self, measure: str, limit: int | None) -> None:
        """Evict until the owners hold no more than the limit. Raises StorageFull."""
        total = sum(held[measure] for held in self._held.values())
        if limit is None or total <= limit:
            return
        largest = [(-held[measure], owner) for owner, held in self._held.items()]
        heapify(largest)
        while largest and total > limit - limit // _SLACK:
            owner = largest[0][1]
            victim = next(self._victims[owner], None)
            if victim is not None:
                total -= self._evict(owner, *victim)[measure]
                heapreplace(largest, (-self._held[owner][measure], owner))
            elif owner == self._added_by and owner != NOBODY:
                break  # its own share is full
            else:
                heappop(largest)
        if total > limit:
            raise StorageFull(
                "the model's quota is full of validation samples and pinned ones, which stay; "
                "raise the quota, or delete some of them"
            )

    def close(self) -> None:
        """Close the cursors: the log cannot be truncated while one is open."""
        for victims in self._victims.values():
            victims.close()

    def _evict(self, owner: str, sample_id: int, length: int) -> dict[str, int]:
        """Returns how much that frees, by measure."""
        freed = {"samples": 1, "size_bytes": length}
        for measure, amount in freed.items():
            self._held[owner][measure] -= amount
        self.gone.append(sample_id)
        return freed

    def _of(self, owner: str) -> Victims:
        """An owner's samples. Its validation samples must not keep out what others add."""
        parameters = {"model_id": self._model_id, "owner": owner}
        of_owner = "owner IS NULL" if owner == NOBODY else "owner = :owner"
        training = _TRAINING.format(of_owner="1" if len(self._held) == 1 else of_owner)
        if self._when_full == "balanced":
            yield from _from_the_largest(self._connection, training, parameters)
        else:
            query = _OLDEST if self._when_full == "oldest" else _RESERVOIR
            yield from self._connection.execute(query.format(training=training), parameters)
        if self._added_by is not None and owner not in (NOBODY, self._added_by):
            yield from self._connection.execute(_VALIDATION, parameters)


def _from_the_largest(
    connection: sqlite3.Connection, training: str, parameters: dict[str, Any]
) -> Victims:
    """Repeatedly the oldest of what is then the largest class; unlabelled samples are a class."""
    of_class = _OF_CLASS.format(training=training)
    heap: list[tuple[int, int, Iterator[Any]]] = [
        (-count, kind, connection.execute(of_class, {**parameters, "class": kind}))
        for kind, count in connection.execute(_CLASSES.format(training=training), parameters)
    ]
    heapify(heap)
    while heap and heap[0][0] < 0:
        count, kind, members = heap[0]
        yield tuple(next(members))
        heapreplace(heap, (count + 1, kind, members))
