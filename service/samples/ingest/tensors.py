"""Converts values that apps send into the model's tensors."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np

from service.samples.ingest.json_value import read_array
from storage.arrays import NDArray
from storage.records.signatures import TensorSpec


def record_bytes(inputs: tuple[TensorSpec, ...]) -> int:
    """Bytes of one sample: all inputs in C order."""
    return sum(input_bytes(spec) for spec in inputs)


def input_bytes(spec: TensorSpec) -> int:
    """Bytes of one input of one sample."""
    return int(np.prod(spec.shape, dtype=np.int64)) * np.dtype(spec.dtype).itemsize


@lru_cache
def little_endian(dtype: str) -> np.dtype[Any]:
    """The little-endian form of a dtype, as packs store it."""
    ordered: np.dtype[Any] = np.dtype(dtype).newbyteorder("<")
    return ordered


def cut(
    records: NDArray[np.uint8], inputs: tuple[TensorSpec, ...]
) -> Iterator[tuple[TensorSpec, NDArray[Any]]]:
    """Each input of records, as a view of shape (n, *spec.shape). records: (n, record bytes)."""
    start = 0
    for spec in inputs:
        end = start + input_bytes(spec)
        rows = records[:, start:end].view(little_endian(spec.dtype))
        yield spec, rows.reshape(len(records), *spec.shape)
        start = end


def parse(value: Any, spec: TensorSpec) -> NDArray[Any] | str:
    """One input from JSON: its tensor, of shape spec.shape, or what is wrong with it."""
    array = read_array(value, spec.dtype)
    if isinstance(array, str):
        return f"{array}; the model takes {spec.dtype} of shape {list(spec.shape)}"
    if array.dtype.kind == "f" and np.dtype(spec.dtype).kind in "iu" and _are_whole(array):
        array = array.astype(np.int64)
    if complaint := type_complaint(array.dtype, spec.dtype):
        return complaint
    if array.shape != spec.shape:
        return f"has shape {list(array.shape)}, the model takes {list(spec.shape)}"
    converted, bad = convert(array[None], spec.dtype)
    return range_complaint(array, spec.dtype) if bad[0] else converted[0]


YES_NO = {"true": 1, "false": 0}
"""In lower case."""


def parse_number(cell: str) -> float:
    """Parse a number by the usual rules of CSV, not by Python's. Raises ValueError."""
    if "_" in cell or not cell.strip().isascii():
        raise ValueError(cell)
    return float(cell)


def _are_whole(array: NDArray[Any]) -> bool:
    """Whether all are integers, such as 1.0, that float64 has not rounded."""
    return bool(((np.abs(array) < 2**53) & (array == np.trunc(array))).all())


@lru_cache
def type_complaint(dtype: np.dtype[Any], wanted: str) -> str | None:
    """Why values of a dtype cannot become `wanted`, or None if they can."""
    allowed = {"f": "fiu", "i": "iu", "u": "iu", "b": "b"}[np.dtype(wanted).kind]
    if dtype.kind in allowed:
        return None
    names = {"f": "numbers", "i": "integers", "u": "integers", "b": "booleans"}
    kinds = {"f": "floats", "i": "integers", "u": "integers", "b": "booleans", "U": "text"}
    held = kinds.get(dtype.kind, "values that are not numbers")
    return f"holds {held}, the model takes {names[np.dtype(wanted).kind]} ({wanted})"


def convert(rows: NDArray[Any], dtype: str) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Rows in the model's dtype, and which of them have a value that it cannot represent.

    rows: (n, …) of a dtype that passed `type_complaint`. bad: (n,), for NaN, infinity, overflow.
    """
    wanted = little_endian(dtype)
    flat = rows.reshape(len(rows), -1)
    if rows.dtype.kind == "b":
        rows = rows.view(np.uint8) != 0  # a file may hold any byte
    with np.errstate(over="ignore", invalid="ignore"):
        converted = np.ascontiguousarray(rows, dtype=wanted)
    if wanted.kind == "f":
        bad = ~np.isfinite(converted.reshape(len(rows), -1)).all(axis=1)
    elif wanted.kind == "b" or np.can_cast(rows.dtype, wanted, "safe"):
        bad = np.zeros(len(rows), dtype=bool)
    else:
        limits = np.iinfo(wanted)
        bad = ((flat < limits.min) | (flat > limits.max)).any(axis=1)
    return converted, bad


UNREADABLE = "it is not valid Unicode text"


def texts(rows: NDArray[np.str_]) -> list[str | None]:
    """Strings of a file; None for one that is not valid Unicode. rows: (n,)."""
    native = np.ascontiguousarray(rows.astype(rows.dtype.newbyteorder("=")))
    points = native.view(np.uint32).reshape(len(rows), -1)
    surrogates = (points >= 0xD800) & (points < 0xE000)
    wrong = np.flatnonzero((surrogates | (points > 0x10FFFF)).any(axis=1)).tolist()
    native[wrong] = ""
    strings: list[str | None] = native.tolist()
    for row in wrong:
        strings[row] = None
    return strings


def range_complaint(row: NDArray[Any], dtype: str) -> str:
    """What is wrong with a row that `convert` marked bad, with its first bad position."""
    _, bad = convert(row.reshape(-1, 1), dtype)
    held = first(row, bad.reshape(row.shape))
    if np.dtype(dtype).kind == "f":
        return f"holds {held}; every value must be a finite {dtype}"
    return f"holds {held}, out of the range of {dtype}"


def first(array: NDArray[Any], bad: NDArray[np.bool_]) -> str:
    """The first of its values that are bad, and where that is."""
    place = np.argwhere(bad)[0].tolist()
    return f"{array[tuple(place)]}" + (f" at {place}" if place else "")
