"""The masks of one model: decoded, and fitted to its tensors as their photos are.

A row is what is kept between jobs: the digest of the label that it was made of, a bit for each
value that occurs, and the values of all pixels.
"""

from __future__ import annotations

import hashlib

import numpy as np
from msgspec import Struct

from service.preprocess.augmentation.images import ImageAugmentation
from service.preprocess.image import Image, Resize
from service.preprocess.kind import FileKind, Row, Unreadable
from service.preprocess.masks.labels import (
    DIGEST_BYTES,
    MOST_CLASSES,
    PNG,
    UNCOUNTED,
    Pixels,
    beyond_classes,
    digest_of,
    occurring,
    values_of,
)
from storage.arrays import NDArray
from storage.database.codec import dump
from storage.records.signatures import IGNORED, TargetSpec

HEADER_BYTES = DIGEST_BYTES + 32


class Masks(Struct, frozen=True):
    """The masks of a model that gives each pixel of a photo a class.

    size, resize, augment: of the photos that they belong to. classes: their number.
    """

    size: tuple[int, int]
    resize: Resize
    augment: ImageAugmentation | None
    classes: int

    @property
    def row_bytes(self) -> int:
        return HEADER_BYTES + self.size[0] * self.size[1]

    @property
    def row_key(self) -> str:
        described = [self.size, self.resize, self.classes]
        return hashlib.sha256(dump(described).encode()).hexdigest()

    def is_large(self, label: bytes) -> bool:
        """No: a mask takes a byte a pixel, a quarter of a photo."""
        del label
        return False

    def row(self, label: bytes) -> Row:
        """Decode a stored label: a PNG, an array of the tensor's size, or none.

        Raises Unreadable, MemoryError.
        """
        if label.startswith(PNG):
            pixels = self._fitted(values_of(label))
        elif not label:
            pixels = np.full(self.size, UNCOUNTED, np.uint8)
        else:
            indices = np.frombuffer(label, "<i8")
            pixels = np.where(indices == IGNORED, UNCOUNTED, indices).astype(np.uint8)
        held = occurring(pixels)
        if beyond := beyond_classes(held, self.classes):
            raise Unreadable(f"its mask {beyond}")
        digest = np.frombuffer(digest_of(label), np.uint8)
        return np.concatenate([digest, np.packbits(held), pixels.reshape(-1)])

    def changed(self, pixels: Pixels, draw: np.random.Generator) -> Pixels:
        """What training sees of a mask: moved as its photo is. pixels: of the tensor."""
        return pixels if self.augment is None else self.augment.moved(pixels, draw)

    def restored(self, pixels: Pixels, size: tuple[int, int]) -> Pixels:
        """What a mask of the tensor says of a photo of this size; what is beyond it does not
        count.
        """
        scales = [ours / theirs for ours, theirs in zip(self.size, size, strict=True)]
        if self.resize != "stretch":
            scales = [max(scales) if self.resize == "cover" else min(scales)] * 2
        rows, columns = (
            _places(theirs, ours, scale)
            for theirs, ours, scale in zip(size, self.size, scales, strict=True)
        )
        mask: Pixels = pixels[rows.clip(0)][:, columns.clip(0)]
        mask[rows < 0] = UNCOUNTED
        mask[:, columns < 0] = UNCOUNTED
        return mask

    def _fitted(self, values: Pixels) -> Pixels:
        """At the tensor's size; what is no part of the photo there does not count."""
        from PIL import Image as Pillow

        from service.preprocess.pictures import fit

        nearest = Pillow.Resampling.NEAREST
        picture = Pillow.fromarray(values)
        return np.asarray(fit(picture, self.size, self.resize, nearest, beyond=UNCOUNTED))


def _places(theirs: int, ours: int, scale: float) -> NDArray[np.int64]:
    """(theirs,): the place in the tensor of each place in a photo, along one axis; -1 for none."""
    covered = max(1, round(theirs * scale))  # more than there are if the photo is cropped
    if covered > ours:
        begin = (theirs - ours / scale) / 2
        at = np.floor((np.arange(theirs) + 0.5 - begin) * scale).astype(np.int64)
        return np.where((at >= 0) & (at < ours), at, -1)
    within = np.floor((np.arange(theirs) + 0.5) / theirs * covered).astype(np.int64)
    return within + round((ours - covered) / 2)


def masks_of(kind: FileKind, target: TargetSpec) -> Masks | None:
    """If labels give each pixel of an image's tensor one of at most 255 classes."""
    classes = target.num_classes
    if not isinstance(kind, Image) or target.shape != kind.size:
        return None
    if classes is None or classes > MOST_CLASSES:
        return None
    return Masks(kind.size, kind.resize, kind.augment, classes)
