"""Images and recordings instead of tensors: decoded once, cached as rows, normalized by batch.

The cache holds rows, not tensors: an image's 8-bit pixels take a quarter of the space, and
normalizing a batch costs next to nothing compared with reading it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from time import monotonic
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct, field
from numpy.typing import NDArray

from service.preprocess.kind import TOO_LARGE, FileKind, Row, Unreadable
from service.training.data.batches import Batches, Indices, check_labels, size_bytes
from service.training.engine import Array
from service.training.errors import OutOfMemory
from storage.errors import StorageFull
from storage.readonly.sample_index import SampleIndex
from storage.records.signatures import Signature

if TYPE_CHECKING:
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


class LabelledFiles(Batches):
    """Labelled files of one split; those that are not cached are decoded on demand.

    Every file of the index must be readable: see `decode_all`. Raises SamplesInvalid if a label
    does not fit the signature.
    """

    def __init__(
        self, index: SampleIndex, signature: Signature, kind: FileKind, cache: RowCache | None
    ) -> None:
        check_labels(index.ids, index.labels, signature.target)
        self._kind = kind
        super().__init__(
            index.ids,
            index.labels,
            row_bytes=size_bytes(signature.inputs[0]),
            weights=index.weights,
            mix=kind.mix,
        )
        self._files = StoredFiles(index)
        self._row_of = np.full(len(index.ids), -1) if cache is None else cache.find(index.ids)
        self._rows = np.empty((0, kind.row_bytes), np.uint8) if cache is None else cache.rows
        self._normalize = kind.normalizer()
        self._buffer = np.empty((0, *kind.shape), np.float32)

    def inputs(self, chosen: Indices) -> tuple[Array, ...]:
        if len(self._buffer) < len(chosen):
            self._buffer = np.empty((len(chosen), *self._kind.shape), np.float32)
        tensors = self._buffer[: len(chosen)]
        rows, normalize = self._rows, self._normalize
        for tensor, position, row in zip(
            tensors, chosen.tolist(), self._row_of[chosen].tolist(), strict=True
        ):
            found = rows[row] if row >= 0 else self._read(position)
            normalize(self._changed(found, position), tensor)
        return (tensors.astype(self._kind.dtype, copy=False),)

    def _changed(self, row: Row, position: int) -> Row:
        if self._draws is None or self._kind.augment is None:
            return row
        return self._kind.changed(row, self._draws.of(int(self.ids[position])))

    def _read(self, position: int) -> Row:
        try:
            return self._kind.row(self._files[position])
        except Unreadable:
            # It was readable when the job started, so it has been erased since: use zeros.
            return np.zeros(self._kind.row_bytes, np.uint8)
        except MemoryError as error:
            raise OutOfMemory(f"sample {self.ids[position]}: {TOO_LARGE}") from error


def decode_all(
    index: SampleIndex,
    kind: FileKind,
    cache: RowCache | None,
    *,
    threads: int,
    tick: Callable[[], None],
) -> Decoding:
    """Decode files that are not cached, cache those that fit, and find the unreadable ones.

    Files beyond the cache's limit are decoded here once as a check, and again whenever a batch
    needs them. A file that does not fit into memory, even when decoded alone, counts as unreadable.
    tick runs after every few images, and may raise.
    """
    from concurrent.futures import ThreadPoolExecutor

    outcome, began = Decoding(), monotonic()
    missing = np.flatnonzero(cache.find(index.ids) < 0) if cache else np.arange(len(index.ids))
    files, room = StoredFiles(index), cache is not None
    if len(missing) == 0:
        return Decoding(kept=len(index.ids) if cache else 0)
    with ThreadPoolExecutor(threads) as pool:

        def read(position: int) -> Row | str | None:
            return _read(kind, files[position], alone=False)

        def read_alone(position: int) -> Row | str | None:
            tick()
            return _read(kind, files[position], alone=True)

        for positions in _groups(missing, max(1, APPEND_BYTES // kind.row_bytes)):
            made: dict[int, Row | str | None] = {}
            for position, one in zip(positions, pool.map(read, positions), strict=True):
                made[position] = one
                tick()
            good, rows = _sort_out(made, read_alone, outcome)
            if room and good:
                assert cache is not None
                room = keep(cache, index.ids[good], np.stack(rows))
    outcome.kept = int((cache.find(index.ids) >= 0).sum()) if cache else 0
    outcome.seconds = monotonic() - began
    return outcome


def _read(kind: FileKind, data: bytes, *, alone: bool) -> Row | str | None:
    """The row, or why it cannot be read; None for a file that has to be decoded alone."""
    try:
        return None if not alone and kind.is_large(data) else kind.row(data)
    except Unreadable as error:
        return str(error)
    except MemoryError:
        return None


def _sort_out(
    made: dict[int, Row | str | None],
    read_alone: Callable[[int], Row | str | None],
    outcome: Decoding,
) -> tuple[list[int], list[Row]]:
    """Positions and rows of decoded files; the others are recorded in the outcome.

    read_alone: for files that were too large while other threads were decoding.
    """
    good, rows = [], []
    for position, first in made.items():
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
