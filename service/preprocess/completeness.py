"""Checks whether an image file is complete, without decoding it."""

from __future__ import annotations

import re
import struct

_PNG_START = 8
_MARKER = re.compile(rb"\xff[^\x00\xff\xd0-\xd7]")
"""In a JPEG's pixels: 0xFF and a byte that is neither stuffing, nor fill, nor a restart."""
_SOI, _EOI, _SOS, _TEM = 0xD8, 0xD9, 0xDA, 0x01


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
