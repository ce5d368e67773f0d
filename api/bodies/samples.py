"""Bodies that hold samples: each media type, read in constant memory and stored."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated

from fastapi import Depends, Request
from msgspec.structs import replace

from api import threads
from api.bodies.multipart import FilePart, streamed_form
from api.bodies.uploads import read_small, require_room_for, spooled
from api.dependencies import KnownModel, TheDaemon
from api.protocol import ON_DISK
from service.daemon import Daemon
from service.errors import InvalidInput
from service.samples.ingest.csv_upload import store_csv
from service.samples.ingest.files import FileUpload, read_about, store_files
from service.samples.ingest.intake import IngestResult, UploadOptions
from service.samples.ingest.json_upload import store_json, store_jsonl
from service.samples.ingest.json_value import read_json
from service.samples.ingest.labels import label_reader
from service.samples.ingest.npz_upload import store_npz
from service.samples.ingest.require import require_files
from service.samples.ingest.texts import texts_of
from storage.errors import pointer
from storage.records.models import Model

Feed = Callable[[Request, Daemon, Model, UploadOptions], Awaitable[IngestResult]]
JSON, NPZ, CSV, FORM = "application/json", "application/x-npz", "text/csv", "multipart/form-data"
ZIP, JSONL, TEXT = "application/zip", "application/jsonl", "text/plain"
FILES = ("image/png", "image/jpeg", "image/webp", "audio/wav", "audio/flac")
MASK = "mask"
"""The name of a form's parts that are labels."""
ABOUT = "samples"
"""That of its part that describes the files."""
NO_FILE = (
    'a form has files, each with its filename, and the part "samples" about them; '
    "give a file its filename, and what is known of it in that part or in the query"
)
JSON_TOO_LARGE = (
    "a JSON body has at most {max_bytes} bytes (HONED_MAX_JSON_BYTES); "
    "send several, or application/x-npz"
)


def files_of(model: Model) -> tuple[str, ...]:
    """Media types of files that are a body: for a model of texts, text alone."""
    return FILES if texts_of(model) is None else (TEXT,)


async def model_with_room(request: Request, model: KnownModel, daemon: TheDaemon) -> Model:
    """The model named in the path. Raises NotFound, and StorageFull before the body is read."""
    require_room_for(request, daemon)
    return model


TheModelWithRoom = Annotated[Model, Depends(model_with_room)]


async def read_json_body(request: Request, daemon: Daemon) -> bytes:
    """A JSON body of samples. Raises TooLarge."""
    return await read_small(
        request, max_bytes=daemon.settings.max_json_bytes, refusal=JSON_TOO_LARGE
    )


async def add_json(
    request: Request, daemon: Daemon, model: Model, options: UploadOptions
) -> IngestResult:
    """One sample, or a list of them."""
    payload = await read_json_body(request, daemon)
    return await add_read_json(request, daemon, model, payload, options)


async def add_read_json(
    request: Request, daemon: Daemon, model: Model, payload: bytes, options: UploadOptions
) -> IngestResult:
    """As `add_json`, of a body that was read."""
    async with threads.reading(request, len(payload)):
        return await threads.upload(request, store_json, daemon.store, model, payload, options)


def _stored_by(store: Callable[..., IngestResult], **bounds: str) -> Feed:
    """Spools a body for a function that stores it. bounds: its parameters → settings."""

    async def add(
        request: Request, daemon: Daemon, model: Model, options: UploadOptions
    ) -> IngestResult:
        options = replace(options, require_room=request.scope[ON_DISK])
        most = {name: getattr(daemon.settings, setting) for name, setting in bounds.items()}
        async with spooled(request, folder=daemon.store.tmp_dir) as path:
            return await threads.upload(request, store, daemon.store, model, path, options, **most)

    return add


add_npz = _stored_by(store_npz, max_bytes="max_upload_bytes")
add_csv = _stored_by(store_csv)
add_jsonl = _stored_by(store_jsonl, max_line_bytes="max_json_bytes")


async def add_archive(
    request: Request, daemon: Daemon, model: Model, options: UploadOptions
) -> IngestResult:
    """An archive as the export route makes it."""
    from service.samples.archive import read_archive

    add = _stored_by(read_archive, max_bytes="max_upload_bytes")
    return await add(request, daemon, model, options)


async def add_files(
    request: Request,
    daemon: Daemon,
    model: Model,
    given: str,
    options: UploadOptions,
    *,
    about: dict[str, object],
) -> IngestResult:
    """One file as the body, or the files of a form. about: the query's label and key."""
    kind = require_files(model)
    folder, store = daemon.store.tmp_dir, daemon.store
    if given != FORM:
        async with spooled(request, folder=folder) as path:
            upload = FileUpload(f"the {kind.thing}", given, 0, path.stat().st_size, about)
            return await threads.upload(request, store_files, store, model, path, [upload], options)
    async with streamed_form(request, folder=folder) as form:
        if about["key"] is not None and sum(part.name != MASK for part in form.files) > 1:
            raise _wrong("/query/key", 'one key cannot name many files; send the part "samples"')
        if strangers := [name for name in form.fields if name != ABOUT]:
            raise _wrong(pointer(strangers[0]), NO_FILE)
        files = [part for part in form.files if part.name != MASK]
        names = [part.filename or f"file {at}" for at, part in enumerate(files)]
        text = form.fields.get(ABOUT)
        async with threads.reading(request, len(text or b"")):
            said = await threads.upload(request, read_about, text, names, defaults=about)
        masks = _masks_of(names, [part for part in form.files if part.name == MASK])
        uploads = [
            FileUpload(name, part.media_type, part.offset, part.length, described, mask)
            for name, part, described, mask in zip(names, files, said, masks, strict=True)
        ]
        return await threads.upload(request, store_files, store, model, form.path, uploads, options)


def _masks_of(names: Sequence[str], parts: Sequence[FilePart]) -> list[FileUpload | None]:
    """The mask of each file: that of its name, whatever the endings are. Raises InvalidInput."""
    places: dict[str, list[int]] = {}
    for place, name in enumerate(names if parts else ()):
        places.setdefault(_stem(name), []).append(place)
    masks: list[FileUpload | None] = [None] * len(names)
    for at, part in enumerate(parts):
        same = places.get(_stem(part.filename), [])
        if len(same) != 1 or masks[same[0]] is not None:
            has = "no photo has" if not same else "more than one photo or mask has"
            detail = f"{part.filename}: {has} its name; name a mask as its photo but for the ending"
            raise _wrong(f"/masks/{at}", detail)
        masks[same[0]] = FileUpload(part.filename, part.media_type, part.offset, part.length, {})
    return masks


def _stem(name: str) -> str:
    """Without the ending."""
    stem, dot, ending = name.rpartition(".")
    return stem if dot and "/" not in ending else name


def label_of(model: Model, text: str | None) -> object:
    """A label from the query as its JSON value; empty for none. Raises InvalidInput."""
    if not text:
        return None
    target = model.signature.target
    if text in (target.classes or ()):
        return text
    value, complaint = label_reader(model).parse_text(text)
    if complaint:
        raise _wrong("/query/label", complaint)
    if isinstance(value, int):
        return value
    return read_json(text) if target.span_types is None else text


def _wrong(place: str, detail: str) -> InvalidInput:
    return InvalidInput.at(place, detail, title="the request is wrong")
