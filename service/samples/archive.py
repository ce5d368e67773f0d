"""A whole dataset as one zip, in constant memory; docs/samples.md has the format."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import count
from pathlib import Path
from typing import Any

from service.errors import InvalidInput, TooLarge
from service.samples.archive_chunk import ArchiveEntry, ChunkReader, wrong
from service.samples.ingest import tensors
from service.samples.ingest.npz import READ_FAULTS
from service.samples.ingest.require import takes_images
from service.samples.ingest.result import Faults, IngestResult, commit
from service.samples.updates import shown_label
from service.zip_stream import ForwardBuffer
from storage.errors import NotFound, Problem
from storage.records.models import Model
from storage.records.samples import Sample
from storage.samples.filter import SampleFilter
from storage.store import Store

FORMAT, VERSION = "hone-samples", 1
MANIFEST = "manifest.json"
SAMPLES_AT_ONCE = 500
CHUNK_BYTES = 4 * 2**20
"""A chunk is closed when its lines or its records reach this."""
MAX_MANIFEST_BYTES = 16 * 2**20


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
        raise wrong("", f"{error}; send the whole zip") from error
    with archive:
        names = set(archive.namelist())
        total = sum(info.file_size for info in archive.infolist())
        if total > max_bytes:
            raise TooLarge(f"the archive holds {total} bytes, the most is {max_bytes}")
        with ArchiveEntry(archive, MANIFEST) as manifest:
            _check_manifest(model, manifest.read(MAX_MANIFEST_BYTES))
        size = None if takes_images(model) else tensors.record_bytes(model.signature.inputs)
        with store.samples.stage(model.id, size) as staging:
            reader = ChunkReader(model, staging)
            for number in count():
                if _entry("samples", number) not in names:
                    break
                with (
                    ArchiveEntry(archive, _entry("samples", number)) as lines,
                    ArchiveEntry(archive, _entry("data", number)) as data,
                ):
                    reader.stage(lines, data)
            if unread := {_entry("samples", later) for later in range(number, len(names))} & names:
                raise wrong(f"/{_entry('samples', number)}", f"missing, but there is {min(unread)}")
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
            if max(len(lines), len(data)) >= CHUNK_BYTES:
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
        raise wrong(f"/{MANIFEST}", f"not JSON: {error}") from error
    if not isinstance(given, Mapping) or given.get("format") != FORMAT:
        raise wrong(f"/{MANIFEST}", f"its format is not {FORMAT!r}; it is no archive of Hone")
    if given.get("version") != VERSION:
        raise wrong(f"/{MANIFEST}", f"it has version {given.get('version')}, this Hone reads 1")
    own = json.loads(json.dumps(_manifest(model)))
    problems = []
    for name in ("form", "inputs"):
        same = given.get(name) == own[name] or (name == "inputs" and own["form"] == "images")
        if not same:
            detail = f"{name}: the archive has {given.get(name)}, {model.name!r} has {own[name]}"
            problems.append(Problem(f"/{MANIFEST}/{name}", detail))
    if problems:
        raise InvalidInput("the archive is of another kind of model", problems=problems)


def _entry(kind: str, number: int) -> str:
    return f"{kind}/{number:06}.{'jsonl' if kind == 'samples' else 'bin'}"
