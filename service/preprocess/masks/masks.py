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

    def _fitted(self, values: Pixels) -> Pixels:
        """At the tensor's size; what is no part of the photo there does not count."""
        from PIL import Image as Pillow

        from service.preprocess.pictures import fit

        nearest = Pillow.Resampling.NEAREST
        picture = Pillow.fromarray(values)
        return np.asarray(fit(picture, self.size, self.resize, nearest, beyond=UNCOUNTED))


def masks_of(kind: FileKind, target: TargetSpec) -> Masks | None:
    """If labels give each pixel of an image's tensor one of at most 255 classes."""
    classes = target.num_classes
    if not isinstance(kind, Image) or target.shape != kind.size:
        return None
    if classes is None or classes > MOST_CLASSES:
        return None
    return Masks(kind.size, kind.resize, kind.augment, classes)
