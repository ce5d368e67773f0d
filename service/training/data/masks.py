"""Masks as labels: decoded once, cached, and class indices batch by batch.

An array of all masks would take eight bytes a pixel: 2 GB for a thousand of 512 by 512.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from service.preprocess.augmentation.draws import Draws
from service.preprocess.masks.labels import DIGEST_BYTES, UNCOUNTED, digest_of
from service.preprocess.masks.masks import HEADER_BYTES, Masks
from service.training.data.batches import Indices
from service.training.data.decoding import Decoding, decode_all, row_of
from service.training.engine import Array
from storage.readonly.sample_index import SampleIndex
from storage.records.signatures import IGNORED

if TYPE_CHECKING:
    from storage.blobs.row_cache import RowCache


class MaskLabels:
    """The masks of an index, which indexing gives as other labels are: (n, height, width) int64.

    All must be readable: see `decode_masks`. ignored: a class whose pixels do not count.
    """

    dtype = np.dtype(np.int64)

    def __init__(
        self, index: SampleIndex, masks: Masks, cache: RowCache | None, *, ignored: int | None
    ) -> None:
        self._ids = index.ids
        self._stored = index.labels
        self._masks = masks
        self._rows = np.empty((0, masks.row_bytes), np.uint8) if cache is None else cache.rows
        self._row_of = _find(index, cache)
        self._buffer = np.empty((0, *masks.size), np.int64)
        self._uncounted = [UNCOUNTED, *([] if ignored is None else [ignored])]

    def __len__(self) -> int:
        return len(self._stored)

    def __getitem__(self, chosen: Indices) -> Array:
        labels: Array = self.augmented(chosen, None).copy()
        return labels

    def augmented(self, chosen: Indices, draws: Draws | None) -> Array:
        """The masks at these positions, moved as their photos are by the same draws; valid until
        the next call.
        """
        if len(self._buffer) < len(chosen):
            self._buffer = np.empty((len(chosen), *self._masks.size), np.int64)
        masks = self._buffer[: len(chosen)]
        for indices, position in zip(masks, chosen.tolist(), strict=True):
            mask = self._row(position)[HEADER_BYTES:].reshape(self._masks.size)
            if draws is not None:
                mask = self._masks.changed(mask, draws.of(int(self._ids[position])))
            np.copyto(indices, mask)
            for value in self._uncounted:
                if (which := mask == value).any():
                    indices[which] = IGNORED
        return masks

    def unlabelled_or_counted(self) -> NDArray[np.bool_]:
        """(n,): whether any pixel of a mask counts; those of samples without a label stay."""
        held = np.empty((len(self), 256), bool)
        for position in range(len(self)):
            held[position] = np.unpackbits(self._row(position)[DIGEST_BYTES:HEADER_BYTES])
        held[:, self._uncounted] = False
        return np.asarray(held.any(axis=1) | np.equal(self._stored, b"").astype(bool))

    def _row(self, position: int) -> NDArray[np.uint8]:
        row = self._row_of[position]
        return self._rows[row] if row >= 0 else self._masks.row(self._stored[position])


def counted_masks(
    index: SampleIndex, masks: Masks, cache: RowCache | None, *, ignored: int | None
) -> tuple[SampleIndex, MaskLabels]:
    """The samples whose masks count, or that wait for one, and their labels."""
    every = MaskLabels(index, masks, cache, ignored=ignored)
    index = index.only(every.unlabelled_or_counted())
    return index, MaskLabels(index, masks, cache, ignored=ignored)


def decode_masks(
    index: SampleIndex,
    masks: Masks,
    cache: RowCache | None,
    *,
    threads: int,
    tick: Callable[[], None],
) -> Decoding:
    """As `decode_all`, of the masks that an index has as labels."""
    missing = np.flatnonzero((_find(index, cache) < 0) & index.labels.astype(bool))
    labels: Any = index.labels
    return decode_all(
        index, masks, cache, files=labels, missing=missing, threads=threads, tick=tick
    )


def _find(index: SampleIndex, cache: RowCache | None) -> Indices:
    """The row of each mask, -1 for none: one of another label is none."""
    rows = row_of(index, cache)
    for position in np.flatnonzero(rows >= 0).tolist():
        assert cache is not None
        made_of = cache.rows[rows[position], :DIGEST_BYTES].tobytes()
        if made_of != digest_of(index.labels[position]):
            rows[position] = -1
    return rows
