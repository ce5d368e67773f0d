"""Decodes files once, several at a time, into rows of a cache."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct, field
from numpy.typing import NDArray

from service.preprocess.kind import TOO_LARGE, FileKind, Row, Unreadable
from service.training.data.batches import Indices
from storage.errors import StorageFull
from storage.readonly.sample_index import SampleIndex

if TYPE_CHECKING:
    from service.preprocess.masks.masks import Masks
    from storage.blobs.row_cache import RowCache

APPEND_BYTES = 8 << 20
logger = logging.getLogger(__name__)


class Decoding(Struct):
    """The result of decoding. unreadable: position in the index → reason. kept: files cached."""

    unreadable: dict[int, str] = field(default_factory=dict)
    decoded: int = 0
    kept: int = 0
    seconds: float = 0.0


class StoredFiles:
    """The bytes of the samples of an index, by position."""

    def __init__(self, index: SampleIndex) -> None:
        self._index = index
        self._packs: dict[int, NDArray[np.uint8]] = {}

    def __getitem__(self, position: int) -> bytes:
        index = self._index
        pack = int(index.packs[position])
        if pack not in self._packs:
            path = index.pack_paths[pack]
            self._packs[pack] = np.asarray(np.memmap(path, np.uint8, mode="r"))
        start = int(index.offsets[position])
        return self._packs[pack][start : start + int(index.lengths[position])].tobytes()


def decode_all(
    index: SampleIndex,
    kind: FileKind | Masks,
    cache: RowCache | None,
    *,
    threads: int,
    tick: Callable[[], None],
    files: Sequence[bytes] | None = None,
    missing: Indices | None = None,
) -> Decoding:
    """Decode files that are not cached, cache those that fit, and find the unreadable ones.

    files: other bytes of the samples than those of the index. missing: which are not cached.

    Files beyond the cache's limit are decoded here once as a check, and again whenever a batch
    needs them. A file that does not fit into memory, even when decoded alone, counts as unreadable.
    tick runs after every few images, and may raise.
    """
    from concurrent.futures import ThreadPoolExecutor

    outcome, began = Decoding(), monotonic()
    if missing is None:
        missing = np.flatnonzero(row_of(index, cache) < 0)
    stored, room = StoredFiles(index) if files is None else files, cache is not None
    if len(missing) == 0:
        return Decoding(kept=len(index.ids) if cache else 0)

    def read(position: int, *, alone: bool = False) -> Row | str | None:
        if alone:  # on the caller's thread, and for long
            tick()
        return _read(kind, stored[position], alone=alone)

    with ThreadPoolExecutor(threads) as pool:
        for positions in _groups(missing, max(1, APPEND_BYTES // kind.row_bytes)):
            decoded: dict[int, Row | str | None] = {}
            for position, one in zip(positions, pool.map(read, positions), strict=True):
                decoded[position] = one
                tick()
            good, rows = _sort_out(decoded, partial(read, alone=True), outcome)
            if room and good:
                assert cache is not None
                room = keep(cache, index.ids[good], np.stack(rows))
    outcome.kept = int((row_of(index, cache) >= 0).sum())
    outcome.seconds = monotonic() - began
    return outcome


def row_of(index: SampleIndex, cache: RowCache | None) -> Indices:
    """(n,): the index of each sample's row in the cache, -1 where it has none."""
    return np.full(len(index.ids), -1) if cache is None else cache.find(index.ids)


def _read(kind: FileKind | Masks, data: bytes, *, alone: bool) -> Row | str | None:
    """The row, or why it cannot be read; None for a file that has to be decoded alone."""
    try:
        return None if not alone and kind.is_large(data) else kind.row(data)
    except Unreadable as error:
        return str(error)
    except MemoryError:
        return None


def _sort_out(
    decoded: dict[int, Row | str | None],
    read_alone: Callable[[int], Row | str | None],
    outcome: Decoding,
) -> tuple[list[int], list[Row]]:
    """Positions and rows of decoded files; the others are recorded in the outcome.

    read_alone: for files that were too large while other threads were decoding.
    """
    good, rows = [], []
    for position, first in decoded.items():
        one = read_alone(position) if first is None else first
        if isinstance(one, np.ndarray):
            good.append(position)
            rows.append(one)
        else:
            outcome.unreadable[position] = one or TOO_LARGE
    outcome.decoded += len(good)
    return good, rows


def keep(cache: RowCache, ids: Indices, rows: NDArray[np.uint8]) -> bool:
    """Cache these rows; whether all of them fit."""
    try:
        return cache.append(ids, rows) == len(ids)
    except StorageFull as error:
        logger.warning("files_not_kept error=%s", error)
        return False


def _groups(positions: Indices, size: int) -> Iterator[list[int]]:
    for start in range(0, len(positions), size):
        yield positions[start : start + size].tolist()
