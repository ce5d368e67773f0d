"""Jobs: queue, list, show, cancel, pause, resume, loss curve."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query, Response

from api import present
from api.dependencies import Cursor, Limit, TheDaemon, TheModel, TheStore, after_id, page
from api.openapi import answers
from api.routing import Route
from api.schemas import JobBody, JobRequest, MetricPointBody, Page, ResumeRequest, State
from service.jobs import enqueue
from storage.records.jobs import JobState

router = APIRouter(prefix="/v1", tags=["jobs"], route_class=Route)

JobId = Annotated[int, Path(ge=1, lt=2**63)]
MOVES = answers("not_found", "state_conflict")


@router.post(
    "/models/{name}/jobs",
    status_code=202,
    summary="Train a model",
    responses=answers("busy", "no_samples", "not_found"),
)
def ask_for_job(
    model: TheModel, store: TheStore, response: Response, request: JobRequest | None = None
) -> JobBody:
    """Queues a job on the samples stored now. Without a body, the model's defaults apply."""
    asked = request or JobRequest()
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


@router.get("/jobs", summary="List jobs", responses=answers("not_found"))
def list_jobs(
    store: TheStore,
    daemon: TheDaemon,
    model: Annotated[str | None, Query(description="Jobs of this model only.")] = None,
    state: Annotated[State | None, Query(description="Jobs in this state only.")] = None,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> Page[JobBody]:
    """Newest first."""
    rows = store.jobs.list(
        model=model,
        state=JobState(state) if state else None,
        limit=limit + 1,
        after=after_id(cursor),
    )
    return page(
        rows,
        limit,
        cursor=lambda row: row.id,
        show=lambda row: present.job(daemon.scheduler.shown(row)),
    )


@router.get("/jobs/{job_id}", summary="Show a job", responses=answers("not_found"))
def show_job(job_id: JobId, store: TheStore, daemon: TheDaemon) -> JobBody:
    """Its state, what it waits for, its progress and metrics."""
    return present.job(daemon.scheduler.shown(store.jobs.get(job_id)))


@router.post("/jobs/{job_id}/cancel", summary="Cancel a job", responses=MOVES)
async def cancel_job(job_id: JobId, daemon: TheDaemon) -> JobBody:
    """Ends it without a version. A running job ends after its current step."""
    return present.job(await daemon.scheduler.cancel(job_id))


@router.post("/jobs/{job_id}/pause", summary="Pause a job", responses=MOVES)
async def pause_job(job_id: JobId, daemon: TheDaemon) -> JobBody:
    """Saves a checkpoint after the current step. A paused job is held until `resume`."""
    return present.job(await daemon.scheduler.pause(job_id))


@router.post("/jobs/{job_id}/resume", summary="Resume a job", responses=MOVES)
async def resume_job(
    job_id: JobId, daemon: TheDaemon, request: ResumeRequest | None = None
) -> JobBody:
    """Let a paused job go on, bit for bit as if it had never stopped. With `ignore_policy` it runs
    now, in spite of the policy; so does a job that is queued, or waits in memory.
    """
    asked = request or ResumeRequest()
    return present.job(await daemon.scheduler.resume(job_id, ignore_policy=asked.ignore_policy))


@router.get(
    "/jobs/{job_id}/metrics",
    summary="Show a job's curves",
    responses=answers("not_found"),
)
def job_metrics(
    job_id: JobId, store: TheStore, limit: Limit = 1000, cursor: Cursor = None
) -> Page[MetricPointBody]:
    """Points by step: training loss and learning rate; validation metrics of each epoch."""
    job = store.jobs.get(job_id)
    rows = store.metrics.list(job.id, limit + 1, after_id(cursor))
    return page(
        rows,
        limit,
        cursor=lambda row: row.step,
        show=lambda row: MetricPointBody(step=row.step, epoch=row.epoch, values=row.values),
    )
