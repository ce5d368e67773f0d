"""Whose turn it is, of the jobs that wait."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timezone

from storage.records.jobs import Job

NEVER = datetime.min.replace(tzinfo=timezone.utc)


def in_turn(waiting: Iterable[Job], last_starts: Mapping[int, datetime]) -> list[Job]:
    """The jobs, the one that should run first in front.

    By priority; then what has begun before what has not, so that no half-trained jobs pile up; then
    the model that has waited longest since a job of it began, so that none is starved by another's
    long queue; then the oldest. last_starts: model id → when a job of it last began.
    """

    def key(job: Job) -> tuple[int, bool, datetime, int]:
        return (
            -job.priority,
            job.started_at is None,
            last_starts.get(job.model_id, NEVER),
            job.id,
        )

    return sorted(waiting, key=key)
