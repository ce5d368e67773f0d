"""A whole dataset as one zip, in constant memory; docs/samples.md has the format."""

from __future__ import annotations

import json
import zipfile
from base64 import b64encode
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from msgspec.structs import asdict, replace

from service.errors import InvalidInput
from service.preprocess import for_model
from service.samples.archive_chunk import (
    TITLE,
    ArchiveEntry,
    ChunkReader,
    damaged_samples,
    wrong,
)
from service.samples.ingest.intake import Faults, IngestResult, Intake, UploadOptions
from service.samples.ingest.json_value import read_json
from service.samples.ingest.zip_reader import open_zip
from service.samples.updates import shown_label
from service.zips import ForwardBuffer
from storage.database.codec import dump
from storage.errors import Damaged, NotFound, Problem, StateConflict
from storage.records.models import Model
from storage.records.samples import SAMPLE_COLUMNS, Sample
from storage.samples.filter import SampleFilter
from storage.store import Store

FORMAT, VERSION = "hone-samples", 2
MANIFEST, END = "manifest.json", "end.json"
"""The end states the number of chunks, and of damaged samples."""
SAMPLES_AT_ONCE = 500
CHUNK_BYTES = 4 * 2**20
"""A chunk is closed when its lines or its records reach this."""
MAX_MANIFEST_BYTES = 16 * 2**20
MAX_CHUNKS = 100_000


def write_archive(store: Store, model: Model) -> Iterator[bytes]:
    """The bytes of the zip, some MiB at a time: every sample that exists when it starts.

    Damaged samples are left out, and listed. Raises StateConflict, which leaves the zip incomplete,
    if a class is removed meanwhile.
    """
    buffer = ForwardBuffer()
    newest = store.samples.newest_id(model.id)
    with zipfile.ZipFile(buffer, "w", allowZip64=True) as archive:
        archive.writestr(MANIFEST, dump(_manifest(model), indent=2))
        end = {"chunks": 0, "damaged": 0}
        for lines, data, damaged in _chunks(store, model, newest):
            archive.writestr(_entry("samples", end["chunks"]), lines, zipfile.ZIP_DEFLATED)
            archive.writestr(_entry("data", end["chunks"]), data)
            if damaged:
                archive.writestr(_entry("damaged", end["chunks"]), damaged, zipfile.ZIP_DEFLATED)
                end["damaged"] += damaged.count(b"\n")
            end["chunks"] += 1
            yield buffer.take()
        archive.writestr(END, dump(end))
    yield buffer.take()


def read_archive(
    store: Store, model: Model, path: Path, options: UploadOptions, *, max_bytes: int
) -> IngestResult:
    """Store the samples of an archive, all or none, with their keys, labels, splits and pins.

    Those that it lists as damaged count as rejected. max_bytes: of everything, unpacked. Raises
    AlreadyExists, InvalidInput if it is damaged or does not fit the model; InsufficientScope if it
    holds a base set or pins and the samples have an owner; TooLarge.
    """
    with open_zip(path, max_bytes=max_bytes, title=TITLE, advice="send the whole zip") as archive:
        with ArchiveEntry(archive, MANIFEST) as manifest:
            _check_manifest(model, manifest.read(MAX_MANIFEST_BYTES))
        chunks = _count_chunks(archive)
        with Intake(store, model, options) as intake:
            reader, damaged = ChunkReader(model, intake), Faults()
            for number in range(chunks):
                with (
                    ArchiveEntry(archive, _entry("samples", number)) as lines,
                    ArchiveEntry(archive, _entry("data", number)) as data,
                ):
                    reader.stage(lines, data)
                for problem in damaged_samples(archive, _entry("damaged", number)):
                    damaged.sample([problem])
            result = intake.commit(reader.samples)
            return replace(result, rejected=damaged.samples, problems=damaged.listed())


