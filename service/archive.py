"""A whole dataset as one zip, in constant memory; docs/samples.md has the format."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import Any

from service.curation import shown_label
from service.errors import InvalidInput, TooLarge
from service.forward_buffer import ForwardBuffer
from service.ingest import tensors
from service.ingest.faults import Faults
from service.ingest.images import MAX_IMAGE_BYTES
from service.ingest.json_upload import key_complaint, label_reader
from service.ingest.labels import Label
from service.ingest.npz import READ_FAULTS
from service.ingest.records import bad_image, bad_tensors
from service.ingest.require import takes_images
from service.ingest.result import IngestResult, commit
from storage.errors import NotFound, Problem
from storage.records import Model, Sample, Split
from storage.sample_filter import SampleFilter
from storage.staging import Staging
from storage.store import Store

FORMAT, VERSION = "hone-samples", 1
MANIFEST = "manifest.json"
SAMPLES_AT_ONCE = 500
CHUNK_BYTES = 4 * 2**20
MAX_LINES_BYTES = 16 * 2**20
MAX_DATA_BYTES = MAX_IMAGE_BYTES + CHUNK_BYTES
WRONG = "the archive cannot be read"
FIELDS: dict[str, Callable[[Any], bool]] = {
    "key": lambda _: True,
    "label": lambda _: True,
    "split": lambda value: value in (Split.TRAIN.value, Split.VALIDATION.value),
    "pinned": lambda value: isinstance(value, bool),
    "length": lambda value: type(value) is int and value >= 0,
    "sha256": lambda value: isinstance(value, str),
}
"""What a line says of a sample, and whether it may; labels and keys have checks of their own."""


def write_archive(store: Store, model: Model) -> Iterator[bytes]:
    """The bytes of the zip, some MiB at a time: every sample that there is when it begins."""
    buffer = ForwardBuffer()
    newest = store.samples.list(model.id, limit=1, newest_first=True)
    with zipfile.ZipFile(buffer, "w", allowZip64=True) as archive:
        archive.writestr(MANIFEST, json.dumps(_manifest(model), indent=2))
        for number, (lines, data) in enumerate(_chunks(store, model, newest)):
            archive.writestr(_entry("samples", number), lines, zipfile.ZIP_DEFLATED)
            archive.writestr(_entry("data", number), data)
            yield buffer.take()
    yield buffer.take()


def read_archive(store: Store, model: Model, path: Path, *, max_bytes: int) -> IngestResult:
    """Store the samples of an archive, all or none, with their keys, labels, splits and pins.

    max_bytes: of all of it, unpacked. Raises InvalidInput if it is damaged, or of another model;
    TooLarge.
    """
    try:
        archive = zipfile.ZipFile(path)
    except READ_FAULTS as error:
        raise _wrong("", f"{error}; send the whole zip") from error
    with archive:
        names = set(archive.namelist())
        total = sum(info.file_size for info in archive.infolist())
        if total > max_bytes:
            raise TooLarge(f"the archive holds {total} bytes, the most is {max_bytes}")
        _check_manifest(model, _read(archive, MANIFEST, most=MAX_LINES_BYTES))
        size = None if takes_images(model) else tensors.record_bytes(model.signature.inputs)
        with store.samples.stage(model.id, size) as staging:
            for number in count():
                if _entry("samples", number) not in names:
                    break
                lines = _read(archive, _entry("samples", number), most=MAX_LINES_BYTES)
                data = _read(archive, _entry("data", number), most=MAX_DATA_BYTES)
                _stage(model, staging, lines, data, at=_entry("samples", number))
            if unread := {_entry("samples", later) for later in range(number, len(names))} & names:
                raise _wrong(
                    f"/{_entry('samples', number)}", f"missing, but there is {min(unread)}"
                )
            return commit(staging, Faults())


def _chunks(store: Store, model: Model, newest: Sequence[Sample]) -> Iterator[tuple[bytes, bytes]]:
    """(JSON lines, records) of some samples at a time."""
    if not newest:
        return
    where, after = SampleFilter(up_to=newest[0].id), 0
    lines, data = bytearray(), bytearray()
    while page := store.samples.list(model.id, where, limit=SAMPLES_AT_ONCE, after=after):
        after = page[-1].id
        for sample in page:
            try:
                record = store.samples.content(model.id, sample.id)
            except NotFound:
                continue  # deleted since the page was read
            lines += _line(model, sample)
            data += record
            if len(data) >= CHUNK_BYTES:
                yield bytes(lines), bytes(data)
                lines, data = bytearray(), bytearray()
    if lines:
        yield bytes(lines), bytes(data)


def _line(model: Model, sample: Sample) -> bytes:
    classes = model.signature.target.classes
    label = shown_label(model, sample.label)
    named = classes is not None and isinstance(label, int)
    fields = {
        "key": sample.key,
        "label": classes[label] if classes is not None and named else label,
        "split": sample.split.value,
        "pinned": sample.pinned,
        "length": sample.size_bytes,
        "sha256": sample.sha256,
    }
    return json.dumps(fields, ensure_ascii=False).encode() + b"\n"


def _stage(model: Model, staging: Staging, lines: bytes, data: bytes, *, at: str) -> None:
    """Check one chunk and stage it. Raises InvalidInput for the first sample that is wrong."""
    reader = label_reader(model)
    labels: list[Label] = []
    keys: list[str | None] = []
    splits: list[Split | None] = []
    pinned: list[bool] = []
    lengths: list[int] = []
    end = 0
    for number, text in enumerate(lines.splitlines(), 1):
        where = f"/{at}/{number}"
        fields = _fields(text, where)
        start, end = end, end + fields["length"]
        if sha256(data[start:end]).hexdigest() != fields["sha256"]:
            raise _wrong(where, "its bytes are not those that were exported; export again")
        label, complaint = reader.parse(fields["label"])
        complaint = complaint or key_complaint(fields["key"])
        if complaint:
            raise _wrong(where, complaint)
        labels.append(label)
        keys.append(fields["key"])
        splits.append(Split(fields["split"]))
        pinned.append(fields["pinned"])
        lengths.append(fields["length"])
    if end != len(data):
        raise _wrong(f"/{at}", f"its samples have {end} bytes, its data {len(data)}")
    _check_records(model, data, lengths, at=at)
    try:
        staging.add(data, labels, keys=keys, splits=splits, lengths=lengths, pinned=pinned)
    except ValueError as error:
        raise _wrong(f"/{at}", str(error)) from error


def _check_records(model: Model, data: bytes, lengths: Sequence[int], *, at: str) -> None:
    """Raises InvalidInput if a record is none that an upload could have brought."""
    if not takes_images(model):
        if bad := bad_tensors(data, lengths, model.signature.inputs):
            raise _wrong(f"/{at}/{bad[0] + 1}", bad[1])
        return
    end = 0
    for number, length in enumerate(lengths, 1):
        start, end = end, end + length
        if complaint := bad_image(data[start:end]):
            raise _wrong(f"/{at}/{number}", complaint)


def _fields(text: bytes, where: str) -> dict[str, Any]:
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _wrong(where, f"not JSON: {error}") from error
    if not isinstance(fields, dict):
        raise _wrong(where, f"not a sample: an object with {', '.join(FIELDS)}")
    for name, check in FIELDS.items():
        if name not in fields:
            raise _wrong(f"{where}/{name}", f"not a sample: {name!r} is missing")
        if not check(fields[name]):
            raise _wrong(f"{where}/{name}", f"not a sample: {name!r} is {fields[name]!r:.100}")
    return fields


def _manifest(model: Model) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "version": VERSION,
        "model": model.name,
        "inputs": [asdict(spec) for spec in model.signature.inputs],
        "target": asdict(model.signature.target),
        "form": "images" if takes_images(model) else "tensors",
    }


def _check_manifest(model: Model, text: bytes) -> None:
    """Raises InvalidInput if the samples of this archive cannot be samples of this model."""
    try:
        given = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _wrong(f"/{MANIFEST}", f"not JSON: {error}") from error
    if not isinstance(given, Mapping) or given.get("format") != FORMAT:
        raise _wrong(f"/{MANIFEST}", f"its format is not {FORMAT!r}; it is no archive of Hone")
    if given.get("version") != VERSION:
        raise _wrong(f"/{MANIFEST}", f"it has version {given.get('version')}, this Hone reads 1")
    own = json.loads(json.dumps(_manifest(model)))
    problems = []
    for name in ("form", "inputs"):
        same = given.get(name) == own[name] or (name == "inputs" and own["form"] == "images")
        if not same:
            detail = f"{name}: the archive has {given.get(name)}, {model.name!r} has {own[name]}"
            problems.append(Problem(f"/{MANIFEST}/{name}", detail))
    if problems:
        raise InvalidInput("the archive is of another kind of model", problems=problems)


def _read(archive: zipfile.ZipFile, name: str, *, most: int) -> bytes:
    try:
        info = archive.getinfo(name)
        if info.file_size > most:
            raise _wrong(f"/{name}", f"it has {info.file_size} bytes, the most is {most}")
        return archive.read(info)
    except KeyError as error:
        raise _wrong(f"/{name}", "it is missing; send the whole archive") from error
    except READ_FAULTS as error:
        raise _wrong(f"/{name}", f"it is damaged: {error}") from error


def _entry(kind: str, number: int) -> str:
    return f"{kind}/{number:06}.{'jsonl' if kind == 'samples' else 'bin'}"


def _wrong(pointer: str, detail: str) -> InvalidInput:
    return InvalidInput(WRONG, problems=[Problem(pointer, detail)])
