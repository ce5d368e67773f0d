"""Images in place of tensors: decoded once, kept as pixels, normalized batch by batch.

The cache holds 8-bit pixels and not the tensor: a quarter of the room, and turning a batch into
fractions costs next to nothing beside reading it.
"""

from __future__ import annotations

import io
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from service.preprocess.image import Image
from service.preprocess.kind import TOO_LARGE, Unreadable
from service.training.data.batches import Batches, Indices, check_labels
from service.training.engine import Array
from service.training.errors import OutOfMemory
from storage.errors import StorageFull
from storage.readonly.sample_index import SampleIndex
from storage.records.signatures import Signature

if TYPE_CHECKING:
    from storage.blobs.row_cache import RowCache

Pixels = NDArray[np.uint8]

APPEND_BYTES = 8 << 20
LARGE_PIXELS = 25_000_000
"""A larger image is decoded while no other is: it takes 4 bytes a pixel, twice over."""
logger = logging.getLogger(__name__)


@dataclass
class Decoding:
    """What came of decoding. unreadable: reason by position in the index. kept: by the cache."""

    unreadable: dict[int, str] = field(default_factory=dict)
    decoded: int = 0
    kept: int = 0
    seconds: float = 0.0


class ImageFiles:
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


class Images(Batches):
    """Labelled images of one split; what the cache does not hold is decoded when it is asked for.

    Every image of the index must be readable: see `decode_all`. Raises SamplesInvalid if a label
    does not fit the signature.
    """

    def __init__(
        self, index: SampleIndex, signature: Signature, image: Image, cache: RowCache | None
    ) -> None:
        check_labels(index.ids, index.labels, signature.target)
        self._image = image
        super().__init__(
            index.ids,
            index.labels,
            row_bytes=image.pixel_bytes * 4,
            weights=index.weights,
            mix=image.mix,
        )
        self._files = ImageFiles(index)
        self._row_of = np.full(len(index.ids), -1) if cache is None else cache.find(index.ids)
        self._rows = np.empty((0, image.pixel_bytes), np.uint8) if cache is None else cache.rows
        self._normalize = image.normalizer()
        self._buffer = np.empty((0, *image.shape), np.float32)

    def inputs(self, chosen: Indices) -> tuple[Array, ...]:
        if len(self._buffer) < len(chosen):
            self._buffer = np.empty((len(chosen), *self._image.shape), np.float32)
        tensors = self._buffer[: len(chosen)]
        rows, normalize = self._rows, self._normalize
        for tensor, position, row in zip(
            tensors, chosen.tolist(), self._row_of[chosen].tolist(), strict=True
        ):
            pixels = rows[row] if row >= 0 else self._pixels(position)
            normalize(self._changed(pixels, position), tensor)
        return (tensors.astype(self._image.dtype, copy=False),)

    def _changed(self, pixels: Pixels, position: int) -> Pixels:
        image = self._image
        if self._draws is None or image.augment is None:
            return pixels
        return image.augment.apply(
            pixels.reshape(image.shape),
            self._draws.of(int(self.ids[position])),
            channels_first=image.layout == "nchw",
        )

    def _pixels(self, position: int) -> NDArray[np.uint8]:
        try:
            return self._image.pixels(self._files[position]).reshape(-1)
        except Unreadable:
            # It could be read when the job began: it was erased since, and counts as zeros.
            return np.zeros(self._image.pixel_bytes, np.uint8)
        except MemoryError as error:
            raise OutOfMemory(f"sample {self.ids[position]}: {TOO_LARGE}") from error


def decode_all(
    index: SampleIndex,
    image: Image,
    cache: RowCache | None,
    *,
    threads: int,
    tick: Callable[[], None],
) -> Decoding:
    """Decode what the cache lacks, keep what fits, and find what cannot be read.

    Images beyond the cache's bound are decoded here once to see that they can be, and again
    whenever a batch asks for them. One that does not fit into memory, while no
    other is decoded, counts as unreadable. tick runs after every few images, and may raise.
    """
    from concurrent.futures import ThreadPoolExecutor

    outcome, began = Decoding(), monotonic()
    missing = np.flatnonzero(cache.find(index.ids) < 0) if cache else np.arange(len(index.ids))
    files, room = ImageFiles(index), cache is not None
    if len(missing) == 0:
        return Decoding(kept=len(index.ids) if cache else 0)
    with ThreadPoolExecutor(threads) as pool:

        def read(position: int) -> Pixels | str | None:
            return _read(image, files[position], most_pixels=LARGE_PIXELS)

        def read_alone(position: int) -> Pixels | str | None:
            tick()
            return _read(image, files[position])

        for positions in _groups(missing, max(1, APPEND_BYTES // image.pixel_bytes)):
            made: dict[int, Pixels | str | None] = {}
            for position, one in zip(positions, pool.map(read, positions), strict=True):
                made[position] = one
                tick()
            good, rows = _sort_out(made, read_alone, outcome)
            if room and good:
                assert cache is not None
                room = _keep(cache, index.ids[good], np.stack(rows))
    outcome.kept = int((cache.find(index.ids) >= 0).sum()) if cache else 0
    outcome.seconds = monotonic() - began
    return outcome


def _read(image: Image, data: bytes, *, most_pixels: int | None = None) -> Pixels | str | None:
    """The pixels, or why they cannot be read; None for an image that is too large for now."""
    from service.preprocess.pictures import read_header

    try:
        header = read_header(io.BytesIO(data))
        if most_pixels is not None and header.width * header.height > most_pixels:
            return None
        return image.pixels(data).reshape(-1)
    except Unreadable as error:
        return str(error)
    except MemoryError:
        return None


def _sort_out(
    made: dict[int, Pixels | str | None],
    read_alone: Callable[[int], Pixels | str | None],
    outcome: Decoding,
) -> tuple[list[int], list[Pixels]]:
    """Positions and pixels of what can be decoded; the outcome hears of the rest.

    read_alone: for what was too large while other threads were at work.
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


def _keep(cache: RowCache, ids: Indices, rows: NDArray[np.uint8]) -> bool:
    """Whether all of them fitted."""
    try:
        return cache.append(ids, rows) == len(ids)
    except StorageFull as error:
        logger.warning("images_not_kept error=%s", error)
        return False


def _groups(positions: Indices, size: int) -> Iterator[list[int]]:
    for start in range(0, len(positions), size):
        yield positions[start : start + size].tolist()
