"""Samples on their way in: JSON, npz, CSV, images."""

from __future__ import annotations

import json
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request, Response
from fastapi.concurrency import run_in_threadpool

from api import present
from api.dependencies import TheDaemon, TheModel
from api.multipart import streamed_form
from api.openapi import answers, body
from api.schemas.samples import SamplesAccepted, SplitName
from api.uploads import read_small, require_media_type, spooled
from service.daemon import Daemon
from service.errors import InvalidInput
from service.ingest.csv_upload import store_csv
from service.ingest.images import ImageUpload, read_about, store_images
from service.ingest.json_upload import label_reader, store_json
from service.ingest.npz_upload import store_npz
from service.ingest.require import require_images
from service.ingest.result import IngestResult
from service.reserve import require_room
from storage.errors import Problem
from storage.records import Model, Split

router = APIRouter(prefix="/v1/models/{name}/samples", tags=["samples"])

JSON, NPZ, CSV, FORM = "application/json", "application/x-npz", "text/csv", "multipart/form-data"
IMAGES = ("image/png", "image/jpeg", "image/webp")
SplitQuery = Annotated[
    SplitName | None, Query(description="For samples that name none; default: by the sample's id.")
]
OnError = Annotated[
    Literal["refuse", "skip"],
    Query(description="`refuse`: all or nothing. `skip`: keep the good ones, list the others."),
]
LabelQuery = Annotated[
    str | None, Query(max_length=4096, description="Of images: class name or number.")
]
KeyQuery = Annotated[
    str | None, Query(max_length=512, description="Of an image that is the body: the app's own id.")
]
LabelColumn = Annotated[
    str | None,
    Query(max_length=4096, description="Of CSV: the label's column, or several, with commas."),
]
ONE_SAMPLE = {
    "type": "object",
    "required": ["inputs"],
    "additionalProperties": False,
    "properties": {
        "inputs": {"type": "object", "description": "Nested lists by input name."},
        "label": {"description": "Class index, class name, list of numbers, or null."},
        "key": {"type": ["string", "null"], "description": "The app's own id; told once."},
        "split": {"enum": ["train", "validation", None]},
    },
}
BINARY = {"schema": {"type": "string", "format": "binary"}}
UPLOAD = body(
    {
        JSON: {
            "schema": {
                "oneOf": [
                    ONE_SAMPLE,
                    {
                        "type": "object",
                        "required": ["samples"],
                        "properties": {"samples": {"type": "array", "items": ONE_SAMPLE}},
                    },
                ]
            },
            "examples": {
                "one": {"value": {"inputs": {"x": [0.1, 0.2]}, "label": 1, "key": "app-17"}},
                "batch": {
                    "value": {
                        "samples": [
                            {"inputs": {"x": [0.1, 0.2]}, "label": "cat"},
                            {"inputs": {"x": [0.3, 0.4]}, "label": None},
                        ]
                    }
                },
            },
        },
        NPZ: BINARY,
        CSV: {"schema": {"type": "string"}, "example": "width,height,label\n0.1,0.2,cat\n"},
        FORM: {
            "schema": {
                "type": "object",
                "properties": {
                    "file": {"type": "array", "items": BINARY["schema"]},
                    "samples": {"type": "string", "description": "JSON, in the files' order."},
                },
            },
            "example": {"samples": '[{"label": "cat", "key": "IMG_1"}, {"key": "IMG_2"}]'},
        },
        **dict.fromkeys(IMAGES, BINARY),
    }
)


