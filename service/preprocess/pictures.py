"""Images as Pillow reads them: checked before they are unpacked, upright, without transparency.

Imports Pillow: load it late in the daemon, where it checks headers only.
"""

from __future__ import annotations

import io
import struct
from dataclasses import dataclass
from typing import IO, Literal

from PIL import Image, ImageOps, UnidentifiedImageError

from service.preprocess.kind import Unreadable

FORMATS = {"PNG": "image/png", "JPEG": "image/jpeg", "MPO": "image/jpeg", "WEBP": "image/webp"}
"""Pillow's name → media type. MPO: a JPEG with a second picture behind it, as phones write."""
MAX_PIXELS = 50_000_000
DECODE_ERRORS = (OSError, ValueError, SyntaxError, EOFError, struct.error, OverflowError)
"""What Pillow raises for damaged files."""
# Sizes are checked here, before anything is unpacked, with a limit below Pillow's own.
Image.MAX_IMAGE_PIXELS = None

_TAKEN = "PNG, JPEG or WebP"


@dataclass(frozen=True, slots=True)
class Header:
    """What an image says of itself."""

    media_type: str
    width: int
    height: int
    mode: str


def read_header(file: IO[bytes], *, max_pixels: int = MAX_PIXELS) -> Header:
    """Look at an image without unpacking it. Raises Unreadable."""
    with _open(file, max_pixels) as picture:
        assert picture.format is not None
        return Header(FORMATS[picture.format], picture.width, picture.height, picture.mode)


def decode(data: bytes, *, max_pixels: int = MAX_PIXELS) -> Image.Image:
    """The first frame, upright as its EXIF orientation says. Raises Unreadable."""
    with _open(io.BytesIO(data), max_pixels) as picture:
        try:
            picture.load()
            return ImageOps.exif_transpose(picture)
        except DECODE_ERRORS as error:
            raise Unreadable(f"it cannot be decoded: {error}; it may be cut short") from error


def flatten(picture: Image.Image, channels: Literal["rgb", "gray"]) -> Image.Image:
    """In 8 bits a channel, RGB or gray; 16 bits are scaled, transparency is laid over white."""
    mode = "RGB" if channels == "rgb" else "L"
    if picture.mode.startswith(("I", "F")):
        picture = _to_8_bits(picture)
    if picture.has_transparency_data:
        whole = picture.convert("RGBA")
        ground = Image.new("RGBA", whole.size, "white")
        picture = Image.alpha_composite(ground, whole).convert("RGB")
    return picture if picture.mode == mode else picture.convert(mode)


def fit(
    picture: Image.Image, size: tuple[int, int], resize: Literal["cover", "contain", "stretch"]
) -> Image.Image:
    """size: height, width. `cover` cuts off what sticks out, `contain` pads with black."""
    height, width = size
    method = Image.Resampling.BILINEAR
    if resize == "stretch":
        return picture.resize((width, height), method)
    if resize == "cover":
        return ImageOps.fit(picture, (width, height), method)
    return ImageOps.pad(picture, (width, height), method, color=0)


def _open(file: IO[bytes], max_pixels: int) -> Image.Image:
    try:
        picture = Image.open(file, formats=("PNG", "JPEG", "WEBP"))
    except UnidentifiedImageError:
        raise Unreadable(f"it is not an image; send {_TAKEN}") from None
    except DECODE_ERRORS as error:
        raise Unreadable(f"its header cannot be read: {error}") from error
    if picture.format not in FORMATS:
        picture.close()
        raise Unreadable(f"it is {picture.format}; send {_TAKEN}")
    if picture.width * picture.height > max_pixels:
        width, height = picture.size
        picture.close()
        raise Unreadable(f"it has {width} x {height} pixels, the most is {max_pixels}; send less")
    return picture


def _to_8_bits(picture: Image.Image) -> Image.Image:
    """16-bit gray: its 65,535 is our 255."""
    return picture.convert("I").point(lambda value: value * (1 / 257)).convert("L")
