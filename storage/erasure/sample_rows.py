"""How deletions and rewritten packs change the rows of samples.

The database and each copy of it go through the same steps.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from storage.database.codec import dump
from storage.database.transaction import Transaction

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
# Repeating it does no harm; a copy of the database may be older than the pack.
_NEW_PACK = """
INSERT INTO packs (model_id, pack, size_bytes)
SELECT model_id, ?, ? FROM packs WHERE model_id = ? AND pack = ?
ON CONFLICT DO NOTHING
"""


def delete_samples(transaction: Transaction, model_id: int, ids: Iterable[int]) -> int:
    """Delete rows, and record which bytes to overwrite; returns the number of samples.

    The range is recorded in the same transaction: after a crash in between, start-up overwrites it
    again, which does no harm. In the reverse order a crash would leave a row of zeros.
    """
    given = (model_id, dump(list(ids)))
    transaction.execute(_REMEMBER, given)
    transaction.execute(_WEIGH, given)
    return transaction.execute(_DELETE, given).rowcount


class RewrittenPack(Struct, frozen=True):
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
