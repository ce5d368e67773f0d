"""Reads images with Pillow: checks size and end first, turns upright, flattens transparency.

Imports Pillow; the daemon, which only checks headers, imports this module late.
"""

from __future__ import annotations

import io
import re
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from msgspec import Struct
from PIL import ExifTags, Image, ImageOps, UnidentifiedImageError

from service.preprocess.kind import Unreadable

FORMATS = {"PNG": "image/png", "JPEG": "image/jpeg", "MPO": "image/jpeg", "WEBP": "image/webp"}
"""Pillow's name → media type. MPO: a JPEG followed by a second picture, as phones write."""
MAX_PIXELS = 50_000_000
STRIP_PIXELS = 1 << 20
"""Pixels converted at a time: a copy of a whole large picture takes 200 MB."""
DECODE_ERRORS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    EOFError,
    LookupError,
    OSError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
    struct.error,
    zlib.error,
    Image.DecompressionBombError,
)
"""Exceptions of Pillow for damaged files: nearly anything. For memory see `faults`."""
TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
"""EXIF orientation → the operation that turns a picture upright (EXIF 2.3, tag 0x0112)."""
SIDEWAYS = {TURNS[turn] for turn in (5, 6, 7, 8)}
"""Those that swap width and height."""
# The size is checked here before decoding, against a limit below Pillow's own.
Image.MAX_IMAGE_PIXELS = None

_PNG_START = 8
_MARKER = re.compile(rb"\xff[^\x00\xff\xd0-\xd7]")
"""In a JPEG's pixels: 0xFF and a byte that is neither stuffing, nor fill, nor a restart."""
_SOI, _EOI, _SOS, _TEM = 0xD8, 0xD9, 0xDA, 0x01


class ImageHeader(Struct, frozen=True):
    """What the image's header states."""

    media_type: str
    width: int
    height: int


def read_header(data: bytes) -> ImageHeader:
    """Read format and size without decoding. Raises Unreadable."""
    with _open(data) as picture:
        assert picture.format is not None
        return ImageHeader(FORMATS[picture.format], picture.width, picture.height)


def decode(data: bytes) -> Image.Image:
    """The first frame, turned upright by its EXIF orientation. Raises Unreadable, MemoryError."""
    with _open(data) as picture, faults():
        picture.load()
        turn = _turn(picture)
        return picture if turn is None else picture.transpose(turn)


def upright_size(data: bytes) -> tuple[int, int]:
    """Height and width of a picture as it is seen, without decoding it. Raises Unreadable."""
    with _open(data) as picture:
        turned = _turn(picture) in SIDEWAYS
        return picture.size if turned else picture.size[::-1]


