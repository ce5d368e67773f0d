"""Upgrades: a new base is prepared and trained beside the old one, and serves once it is better.

An upgrade's jobs train like any other: from the new file's weights, on the device's samples, when
the policy allows. The gate compares what they make with `latest`; if it lets `latest` move, the
model's base changes with it. If not, the upgrade waits for more samples.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from service.background import BackgroundTasks
from service.events import Feed
from service.federation.consent import consent_of
from service.jobs.enqueue import new_job
from service.jobs.scheduler import Scheduler
from service.jobs.short_tasks import ShortTasks
from service.jobs.waiting import UPGRADE
from service.logs import event
from service.models.prepared import MADE_OF, shapes_digest, tokenizer_of
from service.models.registry import Registry, with_files
from service.training.protocol.messages.preparation import Prepared
from storage.database.transaction import Happening
from storage.errors import HoneError, NotFound, StateConflict, in_full
from storage.records.jobs import Job, JobState, NewJob
from storage.records.models import Base, Model, NewModel
from storage.store import Store

if TYPE_CHECKING:
    from service.models.upgrade.spec import UpgradeSpec

logger = logging.getLogger(__name__)

UNDER_WAY = (JobState.RUNNING, JobState.PAUSED)
UNFINISHED = (JobState.QUEUED, *UNDER_WAY)
MORE_SAMPLES = 1.25
"""An upgrade is tried again with this times the labelled samples of its last job."""
FEWEST_MORE = 10
"""And at least as many more."""
MOST_UNFINISHED = 1000


class Upgrade(Struct, frozen=True):
    """An upgrade that is not decided. job: its newest one. retry_at: the number of labelled samples
    with which it is tried again, None while a job of it is unfinished.
    """

    base: Base
    job: Job
    retry_at: int | None

    @property
    def state(self) -> str:
        """`queued`, `running` or `paused`, as its job is, or `waiting`."""
        return self.job.state.value if self.retry_at is None else "waiting"

    @property
    def reason(self) -> str:
        """What its job waits for, or why the old base still serves."""
        job = self.job
        if self.retry_at is None:
            waits = "; ".join(blocker.detail for blocker in job.blocked_by)
            return waits or f"job {job.id} is {job.state.value}"
        if job.error is not None:
            return f"job {job.id} has failed: {job.error.get('detail', '')}"
        said = job.metrics.get("reason", "")
        return said if job.state is JobState.SUCCEEDED else f"job {job.id} was {job.state.value}"


class Ready(Struct, frozen=True):
    """A new base that fits, and its first job; new: without files."""

    prepared: Prepared
    new: NewModel
    job: NewJob


class Upgrades:
    """Begins upgrades, and tries them again. Belongs to the event loop."""

    def __init__(
        self,
        store: Store,
        short_tasks: ShortTasks,
        registry: Registry,
        *,
        scheduler: Scheduler,
        feed: Feed,
    ) -> None:
        self._store = store
        self._short_tasks = short_tasks
        self._registry = registry
        self._scheduler = scheduler
        self._tasks = BackgroundTasks()
        self._one_at_a_time = asyncio.Lock()
        self._waiting: frozenset[str] | None = None
        feed.listen(self._on_event)

    async def check(
        self, model: Model, spec: UpgradeSpec, source: Path, *, tokenizer: Path | None = None
    ) -> tuple[NewModel, bool]:
        """The model on the new base, and whether consent to federated training would end with it.

        Stores nothing. Raises as `begin` does.
        """
        async with self._short_tasks.folder("upgrade") as work_dir:
            ready = await self._prepare(model, spec, source, tokenizer=tokenizer, work_dir=work_dir)
            other_shapes = model.shapes != ready.new.shapes
            return ready.new, consent_of(model).allowed and other_shapes

    async def begin(
        self, model: Model, spec: UpgradeSpec, source: Path, *, tokenizer: Path | None = None
    ) -> Job:
        """Prepare a forward ONNX file as a new base, and queue the job that trains it.

        tokenizer: of a model of texts, None to keep the present one.
        An upgrade that waits is dropped for it. Raises GraphRefused with every cause,
        InvalidInput with everything that does not fit, NoSamples, PreparationFailed, InUse if an
        alias names a version of the upgrade that waits, StateConflict if the model's classes were
        changed meanwhile, StorageFull; then nothing has changed but jobs that were to be cancelled.
        """
        async with self._short_tasks.folder("upgrade") as work_dir:
            ready = await self._prepare(model, spec, source, tokenizer=tokenizer, work_dir=work_dir)
            async with self._one_at_a_time:
                await self._stop_jobs(model, every=spec.running == "cancel")
                job = await asyncio.to_thread(self._store_base, ready, spec, work_dir / MADE_OF)
        event(logger, logging.INFO, "upgrade.begun", model=model.name, base=job.base, job=job.id)
        return job

    async def drop(self, model: Model) -> None:
        """Drop the upgrade that waits; its job is cancelled. Raises NotFound, InUse."""
        async with self._one_at_a_time:
            await self._stop_jobs(model, every=False)
            await asyncio.to_thread(self._store.bases.drop, model.id)

    def of(self, model: Model) -> Upgrade | None:
        """The upgrade of a model that is not decided, if there is one. Blocking."""
        waiting = [base for base in self._store.bases.list(model.id) if base.adopted_at is None]
        return self._seen(waiting[0]) if waiting else None

    def try_again(self) -> None:
        """Queue a job for each upgrade for which there are enough more samples. Blocking."""
        waiting = self._store.bases.waiting()
        self._waiting = frozenset(waiting)
        for name, (model_id, base) in waiting.items():
            try:
                self._try_again(model_id, base)
            except HoneError as error:
                event(logger, logging.WARNING, "upgrade.waits", model=name, why=in_full(error))

    async def stop(self) -> None:
        """Wait for what is under way."""
        await self._tasks.wait()

    def _try_again(self, model_id: int, base: int) -> None:
        model = self._store.models.get_by_id(model_id, base=base)
        upgrade = self.of(model)
        if upgrade is None or upgrade.retry_at is None:
            return
        if model.samples.train + model.samples.validation < upgrade.retry_at:
            return
        job = new_job(
            self._store, model, upgrade.base.request, trigger=UPGRADE, start="base", base=base
        )
        queued = self._store.bases.try_again(job)
        event(logger, logging.INFO, "upgrade.tried_again", model=model.name, job=queued.id)

    def _seen(self, base: Base) -> Upgrade:
        assert base.job_id is not None
        job = self._scheduler.shown(self._store.jobs.get(base.job_id))
        more = max(int(base.labelled * MORE_SAMPLES), base.labelled + FEWEST_MORE)
        return Upgrade(base, job, None if job.state in UNFINISHED else more)

    async def _prepare(
        self,
        model: Model,
        spec: UpgradeSpec,
        source: Path,
        *,
        tokenizer: Path | None,
        work_dir: Path,
    ) -> Ready:
        # Late: few devices ever get an upgrade.
        from service.models.upgrade.fit import upgrade_task

        if tokenizer is None:
            kept = await asyncio.to_thread(tokenizer_of, model, self._store)
            tokenizer = None if kept is None else Path(kept)
        task = upgrade_task(model, spec, source, work_dir=work_dir, tokenizer=tokenizer)
        prepared = await self._registry.prepare_once(task)
        return await asyncio.to_thread(self._ready, model, spec, prepared)

    def _ready(self, model: Model, spec: UpgradeSpec, prepared: Prepared) -> Ready:
        from service.models.upgrade.fit import fitted, on_base

        new, manifest = fitted(model, spec, prepared), prepared.artifacts.manifest
        job = new_job(
            self._store,
            on_base(model, new),
            spec.hyperparameters,
            trigger=UPGRADE,
            start="base",
            manifest_path=None if manifest is None else Path(manifest),
        )
        return Ready(prepared, replace(new, shapes=shapes_digest(prepared)), job)

    def _store_base(self, ready: Ready, spec: UpgradeSpec, made_of: Path) -> Job:
        with self._store.files.adopting() as adopt:
            new = with_files(ready.new, ready.prepared, made_of, adopt)
            return self._store.bases.begin(new, ready.job, request=spec.hyperparameters)

    async def _stop_jobs(self, model: Model, *, every: bool) -> None:
        """Cancel the job of an upgrade that waits; every: all that run or are paused."""
        upgrade = await asyncio.to_thread(self.of, model)
        jobs = [] if upgrade is None else [upgrade.job]
        if every:
            of_model = partial(self._store.jobs.list, model=model.name, limit=MOST_UNFINISHED)
            jobs += await asyncio.to_thread(of_model, states=UNDER_WAY)
        for job in jobs:
            with suppress(StateConflict, NotFound):  # it has ended
                await self._scheduler.cancel(job.id)
                await self._scheduler.settle(job.id)

    def _on_event(self, happened: Happening) -> None:
        if happened.type.startswith("base.") or (
            happened.type == "samples.added" and self._may_wait(happened.model)
        ):
            self._tasks.start(asyncio.to_thread(self.try_again), name="upgrades")
        if happened.type == "base.adopted":
            self._tasks.start(asyncio.to_thread(self._drop_caches, happened), name="upgrades")

    def _may_wait(self, model: str | None) -> bool:
        """Whether an upgrade of the model waits; nobody has looked yet after a start."""
        return self._waiting is None or model in self._waiting

    def _drop_caches(self, happened: Happening) -> None:
        """The old base's rows take room that the new one's need."""
        assert happened.model is not None
        with suppress(NotFound):
            model = self._store.models.get(happened.model)
            self._store.bases.drop_caches(model.id, happened.data["from"])
