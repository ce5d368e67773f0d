"""Stores images and recordings as samples: headers are checked, bytes are stored unchanged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from msgspec import Struct

from service.errors import InvalidInput
from service.preprocess import FileKind, Unreadable
from service.samples.ingest.intake import GoodSamples, IngestResult, Intake, UploadOptions
from service.samples.ingest.json_value import read_json
from service.samples.ingest.labels import SENT, parse_columns, sent_columns
from service.samples.ingest.require import require_files
from service.samples.ingest.zip_reader import READ_BACK
from storage.disk.durable import file_faults
from storage.errors import Problem
from storage.records.models import Model
from storage.store import Store

MAX_FILE_BYTES = 64 * 2**20
ANY_TYPE = ("", "application/octet-stream")
SAME = {
    **dict.fromkeys(("image/jpg", "image/pjpeg"), "image/jpeg"),
    **dict.fromkeys(("audio/x-wav", "audio/wave", "audio/vnd.wave"), "audio/wav"),
    "audio/x-flac": "audio/flac",
}
"""Other names of media types."""
FIELDS = frozenset(each.name for each in SENT)


class FileUpload(Struct, frozen=True):
    """One file: its bytes within the upload's file, and its columns as JSON."""

    name: str
    media_type: str
    offset: int
    length: int
    about: Mapping[str, Any]


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
    parsers = {name: each.parse for name, each in sent_columns(model).items()}
    if not uploads:
        problem = Problem("/files", f"send at least one {kind.thing}")
        raise InvalidInput(f"there is no {kind.thing}", problems=[problem])
    with (
        file_faults(READ_BACK),
        Intake(store, model, options) as intake,
        path.open("rb") as file,
    ):
        for position, upload in enumerate(uploads):
            at = f"/files/{position}"
            data, faults = _read(file, upload, kind, at=at)
            columns, complaints = parse_columns(parsers, upload.about, b"" if faults else data)
            problems = [
                Problem(f"{at}/{name}", f"{upload.name}: {detail}") for name, detail in complaints
            ]
            problems += faults
            if problems:
                intake.faults.sample(problems)
                continue
            intake.add(GoodSamples.of_rows(data, [columns], [len(data)]))
        return intake.commit(len(uploads))


def _read(
    file: IO[bytes], upload: FileUpload, kind: FileKind, *, at: str
) -> tuple[bytes, list[Problem]]:
    if upload.length > MAX_FILE_BYTES:
        detail = f"{upload.name}: a file has at most {MAX_FILE_BYTES} bytes"
        return b"", [Problem(at, detail)]
    file.seek(upload.offset)
    data = file.read(upload.length)
    return data, _check(upload, data, kind, at=at)


def read_about(
    text: str | None, names: Sequence[str], *, defaults: Mapping[str, Any]
) -> list[Mapping[str, Any]]:
    """Read the form's part `samples`: descriptions of the files, by position or by name.

    defaults: for omitted fields. Raises InvalidInput.
    """
    if text is None:
        return [defaults] * len(names)
    try:
        given = read_json(text)
    except ValueError as error:
        raise _wrong("", f"not JSON: {error}") from error
    if isinstance(given, dict):
        if twice := next((name for name in given if names.count(name) > 1), None):
            detail = f"{names.count(twice)} files are named {twice!r}; send a list in their order"
            raise _wrong(f"/{twice}", detail)
        if strangers := sorted(set(given) - set(names)):
            raise _wrong(f"/{strangers[0]}", f"no file is named {strangers[0]!r}")
        given = [given.get(name, {}) for name in names]
    if not isinstance(given, list) or len(given) != len(names):
        raise _wrong(
            "", f"a list of {len(names)} objects, one for each file in order, or an object"
        )
    for position, each in enumerate(given):
        if not isinstance(each, dict) or set(each) - FIELDS:
            raise _wrong(f"/{position}", f"an object with {sorted(FIELDS)}")
    return [{**defaults, **each} for each in given]


def _check(upload: FileUpload, data: bytes, kind: FileKind, *, at: str) -> list[Problem]:
    try:
        media_type = kind.check(data)
    except Unreadable as error:
        return [Problem(at, f"{upload.name}: {error}")]
    said = SAME.get(upload.media_type, upload.media_type)
    if said not in (*ANY_TYPE, media_type):
        detail = f"{upload.name}: it is said to be {said}, but it is {media_type}"
        return [Problem(at, detail)]
    return []


def _wrong(pointer: str, detail: str) -> InvalidInput:
    problem = Problem(f"/samples{pointer}", detail)
    return InvalidInput('the part "samples" is wrong', problems=[problem])
