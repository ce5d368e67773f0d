"""Samples: upload as JSON or npz, list, show, change, delete, count."""

from __future__ import annotations

import asyncio
from typing import Annotated, Literal

from fastapi import APIRouter, Path, Query, Request, Response
from fastapi.concurrency import run_in_threadpool

from api import present
from api.dependencies import Cursor, Limit, TheDaemon, TheModel, TheStore, after_id, page
from api.openapi import answers, body
from api.schemas import (
    LabelCount,
    Page,
    SampleBody,
    SamplePatch,
    SamplesAccepted,
    SampleStats,
    SplitName,
)
from api.uploads import read_small, require_media_type, spooled
from service import curation
from service.ingest.json_upload import store_json
from service.ingest.npz_upload import store_npz
from service.ingest.result import IngestResult
from storage.records import Model, Split

router = APIRouter(prefix="/v1/models/{name}/samples", tags=["samples"])

JSON, NPZ = "application/json", "application/x-npz"
SplitQuery = Annotated[
    SplitName | None, Query(description="For samples that name none; default: by the sample's id.")
]
OnError = Annotated[
    Literal["refuse", "skip"],
    Query(description="`refuse`: all or nothing. `skip`: keep the good ones, list the others."),
]
SampleId = Annotated[int, Path(ge=1, lt=2**63)]
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
        NPZ: {"schema": {"type": "string", "format": "binary"}},
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
) -> SamplesAccepted:
    """All or nothing. A key that is there already is a duplicate, not an error.

    JSON: one sample, or a list of them. npz: one array per input, batch first, and `label`,
    optionally `key`; an upload of any size takes the same memory.
    """
    given = require_media_type(request, JSON, NPZ)
    chosen, skip_bad = Split(split) if split else None, on_error == "skip"
    if given == JSON:
        result = await _add_json(request, daemon, model, split=chosen, skip_bad=skip_bad)
    else:
        result = await _add_npz(request, daemon, model, split=chosen, skip_bad=skip_bad)
    if result.ids is not None:
        response.headers["Location"] = f"/v1/models/{model.name}/samples/{result.ids[0]}"
    return present.accepted(result)


@router.get("", summary="List samples", responses=answers("not_found"))
def list_samples(
    model: TheModel,
    store: TheStore,
    label: Annotated[str | None, Query(description="Class index or name.")] = None,
    split: SplitName | None = None,
    unlabelled: bool | None = None,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> Page[SampleBody]:
    """Oldest first, without their tensors."""
    rows = store.samples.list(
        model.id,
        label=curation.class_index(model, label) if label is not None else None,
        split=Split(split) if split else None,
        unlabelled=unlabelled,
        limit=limit + 1,
        after=after_id(cursor),
    )
    return page(rows, limit, cursor=lambda row: row.id, show=lambda row: present.sample(row, model))


@router.get("/stats", summary="Count samples", responses=answers("not_found"))
def sample_stats(model: TheModel, store: TheStore) -> SampleStats:
    """By split, and by class for a model with classes."""
    classes = model.signature.target.classes
    labels = [
        LabelCount(
            split=split.value,
            label=label,
            name=classes[label] if classes is not None and label is not None else None,
            count=count,
        )
        for split, label, count in store.samples.label_counts(model.id)
    ]
    counts = model.samples
    return SampleStats(
        train=counts.train,
        validation=counts.validation,
        unlabelled=counts.unlabelled,
        labels=labels,
    )


@router.get("/{sample_id}", summary="Show a sample", responses=answers("not_found"))
def show_sample(sample_id: SampleId, model: TheModel, store: TheStore) -> SampleBody:
    """Its label, split and size."""
    return present.sample(store.samples.get(model.id, sample_id), model)


@router.get(
    "/{sample_id}/content",
    summary="Download a sample",
    response_class=Response,
    responses={200: {"content": {NPZ: {}}}, **answers("not_found")},
)
def sample_content(sample_id: SampleId, model: TheModel, store: TheStore) -> Response:
    """Its inputs and label as npz, as it may be uploaded again."""
    return Response(curation.content(store, model, sample_id), media_type=NPZ)


@router.patch("/{sample_id}", summary="Relabel a sample", responses=answers("not_found"))
def change_sample(
    sample_id: SampleId, patch: SamplePatch, model: TheModel, store: TheStore
) -> SampleBody:
    """Set its label (null takes it away) or its split."""
    changes = patch.model_dump(exclude_unset=True)
    return present.sample(curation.change_sample(store, model, sample_id, changes), model)


@router.delete(
    "/{sample_id}", status_code=204, summary="Delete a sample", responses=answers("not_found")
)
async def delete_sample(sample_id: SampleId, model: TheModel, store: TheStore) -> None:
    """Its bytes are overwritten."""
    await asyncio.to_thread(store.samples.delete, model.id, sample_id)


async def _add_json(
    request: Request, daemon: TheDaemon, model: Model, *, split: Split | None, skip_bad: bool
) -> IngestResult:
    payload = await read_small(request, max_bytes=daemon.settings.max_json_bytes)
    return await run_in_threadpool(
        store_json, daemon.store, model, payload, split=split, skip_bad=skip_bad
    )


async def _add_npz(
    request: Request, daemon: TheDaemon, model: Model, *, split: Split | None, skip_bad: bool
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
