"""Stores images and recordings as samples: headers are checked, bytes are stored unchanged."""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from msgspec import Struct

from service.errors import InvalidInput
from service.preprocess import FileKind, Unreadable
from service.samples.columns import Column, Value
from service.samples.ingest.intake import GoodSamples, IngestResult, Intake, UploadOptions
from service.samples.ingest.json_value import read_json
from service.samples.ingest.labels import SENT, MaskReader, parse_columns, sent_columns
from service.samples.ingest.require import require_files
from service.samples.ingest.zip_reader import READ_BACK
from storage.disk.durable import file_faults
from storage.errors import Problem, pointer
from storage.records.models import Model
from storage.store import Store

MAX_FILE_BYTES = 64 * 2**20
ANY_TYPE = ("", "application/octet-stream")
NO_MASKS = (
    "but the model's output gives no class for each pixel of its input: it would be of the shape "
    "(batch, classes, height, width), with the input's height and width"
)
FIELDS = frozenset(column.name for column in SENT)


class FileUpload(Struct, frozen=True):
    """One file: its bytes within the upload's file, and its columns as JSON. mask: its label."""

    name: str
    media_type: str
    offset: int
    length: int
    about: Mapping[str, Any]
    mask: FileUpload | None = None


def store_files(
    store: Store,
    model: Model,
    path: Path,
    uploads: Sequence[FileUpload],
    options: UploadOptions,
) -> IngestResult:
    """Check every file, then store all of them, or the good ones.

    Only one file is in memory at a time. Raises InvalidInput with every bad one.
    """
    kind = require_files(model)
    if not uploads:
        detail = f"send at least one {kind.thing}"
        raise InvalidInput.at("/files", detail, title=f"there is no {kind.thing}")
    with (
        file_faults(READ_BACK),
        Intake(store, model, options) as intake,
        path.open("rb") as file,
    ):
        reader = FileReader(file, kind, sent_columns(model, intake.masks))
        for position, upload in enumerate(uploads):
            columns, data, problems = reader.read(upload, at=f"/files/{position}")
            if problems:
                intake.faults.sample(problems)
                continue
            intake.add(GoodSamples.of_rows(data, [columns], [len(data)]))
        return intake.commit(len(uploads))


class FileReader:
    """Reads the files of an upload, each with its columns and its mask."""

    def __init__(self, file: IO[bytes], kind: FileKind, columns: Mapping[str, Column]) -> None:
        self._file = file
        self._kind = kind
        self._label = columns["label"]
        self._parsers = {name: column.parse for name, column in columns.items()}

    def read(self, upload: FileUpload, *, at: str) -> tuple[dict[str, Any], bytes, list[Problem]]:
        """Its columns, its bytes, and what is wrong. at: its JSON pointer."""
        data, fault = self._bytes(upload)
        fault = fault or _check(upload, data, self._kind)
        columns, complaints = parse_columns(self._parsers, upload.about, b"" if fault else data)
        if fault:
            complaints.append(("", fault))
        elif upload.mask is not None and not complaints:
            columns["label"], fault = self._mask(columns["label"], upload.mask, data)
            complaints += [("label", fault)] if fault else []
        problems = [
            Problem(f"{at}/{name}".rstrip("/"), f"{upload.name}: {detail}")
            for name, detail in complaints
        ]
        return columns, data, problems

    def _mask(self, label: Any, mask: FileUpload, photo: bytes) -> Value:
        """The label that a file is."""
        if not isinstance(self._label, MaskReader):
            return None, f"{mask.name} is a mask, {NO_MASKS}"
        if label is not None:
            return None, f"it has {mask.name} and another label; send one of them"
        png, complaint = self._bytes(mask)
        if complaint is not None:
            return None, complaint
        return self._label.parse_file(png, photo)

    def _bytes(self, upload: FileUpload) -> tuple[bytes, str | None]:
        """Of a text without its byte order mark; other files begin with none."""
        if upload.length > MAX_FILE_BYTES:
            return b"", f"a file has at most {MAX_FILE_BYTES} bytes"
        self._file.seek(upload.offset)
        return self._file.read(upload.length).removeprefix(BOM_UTF8), None


def read_about(
    text: bytes | None, names: Sequence[str], *, defaults: Mapping[str, Any]
) -> list[Mapping[str, Any]]:
    """Read the form's part `samples`: descriptions of the files, by position or by name.

    defaults: for omitted fields. Raises InvalidInput.
    """
    if text is None:
        return [defaults] * len(names)
    try:
        descriptions = read_json(text)
    except ValueError as error:
        raise _wrong("", f"not JSON: {error}") from error
    if isinstance(descriptions, dict):
        if twice := next((name for name in descriptions if names.count(name) > 1), None):
            detail = f"{names.count(twice)} files are named {twice!r}; send a list in their order"
            raise _wrong(pointer(twice), detail)
        if strangers := sorted(set(descriptions) - set(names)):
            raise _wrong(pointer(strangers[0]), f"no file is named {strangers[0]!r}")
        descriptions = [descriptions.get(name, {}) for name in names]
    if not isinstance(descriptions, list) or len(descriptions) != len(names):
        raise _wrong(
            "", f"a list of {len(names)} objects, one for each file in order, or an object"
        )
    for position, described in enumerate(descriptions):
        if not isinstance(described, dict) or set(described) - FIELDS:
            raise _wrong(f"/{position}", f"an object with {sorted(FIELDS)}")
    return [{**defaults, **description} for description in descriptions]


def _check(upload: FileUpload, data: bytes, kind: FileKind) -> str | None:
    try:
        media_type = kind.check(data)
    except Unreadable as error:
        return str(error)
    if upload.media_type not in (*ANY_TYPE, media_type):
        return f"it is said to be {upload.media_type}, but it is {media_type}"
    return None


def _wrong(place: str, detail: str) -> InvalidInput:
    return InvalidInput.at(f"/samples{place}", detail, title='the part "samples" is wrong')
