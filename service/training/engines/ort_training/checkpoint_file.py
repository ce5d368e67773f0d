"""Reads the parameters of On-Device Training's checkpoints, without On-Device Training.

They are FlatBuffers, https://flatbuffers.dev/internals, with the schemas checkpoint.fbs and ort.fbs
of onnxruntime 1.19. Tables are read by field number.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from service.training.errors import CheckpointUnreadable

MAGIC = b"ODTC"
MODULE_STATE = 1
TRAINED, FROZEN = 0, 1
NAME, DIMS, DATA_TYPE, RAW_DATA = 0, 2, 3, 4
FLOAT = 1


def is_one(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(8)[4:] == MAGIC


def read_parameters(path: Path) -> dict[str, NDArray[np.float32]]:
    """All float32 parameters, trained or frozen. Raises CheckpointUnreadable."""
    try:
        return dict(_parameters(path.read_bytes()))
    except (OSError, struct.error, ValueError) as error:
        raise CheckpointUnreadable(f"cannot read the checkpoint {path}: {error}") from error


def _parameters(content: bytes) -> Iterator[tuple[str, NDArray[np.float32]]]:
    state = _Table(content, _pointed_at(content, 0)).table(MODULE_STATE)
    for tensor in (*state.tables(TRAINED), *state.tables(FROZEN)):
        if tensor.number(DATA_TYPE) == FLOAT:
            shape = np.frombuffer(tensor.vector(DIMS, 8), "<i8")
            values = np.frombuffer(tensor.vector(RAW_DATA, 1), "<f4").reshape(shape)
            yield tensor.vector(NAME, 1).decode(), values


class _Table(Struct, frozen=True):
    """A table at an offset in a buffer. Absent fields read as empty."""

    content: bytes
    at: int

    def table(self, field: int) -> _Table:
        place = self._place(field)
        if place is None:
            raise ValueError(f"it has no field {field}")
        return _Table(self.content, _pointed_at(self.content, place))

    def tables(self, field: int) -> list[_Table]:
        begin, count = self._vector(field)
        return [
            _Table(self.content, _pointed_at(self.content, begin + 4 * index))
            for index in range(count)
        ]

    def vector(self, field: int, item_bytes: int) -> bytes:
        begin, count = self._vector(field)
        return self.content[begin : begin + count * item_bytes]

    def number(self, field: int) -> int:
        place = self._place(field)
        return 0 if place is None else _unpack("<i", self.content, place)

    def _vector(self, field: int) -> tuple[int, int]:
        """The offset of the first item, and the number of items."""
        place = self._place(field)
        if place is None:
            return 0, 0
        begin = _pointed_at(self.content, place)
        return begin + 4, _unpack("<I", self.content, begin)

    def _place(self, field: int) -> int | None:
        places = self.at - _unpack("<i", self.content, self.at)
        if 4 + 2 * field >= _unpack("<H", self.content, places):
            return None
        offset = _unpack("<H", self.content, places + 4 + 2 * field)
        return self.at + offset if offset else None


def _pointed_at(content: bytes, place: int) -> int:
    return place + _unpack("<I", content, place)


def _unpack(kind: str, content: bytes, place: int) -> int:
    (value,) = struct.unpack_from(kind, content, place)
    return int(value)
