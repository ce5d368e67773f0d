"""Watches whether recent inputs are still like those that `latest` was trained on."""

from __future__ import annotations

import asyncio
import logging

from msgspec import Struct

from service.jobs.short_tasks import AnswerCache, ShortTasks
from service.jobs.tasks import drift_task
from service.logs import event
from service.policy.device_monitor import DeviceMonitor
from service.samples.ingest.csv_header import feature_name
from service.training.protocol.messages.comparison import Drifted, FeatureDrift
from storage.errors import HoneError
from storage.records.models import Model
from storage.records.versions import Version
from storage.store import Store

logger = logging.getLogger(__name__)

EVENT = "model.drifted"
MODELS_CHECKED = 1000
NEWS = 30
"""New samples that the hourly check requires: each comparison takes a child process."""


class DriftReport(Struct, frozen=True):
    """Drift since a version. newest: the id of the last sample. found: None if no job made the
    version, so that its training samples are unknown."""

    version: int
    newest: int
    found: Drifted | None

    @property
    def has_drifted(self) -> bool:
        """Whether any feature has drifted."""
        return self.found is not None and self.found.drifted > 0

    def name_of(self, feature: FeatureDrift, model: Model) -> str | None:
        """The figure of each sample, or the CSV column; None if nobody named it."""
        return feature.figure or feature_name(model, feature.input, feature.feature)


class DriftWatch:
    """Compares on demand, and once an hour if there are enough new samples and the device is idle.

    A report is cached until a newer version or sample exists. Belongs to the event loop.
    """

    def __init__(self, store: Store, short_tasks: ShortTasks, monitor: DeviceMonitor) -> None:
        self._store = store
        self._short_tasks = short_tasks
        self._monitor = monitor
        self._reports = AnswerCache[int, DriftReport](MODELS_CHECKED)

    async def report(self, model: Model) -> DriftReport:
        """Raises ChildDied, NotFound."""
        version = await asyncio.to_thread(self._store.integrity.latest, model.id)
        newest = await asyncio.to_thread(self._store.samples.newest_id, model.id)

        async def compare() -> DriftReport:
            before = self._reports.newest(model.id)
            drifted = await self._compare(version)
            report = DriftReport(version.version, newest, drifted)
            await asyncio.to_thread(self._tell_of_crossing, model, report, before)
            return report

        return await self._reports.get(model.id, (version.version, newest), compare)

    async def check_all(self) -> None:
        """Check every model with new samples, while the policy would let a job train."""
        for model in await asyncio.to_thread(self._store.models.list, MODELS_CHECKED):
            if not (await self._monitor.observe()).verdict.eligible:
                return
            try:
                if await asyncio.to_thread(self._has_news, model):
                    await self.report(model)
            except HoneError as error:
                event(
                    logger, logging.WARNING, "drift.failed", model=model.name, detail=error.detail
                )

    def _has_news(self, model: Model) -> bool:
        """Whether there are new samples since the job of `latest` and since the last comparison."""
        version = self._store.integrity.latest(model.id)
        if version.job_id is None:
            return False
        seen = self._store.jobs.get(version.job_id).watermark
        before = self._reports.newest(model.id)
        if before is not None and before.version == version.version:
            seen = max(seen, before.newest)
        return len(self._store.samples.list(model.id, limit=NEWS, after=seen)) == NEWS

    async def _compare(self, version: Version) -> Drifted | None:
        if version.job_id is None:
            return None
        task = await asyncio.to_thread(drift_task, version, self._store)
        failure = "the samples cannot be compared"
        return await self._short_tasks.ask(task, Drifted, failure=failure)

    def _tell_of_crossing(
        self, model: Model, report: DriftReport, before: DriftReport | None
    ) -> None:
        """Emit an event when drift begins; after a restart, the last event counts as emitted."""
        if not report.has_drifted:
            return
        if before is not None and before.version == report.version:
            is_known = before.has_drifted
        else:
            last = self._store.events.last(EVENT, model.name)
            is_known = last is not None and last.data.get("version") == report.version
        if not is_known:
            assert report.found is not None
            worst = report.found.features[0]
            data = {
                "version": report.version,
                "input": worst.input,
                "feature": worst.feature,
                "psi": round(worst.psi, 4),
                "features": report.found.drifted,
            }
            self._store.events.append(EVENT, model.name, data)
