"""What deleted samples have left behind, though no erasure is recorded for it any more.

There is none, but after a Hone whose threads forgot each other's erasures, after a restored
database that is older than its packs, and when samples were being moved to another pack. Such packs
are marked, and looked into with the next erasure or sweep; a verification looks into all.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TypeAlias

import numpy as np

from storage.arrays import NDArray
from storage.backup.copies import Copies
from storage.blobs.cache_folder import cache_paths, drop_caches
from storage.blobs.packs import Packs
from storage.database.connection import Readers
from storage.database.writer import Writer
from storage.erasure.sample_rows import integers
from storage.errors import StorageBroken

Table: TypeAlias = "NDArray[np.int64]"

_BLOCK_BYTES = 1 << 20
_logger = logging.getLogger(__name__)
_MARKED = "SELECT pack FROM packs WHERE model_id = ? AND leftovers"
_CLEAR = """
UPDATE packs SET leftovers = 0, erased_bytes = ? + (
  SELECT coalesce(sum(length), 0) FROM erasures
  WHERE erasures.model_id = packs.model_id AND erasures.pack = packs.pack
)
WHERE model_id = ? AND pack = ?
"""
# What lies between the ranges that rows name, up to the end of the pack.
_GAPS = """
WITH named AS (
  SELECT pack, offset, length FROM samples WHERE model_id = :model_id
  UNION ALL SELECT pack, offset, length FROM erasures WHERE model_id = :model_id
  UNION ALL SELECT pack, size_bytes, 0 FROM packs WHERE model_id = :model_id
), gaps AS (
  SELECT pack, offset AS stop, coalesce(max(offset + length) OVER (
    PARTITION BY pack ORDER BY offset ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
  ), 0) AS start
  FROM named
)
SELECT pack, start, stop FROM gaps WHERE stop > start ORDER BY pack, start
"""


class Leftovers:
    """Finds bytes of deleted samples that were forgotten, and overwrites them."""

    def __init__(self, writer: Writer, readers: Readers, packs: Packs, copies: Copies) -> None:
        self._writer = writer
        self._readers = readers
        self._packs = packs
        self._copies = copies

    def remove(self, model_id: int) -> Iterator[int]:
        """Look into all packs of a model; yields how many bytes it has read."""
        packs = set[int]()
        for pack, gaps in self._gaps(model_id):
            for size_bytes, left in self._look(model_id, pack, gaps):
                packs.update([pack] if left else [])
                yield size_bytes
        if packs and not self._copies.are_sent():
            with self._packs.lock(model_id):  # while no row comes or moves
                self._overwrite(model_id, packs)

    def remove_marked(self, model_id: int) -> None:
        """Look into the marked packs of a model, and take the marks off.

        Not while a backup is sent that may name a sample where it was before it was moved.
        """
        with self._packs.lock(model_id):
            marked = {row["pack"] for row in self._readers.all(_MARKED, (model_id,))}
            if marked and not self._copies.are_sent():
                sizes = self._overwrite(model_id, marked)
                keys = [(sizes.get(pack, 0), model_id, pack) for pack in marked]
                self._writer.write(lambda transaction: transaction.executemany(_CLEAR, keys))

    def _overwrite(self, model_id: int, packs: set[int]) -> dict[int, int]:
        """Make own backups and caches forget what is not stored, and overwrite it in these packs.

        Copies come first: none may name a sample whose bytes are zeros. Returns the packs' bytes
        without a row.
        """
        self._packs.require_sound()
        self._copies.follow(self._readers, model_id)
        for folder in cache_paths(self._packs.cache_dir, model_id):
            drop_caches(folder)
        sizes, left_bytes = dict[int, int](), 0
        for pack, gaps in self._gaps(model_id):
            if pack in packs:
                left = [
                    gap for _, gaps_left in self._look(model_id, pack, gaps) for gap in gaps_left
                ]
                self._packs.erase(model_id, pack, left)
                sizes[pack] = int((gaps[:, 1] - gaps[:, 0]).sum())
                left_bytes += sum(length for _, length in left)
        if left_bytes:
            told = {"model_id": model_id, "size_bytes": left_bytes}
            _logger.warning("erasure.leftovers", extra={"fields": told})
        return sizes

    def _gaps(self, model_id: int) -> Iterator[tuple[int, Table]]:
        """A pack, and (n, 2): where each range without a row begins and ends in it."""
        with self._readers.snapshot() as connection:
            rows = connection.execute(_GAPS, {"model_id": model_id})
            table = integers(rows, columns=3)
        for pack in dict.fromkeys(table[:, 0].tolist()):
            yield pack, table[table[:, 0] == pack, 1:]

    def _look(
        self, model_id: int, pack: int, gaps: Table
    ) -> Iterator[tuple[int, list[tuple[int, int]]]]:
        """How many bytes of gaps a block of the pack has; (offset, length) of those not zeros."""
        for begin in range(int(gaps[0, 0]), int(gaps[-1, 1]), _BLOCK_BYTES):
            end = begin + _BLOCK_BYTES
            first = np.searchsorted(gaps[:, 1], begin, "right")
            ranges = gaps[first : np.searchsorted(gaps[:, 0], end)].clip(begin, end)
            if len(ranges):
                lengths = ranges[:, 1] - ranges[:, 0]
                is_left = self._holds_more_than_zeros(model_id, pack, begin, ranges - begin)
                left = np.stack([ranges[:, 0], lengths], axis=1)[is_left]
                yield int(lengths.sum()), [(offset, length) for offset, length in left.tolist()]

    def _holds_more_than_zeros(
        self, model_id: int, pack: int, begin: int, ranges: Table
    ) -> NDArray[np.bool_]:
        """(n,): which of these ranges do. A block that cannot be read may."""
        try:
            (data,) = self._packs.read(model_id, pack, [(begin, _BLOCK_BYTES)])
        except StorageBroken:
            return np.ones(len(ranges), bool)
        # A damaged pack ends earlier; and a range may end with the block.
        block = np.frombuffer(data.ljust(_BLOCK_BYTES + 1, b"\0"), np.uint8)
        is_left: NDArray[np.bool_] = np.bitwise_or.reduceat(block, ranges.ravel())[::2] != 0
        return is_left