@router.post(
    "",
    status_code=201,
    summary="Add samples",
    responses=answers(
        "busy",
        "not_found",
        "storage_full",
        "too_large",
        "unsupported_media_type",
    ),
    openapi_extra=UPLOAD,
)
async def add_samples(
    request: Request,
    response: Response,
    daemon: TheDaemon,
    model: TheModel,
    split: SplitQuery = None,
    on_error: OnError = "refuse",
    label: LabelQuery = None,
    key: KeyQuery = None,
    label_column: LabelColumn = None,
) -> SamplesAccepted:
    """All or nothing. A key that is there already is a duplicate, not an error.

    JSON: one sample, or a list of them. npz: one array per input, batch first, and `label`,
    optionally `key`. CSV: a header line, then one sample a line. Images, for a model whose
    `preprocess` makes tensors of them: one as the body, or the files of a form, whose part
    `samples` says of each its `label`, `key` and `split`. Memory does not grow with the upload.
    """
    given = require_media_type(request, JSON, NPZ, CSV, FORM, *IMAGES)
    length = request.headers.get("content-length", "")
    incoming_bytes = int(length) if length.isdigit() else 0
    settings = daemon.settings
    await run_in_threadpool(
        require_room,
        settings.data_dir,
        reserve_bytes=settings.disk_reserve_bytes,
        incoming_bytes=incoming_bytes,
    )
    chosen, skip_bad = Split(split) if split else None, on_error == "skip"
    if given == JSON:
        result = await _add_json(request, daemon, model, split=chosen, skip_bad=skip_bad)
    elif given == NPZ:
        result = await _add_npz(request, daemon, model, split=chosen, skip_bad=skip_bad)
    elif given == CSV:
        async with spooled(request, folder=daemon.store.tmp_dir) as path:
            result = await run_in_threadpool(
                store_csv,
                daemon.store,
                model,
                path,
                label_column=label_column,
                split=chosen,
                skip_bad=skip_bad,
            )
    else:
        about = {"label": _label(model, label), "key": key, "split": split}
        result = await _add_images(request, daemon, model, given, about=about, skip_bad=skip_bad)
    if result.evicted:
        await run_in_threadpool(daemon.store.eraser.erase_at_rest, model.id)
    if result.ids is not None:
        response.headers["Location"] = f"/v1/models/{model.name}/samples/{result.ids[0]}"
    return present.accepted(result)


async def _add_json(
    request: Request, daemon: Daemon, model: Model, *, split: Split | None, skip_bad: bool
) -> IngestResult:
    payload = await read_small(request, max_bytes=daemon.settings.max_json_bytes)
    return await run_in_threadpool(
        store_json, daemon.store, model, payload, split=split, skip_bad=skip_bad
    )


async def _add_npz(
    request: Request, daemon: Daemon, model: Model, *, split: Split | None, skip_bad: bool
) -> IngestResult:
    async with spooled(request, folder=daemon.store.tmp_dir) as path:
        return await run_in_threadpool(
            store_npz,
            daemon.store,
            model,
            path,
            split=split,
            skip_bad=skip_bad,
            max_bytes=daemon.settings.max_upload_bytes,
        )


async def _add_images(
    request: Request,
    daemon: Daemon,
    model: Model,
    given: str,
    *,
    about: dict[str, object],
    skip_bad: bool,
) -> IngestResult:
    require_images(model)
    folder, store = daemon.store.tmp_dir, daemon.store
    if given != FORM:
        async with spooled(request, folder=folder) as path:
            upload = ImageUpload("the image", given, 0, path.stat().st_size, about)
            return await run_in_threadpool(
                store_images, store, model, path, [upload], skip_bad=skip_bad
            )
    async with streamed_form(request, folder=folder) as form:
        if about["key"] is not None and len(form.files) > 1:
            raise _wrong("/query/key", 'one key cannot name many images; send the part "samples"')
        names = [part.filename or f"file {at}" for at, part in enumerate(form.files)]
        said = read_about(form.fields.get("samples"), names, defaults=about)
        uploads = [
            ImageUpload(name, part.media_type, part.offset, part.length, each)
            for name, part, each in zip(names, form.files, said, strict=True)
        ]
        return await run_in_threadpool(
            store_images, store, model, form.path, uploads, skip_bad=skip_bad
        )


def _label(model: Model, text: str | None) -> object:
    """A label from the query, as JSON would hold it. Raises InvalidInput."""
    if text is None or text in (model.signature.target.classes or ()):
        return text
    _, complaint = label_reader(model).parse_text(text)
    if complaint:
        raise _wrong("/query/label", complaint)
    return json.loads(text)


def _wrong(pointer: str, detail: str) -> InvalidInput:
    return InvalidInput("the request is wrong", problems=[Problem(pointer, detail)])
