"""One chunk of an archive on its way in: lines and records are read together, some MiB at a time.

Chunks may have any size: old archives have chunks with many MiB of lines.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from hashlib import sha256
from math import prod
from typing import Any, cast

import numpy as np
from msgspec import Struct, field

from service.errors import InvalidInput
from service.preprocess import Unreadable, for_model
from service.preprocess.masks.labels import MOST_BYTES
from service.samples.ingest import tensors
from service.samples.ingest.files import MAX_FILE_BYTES
from service.samples.ingest.intake import GoodSamples, Intake
from service.samples.ingest.json_value import read_json
from service.samples.ingest.labels import columns_of, parse_columns
from service.zips import ZIP_FAULTS
from storage.errors import Problem
from storage.records.models import Model
from storage.records.samples import Split
from storage.records.signatures import TensorSpec

TITLE = "the archive cannot be read"
GROUP_BYTES = 4 * 2**20
"""Samples are checked and staged when their lines or their records reach this."""
LINE_BYTES, VALUE_BYTES = 2**20, 32
"""Maximum size of a line: for everything but the label, and for each value of the label."""
FIELDS: dict[str, Callable[[Any], bool]] = {
    "key": lambda _: True,
    "label": lambda _: True,
    "split": lambda value: value in [split.value for split in Split],
    "pinned": lambda value: isinstance(value, bool),
    "length": lambda value: type(value) is int and value >= 0,
    "sha256": lambda value: isinstance(value, str),
}
"""Fields that every line has, with the check of each; columns are read besides."""
DAMAGED_FIELDS: dict[str, Callable[[Any], bool]] = {
    "key": lambda value: value is None or isinstance(value, str),
    "reason": lambda value: isinstance(value, str),
}
"""As FIELDS, of a damaged sample."""


class ArchiveEntry:
    """One entry of the zip, read forward. Raises InvalidInput if it is missing or damaged."""

    def __init__(self, archive: zipfile.ZipFile, name: str) -> None:
        self.name = name
        try:
            self.size_bytes = archive.getinfo(name).file_size
            self._stream = io.BufferedReader(cast("io.RawIOBase", archive.open(name)))
        except KeyError as error:
            raise wrong(f"/{name}", "it is missing; send the whole archive") from error
        except ZIP_FAULTS as error:
            raise self._damaged(error) from error

    def __enter__(self) -> ArchiveEntry:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()

    def read(self, size: int) -> bytes:
        """The next bytes, fewer at the end."""
        try:
            return self._stream.read(size)
        except ZIP_FAULTS as error:
            raise self._damaged(error) from error

    def line(self, most: int) -> bytes:
        """The next line, or its first `most` bytes; empty at the end."""
        try:
            return self._stream.readline(most)
        except ZIP_FAULTS as error:
            raise self._damaged(error) from error

    def _damaged(self, error: Exception) -> InvalidInput:
        return wrong(f"/{self.name}", f"it is damaged: {error}")


class _Group(Struct):
    """Samples that are staged together. first: number of its first line."""

    first: int
    data: bytearray = field(default_factory=bytearray)
    columns: list[dict[str, Any]] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)


class ChunkReader:
    """Checks the chunks of an archive, and stages them, for one model."""

    def __init__(self, model: Model, intake: Intake) -> None:
        self._model = model
        self._intake = intake
        self.samples = 0
        self._parsers = {
            name: column.restore for name, column in columns_of(model, intake.masks).items()
        }
        of_label = VALUE_BYTES * prod(model.signature.target.shape)
        if for_model(model).masks(model.signature.target) is not None:
            of_label = max(of_label, 2 * MOST_BYTES)  # in base64
        self._most_line = LINE_BYTES + of_label
        self._most_record = max(MAX_FILE_BYTES, tensors.record_bytes(model.signature.inputs))

    def stage(self, lines: ArchiveEntry, data: ArchiveEntry) -> None:
        """Raises InvalidInput for the first sample that is wrong."""
        end = 0
        for group in self._groups(lines, data):
            end += len(group.data)
            self.samples += len(group.lengths)
            self._check_records(group, at=lines.name)
            try:
                self._intake.add(
                    GoodSamples.of_rows(bytes(group.data), group.columns, group.lengths)
                )
            except ValueError as error:
                raise wrong(f"/{lines.name}", str(error)) from error
        if end != data.size_bytes:
            detail = f"its samples have {end} bytes, its data {data.size_bytes}"
            raise wrong(f"/{lines.name}", detail)

    def _groups(self, lines: ArchiveEntry, data: ArchiveEntry) -> Iterator[_Group]:
        group, number, line_bytes = _Group(1), 0, 0
        while text := lines.line(self._most_line):
            number, line_bytes = number + 1, line_bytes + len(text)
            where = f"/{lines.name}/{number}"
            if len(text) == self._most_line:
                raise wrong(where, "it is longer than a sample of this model can be")
            self._take(group, _fields(text, where), data, where)
            if max(line_bytes, len(group.data)) >= GROUP_BYTES:
                yield group
                group, line_bytes = _Group(number + 1), 0
        if group.lengths:
            yield group

    def _take(self, group: _Group, fields: dict[str, Any], data: ArchiveEntry, where: str) -> None:
        length = fields["length"]
        if length > self._most_record:
            raise wrong(where, f"it has {length} bytes, the most is {self._most_record}")
        record = data.read(length)
        if sha256(record).hexdigest() != fields["sha256"]:
            raise wrong(where, "its bytes are not those that were exported; export again")
        # Older archives lack some columns.
        columns, complaints = parse_columns(self._parsers, fields, record)
        if complaints:
            raise wrong(where, complaints[0][1])
        group.data += record
        group.columns.append(columns)
        group.lengths.append(length)

    def _check_records(self, group: _Group, *, at: str) -> None:
        """Raises InvalidInput for a record that no upload could have produced."""
        data = bytes(group.data)
        files = for_model(self._model).files
        if files is None:
            if bad := _bad_tensors(data, group.lengths, self._model.signature.inputs):
                raise wrong(f"/{at}/{group.first + bad[0]}", bad[1])
            return
        end = 0
        for number, length in enumerate(group.lengths, group.first):
            start, end = end, end + length
            try:
                files.check(data[start:end])
            except Unreadable as error:
                raise wrong(f"/{at}/{number}", str(error)) from error


def damaged_samples(archive: zipfile.ZipFile, name: str) -> Iterator[Problem]:
    """The samples that an entry lists as damaged; none if there is no such entry.

    Raises InvalidInput.
    """
    try:
        archive.getinfo(name)
    except KeyError:
        return
    with ArchiveEntry(archive, name) as lines:
        for number, text in enumerate(iter(partial(lines.line, LINE_BYTES), b""), 1):
            fields = _fields(text, where := f"/{name}/{number}", DAMAGED_FIELDS)
            key = "" if fields["key"] is None else f" (key {fields['key']!r:.100})"
            yield Problem(where, f"the archive is without it{key}: {fields['reason']:.300}")


def wrong(pointer: str, detail: str) -> InvalidInput:
    """The error for an archive that is rejected. pointer: entry and line."""
    return InvalidInput.at(pointer, detail, title=TITLE)


def _fields(
    text: bytes, where: str, checks: Mapping[str, Callable[[Any], bool]] = FIELDS
) -> dict[str, Any]:
    try:
        fields = read_json(text)
    except ValueError as error:
        raise wrong(where, f"not JSON: {error}") from error
    if not isinstance(fields, dict):
        raise wrong(where, f"not a sample: an object with {', '.join(checks)}")
    for name, check in checks.items():
        if name not in fields:
            raise wrong(f"{where}/{name}", f"not a sample: {name!r} is missing")
        if not check(fields[name]):
            raise wrong(f"{where}/{name}", f"not a sample: {name!r} is {fields[name]!r:.100}")
    return fields


def _bad_tensors(
    data: bytes, lengths: Sequence[int], inputs: tuple[TensorSpec, ...]
) -> tuple[int, str] | None:
    """The first record that is not a valid sample of these inputs, and why.

    data: the records, concatenated, as in packs. lengths: of each, in bytes.
    """
    size = tensors.record_bytes(inputs)
    for row, length in enumerate(lengths):
        if length != size:
            return row, f"it has {length} bytes, a sample of this model has {size}"
    table = np.frombuffer(data, np.uint8).reshape(len(lengths), size)
    complaints = (_first_bad(part, spec) for spec, part in tensors.cut(table, inputs))
    return min(filter(None, complaints), default=None)


def _first_bad(part: np.ndarray, spec: TensorSpec) -> tuple[int, str] | None:
    if spec.dtype == "bool":
        stored = np.ascontiguousarray(part).view(np.uint8)
        (rows,) = np.nonzero((stored.reshape(len(part), -1) > 1).any(axis=1))
        detail = "holds a byte that is neither 0 nor 1; the model takes booleans"
    else:
        _, bad = tensors.convert(part, spec.dtype)
        (rows,) = np.nonzero(bad)
        detail = tensors.range_complaint(part[rows[0]], spec.dtype) if len(rows) else ""
    return (int(rows[0]), f'input "{spec.name}" {detail}') if len(rows) else None
