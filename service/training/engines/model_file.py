"""ONNX files with other weights, written piece by piece: no copy of the weights is made.

A file is a message of fields, each a tag, a length and a content, in any order:
https://protobuf.dev/programming-guides/encoding. The numbers are those of onnx.proto.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

GRAPH, INITIALIZER = 7, 5
DIMS, DATA_TYPE, NAME, RAW_DATA = 1, 2, 8, 9
FLOAT = 1
VARINT, LENGTH = 0, 2


def write_with(skeleton: Path, tensors: Mapping[str, NDArray[np.float32]], path: Path) -> None:
    """Write the model of `skeleton` to `path`, with these initializers more.

    The model must have one graph that lacks them. Arrays must lie in one piece.
    """
    content = memoryview(skeleton.read_bytes())
    heads = {name: _tensor_head(name, array) for name, array in tensors.items()}
    added = sum(
        len(_field(INITIALIZER, len(heads[name]) + array.nbytes)) + len(heads[name]) + array.nbytes
        for name, array in tensors.items()
    )
    with path.open("wb") as file:
        for number, field, body in _fields(content):
            if number != GRAPH:
                file.write(field)
                continue
            file.write(_field(GRAPH, len(body) + added))
            file.write(body)
            for name, array in tensors.items():
                _write_tensor(file, heads[name], array)


def _write_tensor(file: BinaryIO, head: bytes, array: NDArray[np.float32]) -> None:
    file.write(_field(INITIALIZER, len(head) + array.nbytes))
    file.write(head)
    file.write(array.reshape(-1).data if array.size else b"")


def _tensor_head(name: str, array: NDArray[np.float32]) -> bytes:
    """A TensorProto up to its data."""
    assert array.dtype == np.dtype("<f4")
    assert array.flags.c_contiguous
    dims = b"".join(_varint(DIMS << 3 | VARINT) + _varint(size) for size in array.shape)
    kind = _varint(DATA_TYPE << 3 | VARINT) + _varint(FLOAT)
    text = name.encode()
    return dims + kind + _field(NAME, len(text)) + text + _field(RAW_DATA, array.nbytes)


def _fields(message: memoryview) -> Iterator[tuple[int, memoryview, memoryview]]:
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


def _field(number: int, size: int) -> bytes:
    """Tag and length."""
    return _varint(number << 3 | LENGTH) + _varint(size)


def _varint(value: int) -> bytes:
    groups = bytearray()
    while value > 0x7F:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    groups.append(value)
    return bytes(groups)


def _read_varint(message: memoryview, at: int) -> tuple[int, int]:
    """The number, and where it ends."""
    value = shift = 0
    while True:
        byte = message[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
