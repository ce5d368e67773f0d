"""Samples: list, show, change, delete, count."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query, Response
from fastapi.concurrency import run_in_threadpool
from msgspec.structs import asdict

from api import present
from api.access.scopes import ThePrincipal, needs
from api.bodies.columns import OF_FILTERS, with_queries
from api.dependencies import (
    Cursor,
    Id,
    KnownModel,
    Limit,
    TheDaemon,
    TheModel,
    TheStore,
    after_id,
    page,
)
from api.openapi import BINARY
from api.routing import MASK_TYPE, LabelRoute
from api.schemas.base import Page
from api.schemas.samples import (
    DeletionBody,
    SampleBody,
    SamplePatch,
    SampleStatsBody,
    SplitName,
)
from service.access.principal import Principal, Scope
from service.daemon import Daemon
from service.errors import InvalidInput
from service.samples import updates as sample_updates
from storage.errors import NotFound
from storage.records.models import Model
from storage.records.samples import Split
from storage.samples.filter import SampleFilter

router = APIRouter(prefix="/v1/models/{name}/samples", tags=["samples"], route_class=LabelRoute)

OR_MASK = {"requestBody": {"content": {MASK_TYPE: BINARY}}}
Key = Annotated[str | None, Query(max_length=512, description="The app's own id.")]
Retrain = Annotated[
    bool,
    Query(description="Train again without it, then delete the versions that were trained on it."),
]


@with_queries(OF_FILTERS)
async def filter_of(
    model: KnownModel,
    label: Annotated[str | None, Query(description="Class index or name.")] = None,
    split: SplitName | None = None,
    unlabelled: bool | None = None,
    pinned: bool | None = None,
    quarantined: bool | None = None,
    key: Key = None,
    **columns: Any,
) -> SampleFilter:
    """The conditions of the query, all of which must hold."""
    return SampleFilter(
        label=None if label is None else sample_updates.class_index(model, label),
        split=None if split is None else Split(split),
        unlabelled=unlabelled,
        pinned=pinned,
        quarantined=quarantined,
        key=key,
        equal={name: value for name, value in columns.items() if value is not None},
    )


TheFilter = Annotated[SampleFilter, Depends(filter_of)]
PartOfText = Annotated[
    str | None,
    Query(min_length=1, max_length=256, description="Of texts: only those with it, in any case."),
]


@router.get("", summary="List samples")
@needs(Scope.SAMPLES_READ, "child_died")
async def list_samples(
    daemon: TheDaemon,
    model: KnownModel,
    where: TheFilter,
    order: Annotated[
        Literal["id", "uncertainty"],
        Query(description="`uncertainty`: those first that are most worth labelling."),
    ] = "id",
    suspect: Annotated[
        bool, Query(description="Only those whose label the current version takes for wrong.")
    ] = False,
    text: PartOfText = None,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> Page[SampleBody]:
    """Lists oldest first, without content.

    `?unlabelled=true&order=uncertainty`: by the entropy of what the current version makes of them.
    `?suspect=true`: labelled ones to whose label it gives a probability of a fifth or less, least
    probable first. `?text=`: a page may have fewer than there are, even none, and still a `next`.
    """
    if text is not None and not suspect and order == "id":
        return await _with_text(daemon, model, where, text, limit=limit, cursor=cursor)
    if suspect:
        alone = where.is_empty and text is None and order == "id"
        return await _suspects(daemon, model, alone=alone, limit=limit, cursor=cursor)
    if order == "id":
        rows = await run_in_threadpool(
            daemon.store.samples.list, model.id, where, limit=limit + 1, after=after_id(cursor) or 0
        )
        return page(rows, limit, show=lambda row: present.sample(row, model))
    if where != SampleFilter(unlabelled=True) or text is not None:
        detail = "uncertainty goes with unlabelled=true, and nothing else"
        raise InvalidInput.at("/query/order", detail, title="the order is wrong")
    start = after_id(cursor) or 0
    ranked, end = await daemon.ranking.ranked(model, limit=limit + 1, after=start)
    items = [present.sample(row.sample, model, uncertainty=row.doubt) for row in ranked[:limit]]
    return Page(items=items, next=str(end - 1) if len(ranked) > limit else None)


async def _with_text(
    daemon: Daemon, model: Model, where: SampleFilter, text: str, *, limit: int, cursor: str | None
) -> Page[SampleBody]:
    matches = sample_updates.text_filter(model, text)
    search, after = daemon.store.samples.search, after_id(cursor)
    rows, end = await run_in_threadpool(
        search, model.id, where, matches=matches, limit=limit, after=after
    )
    items = [present.sample(row, model) for row in rows]
    return Page(items=items, next=None if end is None else str(end))


async def _suspects(
    daemon: Daemon, model: Model, *, alone: bool, limit: int, cursor: str | None
) -> Page[SampleBody]:
    if not alone:
        detail = "suspect goes with no other condition and no order"
        raise InvalidInput.at("/query/suspect", detail, title="the filter is wrong")
    start = after_id(cursor) or 0
    ranked, end = await daemon.ranking.ranked(model, "labels", limit=limit + 1, after=start)
    items = [
        present.sample(row.sample, model, doubt=row.doubt, predicted=row.predicted)
        for row in ranked[:limit]
    ]
    return Page(items=items, next=str(end - 1) if len(ranked) > limit else None)


@router.patch("", summary="Relabel a sample by its key", openapi_extra=OR_MASK)
@needs(Scope.SAMPLES_WRITE, "child_died", "state_conflict")
def change_sample_by_key(
    key: Annotated[str, Query(max_length=512, description="The app's own id.")],
    patch: SamplePatch,
    model: TheModel,
    daemon: TheDaemon,
    principal: ThePrincipal,
) -> SampleBody:
    """Sets its label (null removes it), its split or its weight, or pins it. A PNG is a mask.

    A token without the scope `models:admin` changes only what it has added itself, and
    pins nothing.
    """
    sample = daemon.store.samples.by_key(model.id, key, owner=principal.owner)
    return _change(daemon, model, sample.id, patch, principal)


@router.delete("", summary="Delete samples by filter")
@needs(Scope.MODELS_ADMIN, "state_conflict")
async def delete_samples(
    daemon: TheDaemon,
    model: KnownModel,
    where: TheFilter,
    text: PartOfText = None,
    everything: Annotated[
        bool, Query(alias="all", description="Needed to delete without any condition.")
    ] = False,
    retrain: Retrain = False,
) -> DeletionBody:
    """Deletes all that match the conditions; their bytes are overwritten."""
    matches = None if text is None else sample_updates.text_filter(model, text)
    if where.is_empty and matches is None and not everything:
        detail = "give a condition, or all=true to delete every sample"
        raise InvalidInput.at("/query", detail, title="nothing says which samples")
    return present.deletion(await daemon.erasure.delete(model, where, matches, retrain=retrain))


@router.get("/stats", summary="Count samples")
@needs(Scope.SAMPLES_READ)
async def sample_stats(model: KnownModel, store: TheStore) -> SampleStatsBody:
    """By split, and by class for a model with classes."""
    totals = await run_in_threadpool(store.sample_stats.totals, model.id)
    return SampleStatsBody.of(
        totals, **asdict(totals.counts), labels=present.label_counts(model, totals.labels)
    )


@router.get("/{sample_id:digits}", summary="Show a sample")
@needs(Scope.SAMPLES_READ)
def show_sample(sample_id: Id, model: TheModel, store: TheStore) -> SampleBody:
    """Its label, split and size."""
    return present.sample(store.samples.get(model.id, sample_id), model)


@router.get(
    "/{sample_id:digits}/content",
    summary="Download a sample",
    response_class=Response,
    responses={200: {"content": {sample_updates.NPZ: {}, "image/*": {}, "audio/*": {}}}},
)
@needs(Scope.SAMPLES_READ, "damaged", audited="export")
def sample_content(sample_id: Id, model: TheModel, store: TheStore) -> Response:
    """Its inputs and label as npz, or the file, as it may be uploaded again."""
    data, media_type = sample_updates.content(store, model, sample_id)
    return Response(data, media_type=media_type)


@router.get(
    "/{sample_id:digits}/thumbnail",
    summary="Show a sample's picture",
    response_class=Response,
    responses={200: {"content": {"image/png": {}}}},
)
@needs(Scope.SAMPLES_READ, "child_died", "damaged", audited="export")
async def sample_thumbnail(
    sample_id: Id,
    model: TheModel,
    daemon: TheDaemon,
    size: Annotated[
        int, Query(ge=16, le=1024, description="Maximum number of pixels a side.")
    ] = 128,
) -> Response:
    """A small PNG, for samples that are images."""
    data = await daemon.thumbnails.make(model, sample_id, size=size)
    headers = {"Cache-Control": "private, max-age=86400"}
    return Response(data, media_type="image/png", headers=headers)


@router.get(
    "/{sample_id:digits}/mask",
    summary="Download a sample's mask",
    response_class=Response,
    responses={200: {"content": {MASK_TYPE: {}}}},
)
@needs(Scope.SAMPLES_READ, audited="export")
def sample_mask(sample_id: Id, model: TheModel, store: TheStore) -> Response:
    """The PNG of a label that is a mask: the value of a pixel is its class, 255 does not count."""
    return Response(sample_updates.mask(store, model, sample_id), media_type=MASK_TYPE)


@router.patch("/{sample_id:digits}", summary="Relabel a sample", openapi_extra=OR_MASK)
@needs(Scope.SAMPLES_WRITE, "child_died", "state_conflict")
def change_sample(
    sample_id: Id,
    patch: SamplePatch,
    model: TheModel,
    daemon: TheDaemon,
    principal: ThePrincipal,
) -> SampleBody:
    """Sets its label (null removes it), its split or its weight, or pins it. A PNG is a mask.

    A token without the scope `models:admin` changes only what it has added itself, and
    pins nothing.
    """
    return _change(daemon, model, sample_id, patch, principal)


@router.delete(
    "/{sample_id:digits}",
    status_code=204,
    summary="Delete a sample",
    response_model=None,
    responses={202: {"model": DeletionBody}},
)
@needs(Scope.MODELS_ADMIN)
async def delete_sample(
    sample_id: Id,
    model: TheModel,
    daemon: TheDaemon,
    response: Response,
    retrain: Retrain = False,
) -> Response | DeletionBody:
    """Its bytes are overwritten. With `?retrain=true` 202, and the job that trains anew."""
    if not retrain:
        await asyncio.to_thread(daemon.store.samples.delete, model.id, sample_id)
        return Response(status_code=204)
    deletion = await daemon.erasure.delete(model, SampleFilter(id=sample_id), retrain=True)
    if deletion.deleted == 0:
        raise NotFound(f"this model has no sample {sample_id}")
    response.status_code = 202
    if deletion.job is not None:
        response.headers["Location"] = f"/v1/jobs/{deletion.job.id}"
    return present.deletion(deletion)


def _change(
    daemon: Daemon, model: Model, sample_id: int, patch: SamplePatch, principal: Principal
) -> SampleBody:
    changes = patch.model_dump(exclude_unset=True)
    if "pinned" in changes:
        principal.require(Scope.MODELS_ADMIN, model.name)
    changed = sample_updates.change_sample(
        daemon.store, model, sample_id, changes, owner=principal.owner, masks=daemon.masks
    )
    return present.sample(changed, model)
