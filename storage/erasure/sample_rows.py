"""How a deletion and a rewritten pack change the rows of samples.

The database itself and each copy of it go through the same steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from storage.database.transaction import Transaction

_IDS_PER_STATEMENT = 500
_REMEMBER = """
INSERT INTO erasures (model_id, pack, offset, length, sample_id)
SELECT model_id, pack, offset, length, id FROM samples WHERE model_id = ? AND id IN ({})
"""
_WEIGH = """
UPDATE packs SET erased_bytes = erased_bytes + gone.bytes
FROM (
  SELECT pack, sum(length) AS bytes FROM samples WHERE model_id = ? AND id IN ({}) GROUP BY pack
) AS gone
WHERE packs.model_id = ? AND packs.pack = gone.pack
"""
_DELETE = "DELETE FROM samples WHERE model_id = ? AND id IN ({})"
# Where it has been said already, saying it again does no harm; a copy of the database may be older
# than the pack.
_NEW_PACK = """
INSERT INTO packs (model_id, pack, size_bytes)
SELECT model_id, ?, ? FROM packs WHERE model_id = ? AND pack = ?
ON CONFLICT DO NOTHING
"""


def delete_samples(transaction: Transaction, model_id: int, ids: Iterable[int]) -> int:
    """Delete rows, and remember which bytes are to be overwritten; how many samples there were.

    The range is remembered in the same transaction: after a crash in between, start-up overwrites
    it again, which does no harm. The other way round a crash would leave a row of zeros.
    """
    gone = 0
    for some in _chunks(ids):
        marks = ", ".join("?" * len(some))
        transaction.execute(_REMEMBER.format(marks), (model_id, *some))
        transaction.execute(_WEIGH.format(marks), (model_id, *some, model_id))
        gone += transaction.execute(_DELETE.format(marks), (model_id, *some)).rowcount
    return gone


@dataclass(frozen=True, slots=True)
class RewrittenPack:
    """A rewritten pack. moves: (new offset, sample id)."""

    pack: int
    size_bytes: int
    moves: list[tuple[int, int]]


def move_samples(
    transaction: Transaction, model_id: int, pack: int, move: RewrittenPack | None
) -> None:
    """Record the new places of a pack's samples. copy: None if no samples are left."""
    if move is not None:
        transaction.execute(_NEW_PACK, (move.pack, move.size_bytes, model_id, pack))
        transaction.executemany(
            f"UPDATE samples SET pack = {move.pack:d}, offset = ? WHERE id = ?",  # noqa: S608
            move.moves,
        )
    transaction.execute("DELETE FROM packs WHERE model_id = ? AND pack = ?", (model_id, pack))


def _chunks(ids: Iterable[int]) -> Iterator[Sequence[int]]:
    rest = iter(ids)
    while some := list(islice(rest, _IDS_PER_STATEMENT)):
        yield some