def _count_chunks(archive: zipfile.ZipFile) -> int:
    """The number of chunks, as the archive says. Raises InvalidInput if it holds others."""
    files = (entry.filename for entry in archive.infolist() if not entry.is_dir())
    names = {name for name in files if name.startswith(("samples/", "data/"))}
    with ArchiveEntry(archive, END) as end:
        text = end.read(MAX_MANIFEST_BYTES)
    try:
        chunks = read_json(text)["chunks"]
    except (ValueError, LookupError, TypeError) as error:
        raise wrong(f"/{END}", f"it does not say how many chunks there are: {error}") from error
    if type(chunks) is not int or not 0 <= chunks <= MAX_CHUNKS:
        raise wrong(f"/{END}", f"chunks is an integer from 0 to {MAX_CHUNKS}")
    wanted = {_entry(kind, number) for number in range(chunks) for kind in ("samples", "data")}
    if strangers := names - wanted:
        raise wrong(f"/{min(strangers)}", f"the archive has {chunks} chunks, without this one")
    return chunks


def _chunks(store: Store, model: Model, newest: int) -> Iterator[tuple[bytes, bytes, bytes]]:
    """(JSON lines, records, JSON lines of damaged ones) of some samples at a time."""
    where, after = SampleFilter(up_to=newest), 0
    lines, data, damaged = bytearray(), bytearray(), bytearray()
    while page := store.samples.list(model.id, where, limit=SAMPLES_AT_ONCE, after=after):
        after = page[-1].id
        _require_same_indices(store, model)
        for sample in page:
            try:
                record = store.samples.content(model.id, sample.id)
            except NotFound:
                continue  # deleted since the page was read
            except Damaged as error:
                told = {"key": sample.key, "reason": error.detail}
                damaged += dump(told).encode() + b"\n"
            else:
                lines += _line(model, sample)
                data += record
            if max(len(lines), len(data), len(damaged)) >= CHUNK_BYTES:
                yield bytes(lines), bytes(data), bytes(damaged)
                lines, data, damaged = bytearray(), bytearray(), bytearray()
    if lines or damaged:
        yield bytes(lines), bytes(data), bytes(damaged)


def _require_same_indices(store: Store, model: Model) -> None:
    """Raises StateConflict if class indices have changed, so that labels read may be wrong."""
    ids = model.signature.target.ids
    if store.models.get_by_id(model.id).signature.target.ids[: len(ids)] != ids:
        raise StateConflict(
            "the model's classes were changed while its samples were exported; export them again"
        )


def _line(model: Model, sample: Sample) -> bytes:
    classes = model.signature.target.classes
    label = shown_label(model, sample.label)
    if isinstance(label, dict) and "size" in label and not model.signature.target.number_names:
        label = {"png": b64encode(cast("bytes", sample.label)).decode()}
    named = classes is not None and isinstance(label, int)
    fields = {
        "label": classes[label] if classes is not None and named else label,
        **{name: getattr(sample, name) for name in SAMPLE_COLUMNS},
        "length": sample.size_bytes,
        "sha256": sample.sha256,
    }
    return dump(fields).encode() + b"\n"


def _manifest(model: Model) -> dict[str, Any]:
    files = for_model(model).files
    return {
        "format": FORMAT,
        "version": VERSION,
        "model": model.name,
        "inputs": [asdict(spec) for spec in model.signature.inputs],
        "target": asdict(model.signature.target),
        "form": "tensors" if files is None else files.things,
    }


def _check_manifest(model: Model, text: bytes) -> None:
    """Raises InvalidInput if the archive's samples cannot be samples of this model."""
    try:
        manifest = read_json(text)
    except ValueError as error:
        raise wrong(f"/{MANIFEST}", f"not JSON: {error}") from error
    if not isinstance(manifest, Mapping) or manifest.get("format") != FORMAT:
        raise wrong(f"/{MANIFEST}", f"its format is not {FORMAT!r}; it is no archive of Hone")
    if manifest.get("version") != VERSION:
        detail = f"it has version {manifest.get('version')!r:.100}, this Hone reads {VERSION}"
        raise wrong(f"/{MANIFEST}", detail)
    own = json.loads(dump(_manifest(model)))
    problems = []
    for name in ("form", "inputs"):
        same = manifest.get(name) == own[name] or (name == "inputs" and own["form"] != "tensors")
        if not same:
            theirs = f"{manifest.get(name)!r:.500}"
            detail = f"{name}: the archive has {theirs}, {model.name!r} has {own[name]}"
            problems.append(Problem(f"/{MANIFEST}/{name}", detail))
    if problems:
        raise InvalidInput("the archive is of another kind of model", problems=problems)


def _entry(kind: str, number: int) -> str:
    return f"{kind}/{number:06}.{'bin' if kind == 'data' else 'jsonl'}"
