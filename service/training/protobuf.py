"""Reads and writes protobuf fields one by one: a tag, a length and a content, in any order.

https://protobuf.dev/programming-guides/encoding. The package for whole messages takes 65 ms to
import.
"""

from __future__ import annotations

from collections.abc import Iterator

VARINT, LENGTH = 0, 2


def fields(message: memoryview) -> Iterator[tuple[int, memoryview, memoryview]]:
    """Number, all bytes, and content of each field of a ModelProto."""
    at = 0
    while at < len(message):
        start = at
        tag, at = _read_varint(message, at)
        size, at = _read_varint(message, at)
        kind = tag & 7
        if kind not in {VARINT, LENGTH}:
            raise ValueError(f"an ONNX model has no field of wire type {kind}")
        body = message[at : at + size] if kind == LENGTH else message[at:at]
        at += len(body)
        yield tag >> 3, message[start:at], body


def whole_number(field: memoryview) -> int:
    """The value of an integer field, from all its bytes."""
    _, at = _read_varint(field, 0)
    return _read_varint(field, at)[0]


def head(number: int, size: int) -> bytes:
    """Tag and length."""
    return varint(number << 3 | LENGTH) + varint(size)


def content(number: int, body: bytes) -> bytes:
    """A field of bytes, text, or another message."""
    return head(number, len(body)) + body


def integer(number: int, value: int) -> bytes:
    """An integer field."""
    return varint(number << 3 | VARINT) + varint(value % 2**64)


def varint(value: int) -> bytes:
    groups = bytearray()
    while value > 0x7F:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    groups.append(value)
    return bytes(groups)


def _read_varint(message: memoryview, at: int) -> tuple[int, int]:
    """The number, and the offset after it."""
    value = shift = 0
    while True:
        byte = message[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
