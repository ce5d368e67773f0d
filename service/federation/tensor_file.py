"""Reads and writes safetensors without holding them in memory, and reports every error in them.

The format: eight bytes with the length of the header, the header as JSON, the tensors one after the
other, little-endian. https://huggingface.co/docs/safetensors
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct
from safetensors import SafetensorError, safe_open

from service.errors import InvalidInput
from storage.database.codec import dump
from storage.errors import Problem, pointer

FLOAT32 = "F32"
ADAPTER = ".lora_"
"""In the name of a parameter that is one."""
OWN = "hone"
"""Metadata key of our checkpoints, see service/training/engines/checkpoint.py."""
ROOM, METADATA_BYTES = 4, 2**14
"""Received headers may be so many times as long as ours, as JSON with escapes and spaces is, and
have metadata.
"""
MOST_PROBLEMS = 100
MOST_CHARACTERS = 200
"""Of what an error repeats of the file."""
ROWS = 2**20
"""Numbers checked at a time."""

Shapes = Mapping[str, tuple[int, ...]]


class Entry(Struct, frozen=True):
    """A tensor of a file. start, end: byte offsets in the file."""

    dtype: str
    shape: tuple[int, ...]
    start: int
    end: int


def require_parameters(path: Path, expected: Shapes) -> None:
    """Raises InvalidInput with the first errors, unless the file holds exactly these tensors,
    float32 and finite.
    """
    entries = read_entries(path, expected)
    problems = _problems(
        (name, _misfit(name, entries.get(name), expected.get(name)))
        for name in dict.fromkeys((*expected, *entries))
    ) or _problems((name, _not_finite(path, entry)) for name, entry in entries.items())
    if problems:
        raise InvalidInput(
            "these are not the model's parameters; nothing was changed", problems=problems
        )


def read_entries(path: Path, expected: Shapes | None = None) -> dict[str, Entry]:
    """The tensors of a file, in the order of their bytes. Raises InvalidInput.

    expected: of a received file, what it should hold; None for one of ours.
    """
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if length > path.stat().st_size - 8:
            raise _unreadable("it does not begin with the length of a header")
        if expected is not None and length > (most := most_header_bytes(expected)):
            raise _unreadable(
                f"its header has {length} bytes, and that of this model's parameters at most {most}"
            )
        try:
            with safe_open(path, framework="np"):  # the library checks all of the header
                header = json.loads(file.read(length))
        except SafetensorError as error:
            raise _unreadable(str(error)[:MOST_CHARACTERS]) from error
    if OWN in (header.pop("__metadata__", None) or {}) and expected is not None:
        raise _unreadable("it is a whole checkpoint of Hone, and not the parameters alone")
    entries = {name: _entry(value, 8 + length) for name, value in header.items()}
    return dict(sorted(entries.items(), key=lambda item: (item[1].start, item[1].end)))


def most_header_bytes(expected: Shapes) -> int:
    """Of a received file with these tensors: its names and shapes are bounded by it too."""
    return ROOM * len(header_of(expected, {})) + METADATA_BYTES


def header_of(shapes: Shapes, metadata: Mapping[str, str]) -> bytes:
    """The header of a file of these float32 tensors; their bytes follow in this order."""
    header: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    start = 0
    for name, shape in shapes.items():
        end = start + 4 * prod(shape)
        header[name] = {"dtype": FLOAT32, "shape": list(shape), "data_offsets": [start, end]}
        start = end
    text = dump(header).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def read_pieces(path: Path, entries: Sequence[Entry], *, size: int = 2**20) -> Iterator[bytes]:
    """The bytes of tensors, one after the other, in pieces."""
    with path.open("rb") as file:
        for entry in entries:
            file.seek(entry.start)
            left = entry.end - entry.start
            while left:
                piece = file.read(min(size, left))
                left -= len(piece)
                yield piece


def _entry(value: Mapping[str, Any], begin: int) -> Entry:
    start, end = value["data_offsets"]
    return Entry(value["dtype"], tuple(value["shape"]), begin + start, begin + end)


def _problems(details: Iterable[tuple[str, str | None]]) -> list[Problem]:
    """The first errors. details: of each tensor, None for one that is right."""
    wrong = ((name, detail) for name, detail in details if detail is not None)
    return [
        Problem(pointer(name[:MOST_CHARACTERS]), detail)
        for name, detail in islice(wrong, MOST_PROBLEMS)
    ]


def _misfit(name: str, entry: Entry | None, shape: tuple[int, ...] | None) -> str | None:
    if shape is None:
        return "the model trains no parameter of this name"
    if entry is None:
        kind = ", an adapter, which no ONNX file has" if ADAPTER in name else ""
        return f"it is missing; the model has it as {FLOAT32} {list(shape)}{kind}"
    if (entry.dtype, entry.shape) != (FLOAT32, shape):
        tensor = f"{entry.dtype} {list(entry.shape)}"[:MOST_CHARACTERS]
        return f"it is {tensor}, the model has {FLOAT32} {list(shape)}"
    return None


def _not_finite(path: Path, entry: Entry) -> str | None:
    count = prod(entry.shape)
    if not count:
        return None
    values = np.memmap(path, "<f4", "r", offset=entry.start, shape=(count,))
    for start in range(0, count, ROWS):
        good = np.isfinite(values[start : start + ROWS])
        if not good.all():
            at = start + int(np.argmin(good))
            place = [int(index) for index in np.unravel_index(at, entry.shape or (1,))]
            return f"the value at {place} is {values[at]}; parameters must be finite"
    return None


def _unreadable(why: str) -> InvalidInput:
    detail = f"{why}; send the parameters as one safetensors file"
    return InvalidInput.at("", detail, title="the parameters cannot be read")
