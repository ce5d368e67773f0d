"""A mask as a label: the PNG that is stored, and what the values of its pixels may be."""

from __future__ import annotations

import hashlib
import io
from typing import TypeAlias

import numpy as np

from service.preprocess.kind import Unreadable
from storage.arrays import NDArray

Pixels: TypeAlias = "NDArray[np.uint8]"

PNG = b"\x89PNG\r\n\x1a\n"
UNCOUNTED = 255
"""The value of pixels that do not count. Source: Everingham et al. (2010), The Pascal Visual Object
Classes Challenge."""
MOST_CLASSES = 255
MOST_BYTES = 4 * 2**20
"""Of the file of a mask: it is a field of its sample's row."""
DIGEST_BYTES = 8
_SIZE, _DEPTH = slice(16, 24), slice(24, 26)
"""Width and height, depth and kind in a PNG's header: PNG specification, 11.2.2."""
_GRAY, _PALETTE = 0, 3
_SCALES = {(2, _GRAY): 85, (4, _GRAY): 17}
"""What Pillow multiplies gray of few bits by."""


def as_png(mask: Pixels) -> bytes:
    """Gray, of 8 bits."""
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(mask).save(buffer, "PNG")
    return buffer.getvalue()


def digest_of(label: bytes) -> bytes:
    """By which a row is known to be that of a label."""
    return hashlib.sha256(label).digest()[:DIGEST_BYTES]


def occurring(values: Pixels) -> NDArray[np.bool_]:
    """(256,): whether each value occurs."""
    return np.bincount(values.reshape(-1), minlength=256) > 0


def beyond_classes(held: NDArray[np.bool_], classes: int) -> str:
    """What is wrong with a mask of these values; empty if nothing is."""
    beyond = np.flatnonzero(held[classes:UNCOUNTED])
    if not len(beyond):
        return ""
    return (
        f"holds the value {classes + beyond[0]}; the model has classes 0 to {classes - 1}, and "
        f"{UNCOUNTED} is for pixels that do not count"
    )


def size_of(png: bytes) -> tuple[int, int]:
    """Height and width by the header of a mask that was checked."""
    width, height = (int.from_bytes(png[_SIZE][at : at + 4], "big") for at in (0, 4))
    return height, width


def values_of(png: bytes) -> Pixels:
    """The values of a mask's pixels, (height, width). Raises Unreadable, MemoryError."""
    from service.preprocess.pictures import decode

    depth, kind = png[_DEPTH] if len(png) >= _DEPTH.stop else (0, 0)
    if not png.startswith(PNG) or depth not in (1, 2, 4, 8) or kind not in (_GRAY, _PALETTE):
        raise Unreadable(
            "it is no mask: send a PNG of at most 8 bits a pixel, gray or with a palette, whose "
            "values are class indices"
        )
    values: Pixels = np.asarray(decode(png)).astype(np.uint8, copy=False)
    scale = _SCALES.get((depth, kind))
    return values if scale is None else values // scale