def flatten(picture: Image.Image, channels: Literal["rgb", "gray"]) -> Image.Image:
    """To 8 bits a channel, RGB or gray; 16 bits are scaled, transparency is blended with white.

    Raises Unreadable, MemoryError.
    """
    mode = "RGB" if channels == "rgb" else "L"
    with faults():
        if picture.mode == mode and not picture.has_transparency_data:
            return picture
        rows = max(1, STRIP_PIXELS // picture.width)
        if rows >= picture.height:
            return _flatten(picture, mode)
        flat = Image.new(mode, picture.size)
        for top in range(0, picture.height, rows):
            box = (0, top, picture.width, min(top + rows, picture.height))
            flat.paste(_flatten(picture.crop(box), mode), box)
        return flat


def fit(
    picture: Image.Image,
    size: tuple[int, int],
    resize: Literal["cover", "contain", "stretch"],
    method: Image.Resampling = Image.Resampling.BILINEAR,
    *,
    beyond: int = 0,
) -> Image.Image:
    """size: height, width. `cover` crops the overhang, `contain` pads with `beyond`: black.

    Raises Unreadable, MemoryError.
    """
    height, width = size
    with faults():
        if resize == "stretch":
            return picture.resize((width, height), method)
        if resize == "cover":
            return ImageOps.fit(picture, (width, height), method)
        inner = picture.resize(_inner_size(picture, width=width, height=height), method)
        framed = Image.new(picture.mode, (width, height), beyond)
        framed.paste(inner, (round((width - inner.width) / 2), round((height - inner.height) / 2)))
        return framed


@contextmanager
def faults() -> Iterator[None]:
    """Map Pillow's exceptions to Unreadable, and failed allocations to MemoryError."""
    try:
        yield
    except DECODE_ERRORS as error:
        if "out of memory" in str(error):  # a decoder's own error, which Pillow raises as OSError
            raise MemoryError(str(error)) from error
        raise Unreadable(f"it cannot be decoded: {error}; it may be cut short") from error


def _turn(picture: Image.Image) -> Image.Transpose | None:
    """Unlike ImageOps.exif_transpose, does not parse the rest of the EXIF: it may be malformed."""
    try:
        return TURNS.get(picture.getexif().get(ExifTags.Base.Orientation, 1))
    except DECODE_ERRORS:
        return None  # the pixels are complete; without readable EXIF they count as upright


def _flatten(picture: Image.Image, mode: str) -> Image.Image:
    if picture.mode.startswith(("I", "F")):
        picture = _to_8_bits(picture)
    if picture.has_transparency_data:
        whole = picture.convert("RGBA")
        ground = Image.new("RGBA", whole.size, "white")
        picture = Image.alpha_composite(ground, whole).convert("RGB")
    return picture if picture.mode == mode else picture.convert(mode)


def _inner_size(picture: Image.Image, *, width: int, height: int) -> tuple[int, int]:
    """The largest width and height within the bounds, in proportion; at least one pixel."""
    if picture.width * height > picture.height * width:
        return width, max(1, round(picture.height / picture.width * width))
    return max(1, round(picture.width / picture.height * height)), height


def _open(data: bytes) -> Image.Image:
    try:
        picture = Image.open(io.BytesIO(data), formats=("PNG", "JPEG", "WEBP"))
    except UnidentifiedImageError:
        raise Unreadable("it is no PNG, JPEG or WebP; convert it, or send another") from None
    except DECODE_ERRORS as error:
        raise Unreadable(f"its header cannot be read: {error}") from error
    if picture.width * picture.height > MAX_PIXELS:
        width, height = picture.size
        picture.close()
        raise Unreadable(f"it has {width} x {height} pixels, the most is {MAX_PIXELS}; send less")
    assert picture.format is not None
    if not is_whole(data, FORMATS[picture.format]):
        picture.close()
        raise Unreadable("its end is missing; send the whole file")
    return picture


def _to_8_bits(picture: Image.Image) -> Image.Image:
    """Convert 16-bit gray to the nearest of 256: 65,535 becomes 255."""
    return picture.convert("I").point(lambda value: value * (1 / 257) + 0.5).convert("L")


def is_whole(data: bytes, media_type: str) -> bool:
    """Whether the file contains its end marker; phones append bytes after it, which is allowed."""
    if media_type == "image/png":
        return _png_ends(data)
    if media_type == "image/jpeg":
        return _jpeg_ends(data)
    return len(data) >= 8 and len(data) >= 8 + int.from_bytes(data[4:8], "little")


def _png_ends(data: bytes) -> bool:
    """Source: PNG specification, 5.3: each chunk has length, type, data and checksum."""
    at = _PNG_START
    while at + 12 <= len(data):
        length, kind = struct.unpack_from(">I4s", data, at)
        at += 12 + length
        if kind == b"IEND":
            return bool(at <= len(data))
    return False


def _jpeg_ends(data: bytes) -> bool:
    """Source: ITU-T T.81, B.1: segments with a length, then, after SOS, pixels without one."""
    at = 2
    while (match := _MARKER.search(data, at)) is not None:
        marker, at = data[match.start() + 1], match.end()
        if marker == _EOI:
            return True
        if marker in (_SOI, _TEM):
            continue
        if at + 2 > len(data):
            return False
        at += int.from_bytes(data[at : at + 2], "big")
    return False
