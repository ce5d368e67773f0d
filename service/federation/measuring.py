"""Measures received parameters on the device's own validation samples, in a child."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from service.errors import ChildDied, InvalidInput
from service.federation.parameters import check_parameters
from service.jobs.child import Child
from service.jobs.enqueue import merge
from service.jobs.tasks import short_task_limits, train_task
from service.processes.children import Children
from service.settings import Settings
from service.training.errors import LossNotFinite, NoSamples
from service.training.protocol.messages.shared import Failed
from service.training.protocol.messages.training import Train, Validated
from storage.database.codec import utc_now
from storage.records.jobs import Job, JobState
from storage.records.models import Model
from storage.store import Store

EVERY_SAMPLE = 2**63 - 1
NOT_FINITE = (
    "the parameters cannot be measured: the model's loss with them is not finite; send some that"
    " were trained, most likely smaller ones"
)


class Measuring:
    """One measurement at a time. Belongs to the event loop."""

    def __init__(self, store: Store, settings: Settings, children: Children) -> None:
        self._store = store
        self._settings = settings
        self._children = children
        self._one_at_a_time = asyncio.Lock()

    async def measure(self, model: Model, path: Path) -> dict[str, Any]:
        """Metrics of the parameters at path, empty without validation samples.

        Raises InvalidInput, NoSamples, ChildDied.
        """
        await asyncio.to_thread(check_parameters, model, self._store, path)
        async with self._one_at_a_time:
            work_dir = Path(tempfile.mkdtemp(prefix="measure-", dir=self._store.tmp_dir))
            try:
                task = await asyncio.to_thread(self._task, model, path, work_dir)
                return await self._ask(task)
            finally:
                await asyncio.to_thread(shutil.rmtree, work_dir)

    def _task(self, model: Model, path: Path, work_dir: Path) -> Train:
        """The task of a job that is never queued and takes no steps."""
        job = Job(
            id=0,
            model_id=model.id,
            model=model.name,
            state=JobState.RUNNING,
            trigger="request",
            hyperparameters={**merge(model, {"epochs": 1}, seed=0), "replay": 0.0},
            start="latest",
            ignore_policy=True,
            watermark=EVERY_SAMPLE,
            created_at=utc_now(),
        )
        limits = short_task_limits(self._settings)
        task = train_task(job, self._store, self._settings, limits=limits, work_dir=work_dir)
        return replace(task, only_measures=True, start=replace(task.start, given=str(path)))

    async def _ask(self, task: Train) -> dict[str, Any]:
        child = await Child.spawn(self._children, task)
        try:
            silence_s = self._settings.heartbeat_timeout_s
            async for message in child.messages(silence_timeout_s=silence_s):
                if isinstance(message, Validated):
                    return message.validation
                if isinstance(message, Failed):
                    if message.code == NoSamples.code:
                        raise NoSamples(message.detail)
                    if message.code == LossNotFinite.code:
                        raise InvalidInput(NOT_FINITE)
                    raise ChildDied(f"the parameters cannot be measured: {message.detail}")
        finally:
            await child.close()
        raise ChildDied("the parameters cannot be measured: the child gave no answer")
