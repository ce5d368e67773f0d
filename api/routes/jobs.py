"""Jobs: queue, list, show, cancel, pause, resume, loss curve."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.concurrency import run_in_threadpool

from api import present
from api.access.auditing import note_model
from api.access.scopes import ThePrincipal, needs
from api.dependencies import Cursor, Id, Limit, TheDaemon, TheModel, TheStore, after_id, page
from api.routing import Route
from api.schemas.base import Page
from api.schemas.jobs import (
    JobBody,
    JobLogBody,
    JobRequest,
    MetricPointBody,
    ResumeRequest,
    State,
)
from service.access.principal import Scope
from service.jobs import enqueue
from storage.tables.jobs import no_job

router = APIRouter(prefix="/v1", tags=["jobs"], route_class=Route)


async def seen_job(
    request: Request,
    job_id: Id,
    store: TheStore,
    principal: ThePrincipal,
) -> int:
    """The id in the path. Raises NotFound if its model is outside the token's restriction."""
    job = await asyncio.to_thread(store.jobs.get, job_id)
    if not principal.sees(job.model):
        raise no_job(job_id)
    note_model(request.scope, job.model)
    return job_id


JobId = Annotated[int, Depends(seen_job)]


@router.post("/models/{name}/jobs", status_code=202, summary="Train a model")
@needs(Scope.TRAIN, "busy", "no_samples", "state_conflict")
def ask_for_job(
    model: TheModel,
    store: TheStore,
    principal: ThePrincipal,
    response: Response,
    request: JobRequest | None = None,
) -> JobBody:
    """Queues a job on the samples stored now. Without a body, the model's defaults apply.

    `ignore_policy` needs the scope `device:policy` as well.
    """
    asked = request or JobRequest()
    if asked.ignore_policy:
        principal.require(Scope.DEVICE_POLICY)
    job = enqueue.enqueue(
        store,
        model,
        asked.model_dump(exclude={"from_", "ignore_policy", "priority"}),
        trigger="request",
        start=str(asked.from_),
        ignore_policy=asked.ignore_policy,
        priority=asked.priority,
    )
    response.headers["Location"] = f"/v1/jobs/{job.id}"
    return present.job(job)


@router.get("/jobs", summary="List jobs")
@needs(Scope.MODELS_READ, "not_found")
def list_jobs(
    store: TheStore,
    daemon: TheDaemon,
    principal: ThePrincipal,
    model: Annotated[str | None, Query(description="Jobs of this model only.")] = None,
    state: Annotated[list[State] | None, Query(description="Jobs in these states only.")] = None,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> Page[JobBody]:
    """Newest first; of a token that is bound to models, theirs."""
    if model is not None:
        principal.require(Scope.MODELS_READ, model)
    rows = store.jobs.list(
        model=model,
        models=principal.models,
        states=state,
        limit=limit + 1,
        after=after_id(cursor),
    )
    return page(rows, limit, show=lambda row: present.job(daemon.scheduler.shown(row)))


@router.get("/jobs/{job_id}", summary="Show a job")
@needs(Scope.MODELS_READ)
async def show_job(job_id: JobId, store: TheStore, daemon: TheDaemon) -> JobBody:
    """Its state, what it waits for, its progress and metrics."""
    job = await run_in_threadpool(store.jobs.get, job_id)
    return present.job(daemon.scheduler.shown(job))


@router.post("/jobs/{job_id}/cancel", summary="Cancel a job")
@needs(Scope.TRAIN, "state_conflict")
async def cancel_job(job_id: JobId, daemon: TheDaemon) -> JobBody:
    """Ends it without a version. A running job ends after its current step."""
    return present.job(await daemon.scheduler.cancel(job_id))


@router.post("/jobs/{job_id}/pause", summary="Pause a job")
@needs(Scope.TRAIN, "state_conflict")
async def pause_job(job_id: JobId, daemon: TheDaemon) -> JobBody:
    """Saves a checkpoint after the current step. A paused job is held until `resume`."""
    return present.job(await daemon.scheduler.pause(job_id))


@router.post("/jobs/{job_id}/resume", summary="Resume a job")
@needs(Scope.TRAIN, "state_conflict")
async def resume_job(
    job_id: JobId,
    daemon: TheDaemon,
    principal: ThePrincipal,
    request: ResumeRequest | None = None,
) -> JobBody:
    """Let a paused job go on, bit for bit as if it had never stopped. With `ignore_policy` it
    ignores the policy and runs now; so does a job that is queued, or waits in memory. That needs
    the scope `device:policy` as well.
    """
    asked = request or ResumeRequest()
    if asked.ignore_policy:
        principal.require(Scope.DEVICE_POLICY)
    return present.job(await daemon.scheduler.resume(job_id, ignore_policy=asked.ignore_policy))


@router.get("/jobs/{job_id}/log", summary="Show a job's last lines")
@needs(Scope.MODELS_READ)
def job_log(job_id: JobId, daemon: TheDaemon) -> JobLogBody:
    """What the job's children wrote last on stderr, and how each of them ended. Paths are cut to
    their ends; no sample, label or token is in it.
    """
    return JobLogBody.model_validate({"lines": daemon.scheduler.log(job_id)})


@router.get("/jobs/{job_id}/metrics", summary="Show a job's curves")
@needs(Scope.MODELS_READ)
def job_metrics(
    job_id: JobId, store: TheStore, limit: Limit = 1000, cursor: Cursor = None
) -> Page[MetricPointBody]:
    """Points by step: training loss and learning rate; validation metrics of each epoch."""
    job = store.jobs.get(job_id)
    rows = store.metrics.list(job.id, limit + 1, after_id(cursor))
    return page(rows, limit, cursor=lambda row: row.step, show=MetricPointBody.of)
