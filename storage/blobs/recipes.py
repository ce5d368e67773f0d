"""Recipes: the steps that make one file from another.

A version of a model that trained adapters is its base with a few matrices more, or with their
product added to its weights: the steps take about as much space as the adapters.
"""

from __future__ import annotations

import json
import mmap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

import numpy as np
from msgspec import Struct

from storage.arrays import NDArray
from storage.database.codec import dump
from storage.errors import StorageBroken

MAGIC = b"honercp1"
SIZE_BYTES = 8
Matrix: TypeAlias = "NDArray[np.float32]"


class Copy(Struct, frozen=True):
    """Bytes of the base, from `start` up to but excluding `end`."""

    start: int
    end: int


class Data(Struct, frozen=True):
    """Bytes that are not in the base."""

    content: Any


class Sum(Struct, frozen=True):
    """A float32 matrix of the base, beginning at `start`, plus scale·left·right."""

    start: int
    left: Matrix
    right: Matrix
    scale: float

    @property
    def end(self) -> int:
        return self.start + 4 * len(self.left) * int(self.right.shape[1])


Step: TypeAlias = Copy | Data | Sum


def map_file(path: Path) -> memoryview:
    """A file's bytes, mapped: read when they are used."""
    with path.open("rb") as file:
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def put_together(steps: Sequence[Step], base: memoryview, path: Path) -> None:
    """Write the file that the steps produce. Neither atomic nor flushed."""
    with path.open("wb") as file:
        for step in steps:
            _write(file, step, base)


def merge(weight: Matrix, left: Matrix, right: Matrix, scale: float) -> Matrix:
    """W + scale·left·right, with the same bits on every machine.

    Column by column: the rounding of a matrix product depends on the processor and the number of
    threads.
    """
    rows = left * np.float32(scale)
    added = np.zeros(weight.shape, np.float32)
    for row, column in zip(rows.T, right, strict=True):
        added += np.multiply.outer(row, column)
    return weight + added


def save(steps: Sequence[Step], path: Path) -> None:
    """Write the steps. Neither atomic nor flushed."""
    listed = [_described(step) for step in steps]
    head = dump(listed).encode()
    with path.open("wb") as file:
        file.write(MAGIC + len(head).to_bytes(SIZE_BYTES, "little") + head)
        for step in steps:
            for part in _own(step):
                file.write(part)


def load(path: Path) -> list[Step]:
    """Raises StorageBroken."""
    content = memoryview(path.read_bytes())
    begin = len(MAGIC) + SIZE_BYTES
    if content[: len(MAGIC)] != MAGIC:
        raise StorageBroken(f"{path.name} holds no steps to a file; restore a backup")
    end = begin + int.from_bytes(content[len(MAGIC) : begin], "little")
    rest = content[end:]
    steps: list[Step] = []
    for kind, *values in json.loads(bytes(content[begin:end])):
        if kind == "copy":
            steps.append(Copy(*values))
        elif kind == "data":
            steps.append(Data(rest[: values[0]]))
            rest = rest[values[0] :]
        else:
            start, rows, rank, columns, scale = values
            numbers = np.frombuffer(rest[: 4 * rank * (rows + columns)], "<f4")
            left, right = numbers[: rows * rank], numbers[rows * rank :]
            steps.append(Sum(start, left.reshape(rows, rank), right.reshape(rank, columns), scale))
            rest = rest[numbers.nbytes :]
    return steps


def _write(file: BinaryIO, step: Step, base: memoryview) -> None:
    if isinstance(step, Copy):
        file.write(base[step.start : step.end])
    elif isinstance(step, Data):
        file.write(step.content)
    else:
        weight = np.frombuffer(base[step.start : step.end], "<f4").copy()
        shaped = weight.reshape(len(step.left), -1)
        file.write(merge(shaped, step.left, step.right, step.scale).data)


def _described(step: Step) -> list[Any]:
    if isinstance(step, Copy):
        return ["copy", step.start, step.end]
    if isinstance(step, Data):
        return ["data", memoryview(step.content).nbytes]
    return ["sum", step.start, *step.left.shape, step.right.shape[1], step.scale]


def _own(step: Step) -> Iterator[Any]:
    if isinstance(step, Data):
        yield step.content
    elif isinstance(step, Sum):
        yield np.ascontiguousarray(step.left).data
        yield np.ascontiguousarray(step.right).data
