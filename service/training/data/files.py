"""Images and recordings instead of tensors: decoded once, cached as rows, normalized by batch.

The cache holds rows, not tensors: an image's 8-bit pixels take a quarter of the space, and
normalizing a batch costs next to nothing compared with reading it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from service.preprocess.kind import TOO_LARGE, FileKind, Row, Unreadable
from service.training.data.batches import Batches, Indices, check_labels, size_bytes
from service.training.data.decoding import StoredFiles, row_of
from service.training.engine import Array
from service.training.errors import OutOfMemory
from storage.readonly.sample_index import SampleIndex
from storage.records.signatures import Signature

if TYPE_CHECKING:
    from service.preprocess.augmentation.draws import Draws
    from storage.blobs.row_cache import RowCache


class PlacedLabels(Protocol):
    """Labels of places on files, which indexing gives as other labels are."""

    def augmented(self, chosen: Indices, draws: Draws | None) -> Array:
        """Those at these positions, moved as their files are by the same draws."""


class LabelledFiles(Batches):
    """Labelled files of one split; those that are not cached are decoded on demand.

    Every file of the index must be readable: see `decode_all`. placed: their labels, if those are
    moved as the files are. Raises SamplesInvalid if a label does not fit the signature.
    """

    def __init__(
        self,
        index: SampleIndex,
        signature: Signature,
        kind: FileKind,
        cache: RowCache | None,
        placed: PlacedLabels | None = None,
    ) -> None:
        if placed is None:
            check_labels(index.ids, index.labels, signature.target)
        self._kind = kind
        self._placed = placed
        super().__init__(
            index.ids,
            index.labels if placed is None else placed,
            row_bytes=size_bytes(signature.inputs[0]),
            weights=index.weights,
            mix=kind.mix,
        )
        self._files = StoredFiles(index)
        self._row_of = row_of(index, cache)
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
            pixels = rows[row] if row >= 0 else self._read(position)
            normalize(self._changed(pixels, position), tensor)
        return (tensors.astype(self._kind.dtype, copy=False),)

    def labels_of(self, chosen: Indices) -> Array:
        if self._placed is None:
            return super().labels_of(chosen)
        return self._placed.augmented(chosen, self._draws)

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
