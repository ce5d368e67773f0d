"""Measures received parameters on the device's own validation samples, in a child."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from service.errors import InvalidInput
from service.federation.parameters import check_parameters
from service.jobs.short_tasks import ShortTasks
from service.jobs.training_tasks import start_from, training_task
from service.models.hyperparameters import merge
from service.preprocess.fitting import learn_preprocess
from service.settings import Settings
from service.training.errors import LossNotFinite, NoSamples
from service.training.protocol.messages.training import Train, Validated
from storage.records.models import Model
from storage.store import Store

EVERY_SAMPLE = 2**63 - 1


class Measuring:
    """One measurement at a time. Belongs to the event loop."""

    def __init__(self, store: Store, settings: Settings, short_tasks: ShortTasks) -> None:
        self._store = store
        self._settings = settings
        self._short_tasks = short_tasks
        self._one_at_a_time = asyncio.Lock()

    async def measure(self, model: Model, path: Path) -> dict[str, Any]:
        """Metrics of the parameters at path, empty without validation samples.

        Raises InvalidInput, NoSamples, ChildDied.
        """
        await asyncio.to_thread(check_parameters, model, self._store, path)
        async with self._one_at_a_time, self._short_tasks.folder("measure") as work_dir:
            task = await asyncio.to_thread(self._task, model, path, work_dir)
            failure, refusals = "the parameters cannot be measured", (NoSamples, LossNotFinite)
            try:
                answer = await self._short_tasks.ask(
                    task, Validated, failure=failure, refusals=refusals
                )
            except LossNotFinite as error:
                raise InvalidInput(error.detail) from error
        return answer.validation

    def _task(self, model: Model, path: Path, work_dir: Path) -> Train:
        """The task of a job that takes no steps."""
        task = training_task(
            learn_preprocess(self._store, model, watermark=EVERY_SAMPLE),
            self._store,
            self._settings,
            hyperparameters={**merge(model, {"epochs": 1}, seed=0), "replay": 0.0},
            watermark=EVERY_SAMPLE,
            start=start_from("latest", model, self._store),
            work_dir=work_dir,
        )
        return replace(task, only_measures=True, start=replace(task.start, given=str(path)))
