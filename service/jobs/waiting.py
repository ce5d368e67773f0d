"""Waiting jobs: what blocks each, and which runs first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timezone

from service.jobs.run import JobRun
from storage.records.jobs import Blocker, Job, JobState

PAUSED_BY_PERSON = "paused_by_person"
ANOTHER_JOB = "another_job"
UPGRADE = "upgrade"
"""What triggers the jobs of an upgrade to a new base."""
BY_PERSON = Blocker(PAUSED_BY_PERSON, "paused by a person, until it is resumed")
DAEMON_STOPPED = Blocker(
    "daemon_stopped", "the daemon was stopped; the job resumes when it is started again"
)
DAEMON_KILLED = Blocker("daemon_stopped", "the daemon ended during the job; the job resumes soon")
WAITING = frozenset({JobState.QUEUED, JobState.PAUSED})


NEVER = datetime.min.replace(tzinfo=timezone.utc)


def blockers_of(
    job: Job, run: JobRun | None, by_device: tuple[Blocker, ...]
) -> tuple[Blocker, ...]:
    """Everything that blocks a job now; empty for a job that trains or has ended.

    run: the current run. by_device: blockers of this job in the newest reading of the device.
    """
    if run is not None and run.job.id == job.id and job.state is JobState.RUNNING:
        return by_device if run.is_held else ()
    if job.state not in WAITING:
        return ()
    by_person = tuple(reason for reason in job.blocked_by if reason.condition == PAUSED_BY_PERSON)
    if by_person:
        return by_person
    if run is None or run.job.id == job.id:
        return by_device
    return (_by(run), *by_device)


def behind_older(waiting: Iterable[Job]) -> dict[int, Blocker]:
    """By job of an upgrade: the paused job of the old base that ends first."""
    paused = {job.model_id: job for job in waiting if job.state is JobState.PAUSED}
    blockers = {}
    for job in waiting:
        older = paused.get(job.model_id)
        if job.trigger == UPGRADE and older is not None and job.base not in (None, older.base):
            detail = f"job {older.id} of the old base is paused; it ends first, or is cancelled"
            blockers[job.id] = Blocker(ANOTHER_JOB, detail)
    return blockers


def conditions_of(blockers: tuple[Blocker, ...]) -> list[str]:
    """The names of the blockers' conditions: they change less often than the details."""
    return [blocker.condition for blocker in blockers]


def _by(run: JobRun) -> Blocker:
    does = "is held in memory" if run.is_held else "is training"
    return Blocker(ANOTHER_JOB, f"job {run.job.id} of model {run.job.model!r} {does}")


def in_turn(waiting: Iterable[Job], last_starts: Mapping[int, datetime]) -> list[Job]:
    """The jobs in the order in which they should run.

    By priority; then started jobs before new ones, so that half-trained jobs do not pile up; then
    by how long ago a job of the same model last started, so that another model's long queue starves
    none; then the oldest. last_starts: model id → when a job of it last started.
    """

    def key(job: Job) -> tuple[int, bool, datetime, int]:
        return (
            -job.priority,
            job.started_at is None,
            last_starts.get(job.model_id, NEVER),
            job.id,
        )

    return sorted(waiting, key=key)
