"""Messages between daemon and predictor: a JSON header, then the tensors' raw bytes.

A frame is `header_bytes` (u32), `payload_bytes` (u64), both little-endian, the header, and the
tensors back to back. The predictor answers questions in the order in which they arrive.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping
from typing import IO, Any, TypeAlias

import numpy as np
from msgspec import Struct, field

from storage.arrays import NDArray
from storage.database.codec import dump

SIZES = struct.Struct("<IQ")

Array: TypeAlias = "NDArray[Any]"
Tensors = Mapping[str, Array]


class Frame(Struct, frozen=True):
    """One question or answer. header: JSON values."""

    header: dict[str, Any]
    tensors: Tensors = field(default_factory=dict)


def encode(frame: Frame) -> list[bytes | memoryview]:
    """The frame in pieces; contiguous tensors are not copied."""
    arrays = {name: np.ascontiguousarray(array) for name, array in frame.tensors.items()}
    tensors = [[name, array.dtype.str, array.shape] for name, array in arrays.items()]
    header = dump({**frame.header, "tensors": tensors}, ensure_ascii=True).encode()
    payload = [array.reshape(-1).view(np.uint8).data for array in arrays.values() if array.size]
    sizes = SIZES.pack(len(header), sum(piece.nbytes for piece in payload))
    return [sizes + header, *payload]


def decode(header: bytes, payload: bytes | bytearray) -> Frame:
    """The frame from its parts, read by SIZES. Raises ValueError if they do not match."""
    values: dict[str, Any] = json.loads(header)
    tensors: dict[str, Array] = {}
    offset = 0
    for name, dtype, shape in values.pop("tensors"):
        count = math.prod(shape)
        tensors[name] = np.frombuffer(payload, dtype, count, offset).reshape(shape)
        offset += count * tensors[name].itemsize
    if offset != len(payload):
        raise ValueError(f"the tensors of {values} take {offset} bytes, {len(payload)} came")
    return Frame(values, tensors)


def read(stream: IO[bytes]) -> Frame | None:
    """The next frame; None at the end, or if one is cut off."""
    sizes = stream.read(SIZES.size)
    if len(sizes) < SIZES.size:
        return None
    header_bytes, payload_bytes = SIZES.unpack(sizes)
    header, payload = stream.read(header_bytes), stream.read(payload_bytes)
    if len(header) + len(payload) < header_bytes + payload_bytes:
        return None
    return decode(header, payload)
