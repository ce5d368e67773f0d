"""Publication: what a job has trained, before the gate and into the store."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from service.jobs.recorder import Recorder
from service.jobs.tasks import evaluate_task
from service.models.promotion.conclusion import conclude
from service.models.promotion.policy import gate_policy
from service.training.protocol.messages.comparison import Comparison, Evaluate, Evaluated
from service.training.protocol.messages.endings import Failed
from service.training.protocol.messages.shared import Limits
from service.training.protocol.messages.training import Done
from storage.records.jobs import Job
from storage.records.models import FileRecord
from storage.store import Store

ON_NOTHING = Comparison(samples=0, class_counts=(), candidate={}, baseline={})
"""What comparing without a sample finds."""
MAX_COMPARISONS = 5
"""How often a model is compared anew because `latest` moved."""

Answer = Evaluated | Failed


class Publication:
    """Lets the gate decide on the model that a job has exported, and publishes it.

    ask: put a question to a child; None if it was stopped before it could answer.
    """

    def __init__(
        self,
        job: Job,
        store: Store,
        recorder: Recorder,
        *,
        limits: Callable[[], Awaitable[Limits]],
        ask: Callable[[Evaluate], Awaitable[Answer | None]],
    ) -> None:
        self._job = job
        self._store = store
        self._recorder = recorder
        self._limits = limits
        self._ask = ask

    async def conclude(self, done: Done) -> None:
        """Return when the version is published, or somebody wants the job to stop.

        The model is compared once more if a person moves `latest` meanwhile: then it was compared
        with another version.
        """
        candidate: Path | FileRecord = Path(done.path)
        for _ in range(MAX_COMPARISONS):
            answer, compared_with = await self._compare(candidate)
            if answer is None:
                return
            if isinstance(candidate, Path):
                candidate = await asyncio.to_thread(self._store.files.adopt, candidate)
            if await self._publish(done, candidate, answer, compared_with):
                return
        assert isinstance(candidate, FileRecord)
        moving = Failed("state_conflict", "latest was moved each time while it was compared")
        await self._publish(done, candidate, moving, None)

    async def _compare(self, candidate: Path | FileRecord) -> tuple[Answer | None, int]:
        """What the child finds, None if it was stopped, and the version that `latest` named."""
        path = (
            candidate if isinstance(candidate, Path) else self._store.files.path(candidate.sha256)
        )
        limits = await self._limits()
        order, compared_with = await asyncio.to_thread(
            evaluate_task, self._job, self._store, candidate=path, limits=limits
        )
        if not await asyncio.to_thread(self._can_measure, order):
            return Evaluated(ON_NOTHING), compared_with
        return await self._ask(order), compared_with

    def _can_measure(self, order: Evaluate) -> bool:
        """Whether there is any sample to compare on; else a second child would find out nothing."""
        counts = self._store.sample_stats.counts(self._job.model_id)
        return order.measurement.reference or counts.validation > 0

    async def _publish(
        self, done: Done, file: FileRecord, answer: Answer, compared_with: int | None
    ) -> bool:
        model = await asyncio.to_thread(self._store.models.get_by_id, self._job.model_id)
        conclusion = conclude(gate_policy(model), answer, compared_with=compared_with)
        return await asyncio.to_thread(self._recorder.succeeded, done, file, conclusion)
