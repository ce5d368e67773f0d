"""Ends rounds whose deadline has passed, or that are stopped."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress

from service.jobs.scheduler import Scheduler
from service.jobs.waiting import PAUSED_BY_PERSON
from service.logs import event
from storage.database.codec import utc_now
from storage.errors import HoneError, StateConflict
from storage.records.federation import Round
from storage.records.jobs import JobState
from storage.store import Store

logger = logging.getLogger(__name__)

LONGEST_WAIT_S = 30.0
"""Maximum time between two looks at the clock, which jumps ahead when the device has slept."""
RETRY_S = 5.0
BY_PEOPLE = frozenset({PAUSED_BY_PERSON, "paused", "snoozed"})
"""Conditions that block a job even if it ignores the policy."""


class Deadlines:
    """Ends the rounds whose time is up. Belongs to the event loop.

    A round that asked for the update so far gets it: a child that trains or waits in memory makes
    it itself; a job that the policy paused after some steps is resumed for it despite the policy,
    for about a second. All others are cancelled.
    """

    def __init__(self, store: Store, scheduler: Scheduler) -> None:
        self._store = store
        self._scheduler = scheduler
        self._changed = asyncio.Event()

    def look_again(self) -> None:
        """Take a new round into account."""
        self._changed.set()

    async def run(self) -> None:
        """Run until cancelled."""
        while True:
            self._changed.clear()
            wait_s = await self._pass()
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._changed.wait(), wait_s)

    async def stop_round(self, row: Round) -> None:
        """Cancel a round; if it has ended, remove its update. Raises NotFound."""
        try:
            await self._scheduler.cancel(row.job.id)
        except StateConflict:  # it has ended
            await asyncio.to_thread(self._store.rounds.drop_update, row.job.id)

    async def _pass(self) -> float | None:
        """End due rounds; returns seconds until the next look, None if no round is waiting."""
        left_s = []
        for due in await asyncio.to_thread(self._store.rounds.unfinished):
            if due.deadline is None:
                continue
            seconds = (due.deadline - utc_now()).total_seconds()
            if seconds <= 0:
                seconds = RETRY_S
                await self._end(due)
            left_s.append(min(seconds, LONGEST_WAIT_S))
        return min(left_s, default=None)

    async def _end(self, late: Round) -> None:
        job = late.job
        try:
            if late.terms["on_deadline"] == "update" and job.state is JobState.RUNNING:
                return  # the child obeys the deadline
            if late.terms["on_deadline"] == "update" and await self._may_conclude(late):
                await self._scheduler.resume(job.id, ignore_policy=True)
                return
            event(logger, logging.INFO, "round.late", job=job.id, model=job.model)
            await self._scheduler.cancel(job.id)
        except HoneError as error:  # it has ended meanwhile, or it is retried soon
            event(logger, logging.INFO, "round.not_ended", job=job.id, detail=error.detail)

    async def _may_conclude(self, late: Round) -> bool:
        """Whether there are steps to make an update from, and no person has paused the job."""
        by = {blocker.condition for blocker in self._scheduler.shown(late.job).blocked_by}
        if by & BY_PEOPLE or late.job.state is not JobState.PAUSED:
            return False
        last = await asyncio.to_thread(self._store.checkpoints.latest_of, late.job.id)
        return last is not None and last.step > 0
