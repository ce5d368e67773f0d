"""Uploads of samples: JSON, npz, CSV, images, recordings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response

from api import present, threads
from api.access.scopes import ThePrincipal, needs
from api.bodies.columns import OF_UPLOADS, with_queries
from api.bodies.samples import (
    CSV,
    FILES,
    FORM,
    JSON,
    JSONL,
    NPZ,
    TEXT,
    TheModelWithRoom,
    add_csv,
    add_files,
    add_json,
    add_jsonl,
    add_npz,
    files_of,
    label_of,
)
from api.bodies.uploads import require_media_type
from api.dependencies import TheDaemon
from api.openapi import BINARY, body, closed
from api.routing import Route
from api.schemas.samples import OrdinarySplit, SamplesAccepted
from service.access.principal import Scope
from service.errors import InvalidInput
from service.samples.columns import ASKED
from service.samples.ingest.intake import UploadOptions
from service.samples.ingest.labels import SENT
from storage.errors import Problem
from storage.records.samples import Split

router = APIRouter(prefix="/v1/models/{name}/samples", tags=["samples"], route_class=Route)

SplitQuery = Annotated[
    OrdinarySplit | None,
    Query(description="For samples that name none; default: by the sample's id."),
]
OnError = Annotated[
    Literal["refuse", "skip"],
    Query(description="`refuse`: all or nothing. `skip`: keep the good ones, list the others."),
]
LabelQuery = Annotated[
    str | None,
    Query(max_length=4096, description="Of images and recordings: class name or number."),
]
KeyQuery = Annotated[
    str | None, Query(max_length=512, description="Of a file that is the body: the app's own id.")
]
LabelColumn = Annotated[
    str | None,
    Query(max_length=4096, description="Of CSV: the label's column, or several, with commas."),
]
IgnoreColumns = Annotated[
    str | None,
    Query(
        max_length=4096,
        description="Of CSV: columns to leave out, with commas; `*`: all that the model lacks.",
    ),
]
AllowDuplicates = Annotated[
    bool, Query(description="Store samples although the model has others with the same inputs.")
]
Queries = Mapping[str, object]
FEEDS = {JSON: add_json, JSONL: add_jsonl, NPZ: add_npz, CSV: add_csv}


COLUMNS = {column.name: column.schema for column in SENT}
ONE_SAMPLE = closed(
    "inputs", inputs={"type": "object", "description": "Nested lists by input name."}, **COLUMNS
)
ONE_TEXT = closed(
    "text",
    text={"type": "string", "description": "For a model of texts."},
    text_pair={"type": "string", "description": "The second text, for a model of pairs."},
    spans={"type": ["array", "null"], "description": "A label that is spans, in place of label."},
    **COLUMNS,
)
RECORDING = closed(
    "recording",
    recording={
        "type": "array",
        "items": {"type": "array"},
        "description": "Rows of numbers, for a model with preprocess of kind windows.",
    },
)
UPLOAD = body(
    {
        JSON: {
            "schema": {
                "oneOf": [
                    ONE_SAMPLE,
                    ONE_TEXT,
                    RECORDING,
                    {
                        "type": "object",
                        "required": ["samples"],
                        "properties": {
                            "samples": {
                                "type": "array",
                                "items": {"anyOf": [ONE_SAMPLE, ONE_TEXT]},
                            }
                        },
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
        JSONL: {"schema": {"type": "string"}, "example": '{"text": "on my way", "label": 0}\n'},
        NPZ: BINARY,
        CSV: {"schema": {"type": "string"}, "example": "width,height,label\n0.1,0.2,cat\n"},
        FORM: {
            "schema": {
                "type": "object",
                "properties": {
                    "file": {"type": "array", "items": BINARY["schema"]},
                    "mask": {
                        "type": "array",
                        "items": BINARY["schema"],
                        "description": "PNGs of the files' names but for the ending: their labels.",
                    },
                    "samples": {"type": "string", "description": "JSON, in the files' order."},
                },
            },
            "example": {"samples": '[{"label": "cat", "key": "IMG_1"}, {"key": "IMG_2"}]'},
        },
        **dict.fromkeys(FILES, BINARY),
        TEXT: {"schema": {"type": "string"}, "example": "on my way"},
    }
)


@router.post("", status_code=201, summary="Add samples", openapi_extra=UPLOAD)
@needs(Scope.SAMPLES_WRITE, "busy", "state_conflict", "storage_full", counted="uploads")
@with_queries(OF_UPLOADS, before="allow_duplicates")
async def add_samples(
    request: Request,
    response: Response,
    daemon: TheDaemon,
    principal: ThePrincipal,
    model: TheModelWithRoom,
    split: SplitQuery = None,
    on_error: OnError = "refuse",
    label: LabelQuery = None,
    key: KeyQuery = None,
    label_column: LabelColumn = None,
    ignore_columns: IgnoreColumns = None,
    allow_duplicates: AllowDuplicates = False,
    **columns: Any,
) -> SamplesAccepted:
    """All or nothing. A key that is there already is a duplicate, not an error; so are inputs that
    are there with the same label, or without one, unless the model keeps duplicates.

    JSON: one sample, or a list. JSON Lines: one a line. npz: one array per input, batch first,
    and `label`, optionally `key` and `weight`. CSV: a header line, then one sample a line. Files,
    if `preprocess` takes them: one as the body, or a form's, whose part `samples` says the same,
    and whose parts `mask` are the labels of photos.
    """
    media_type = require_media_type(request, JSON, NPZ, CSV, FORM, *files_of(model), JSONL)
    in_csv = {"label": label_column, **{name: columns[f"{name}_column"] for name in ASKED}}
    about = {"label": label_of(model, label), "key": key}
    _require_apt(media_type, about, in_csv, ignored=ignore_columns)
    options = UploadOptions(
        {"split": Split(split) if split else None, **{name: columns[name] for name in ASKED}},
        skip_bad=on_error == "skip",
        allow_duplicates=allow_duplicates,
        csv_columns={name: column for name, column in in_csv.items() if column is not None},
        ignore_columns=ignore_columns,
        owner=principal.owner,
        masks=daemon.masks,
    )
    if media_type in FEEDS:
        result = await FEEDS[media_type](request, daemon, model, options)
    else:
        result = await add_files(request, daemon, model, media_type, options, about=about)
    if result.evicted:
        await threads.upload(request, daemon.store.eraser.erase_at_rest, model.id)
    if result.ids is not None:
        response.headers["Location"] = f"/v1/models/{model.name}/samples/{result.ids[0]}"
    return present.accepted(result, principal)


def _require_apt(kind: str, about: Queries, in_csv: Queries, *, ignored: str | None) -> None:
    """Raises InvalidInput for parameters that a body of this media type makes nothing of.

    about: of a file. in_csv: names of columns. ignored: those to leave out.
    """
    columns = {"ignore_columns": ignored, **{f"{name}_column": in_csv[name] for name in in_csv}}
    wrong: dict[str, str] = {}
    if kind in FEEDS:
        told = f"is for files; in {kind} each sample has its own"
        wrong |= {name: told for name, value in about.items() if value is not None}
    if kind != CSV:
        wrong |= {name: f"is for {CSV}, not for {kind}" for name in columns if columns[name]}
    if wrong:
        problems = [Problem(f"/query/{name}", detail) for name, detail in wrong.items()]
        raise InvalidInput("the query does not fit the body", problems=problems)
