"""Submits a job's trained model to the gate, and publishes it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from service.jobs.recorder import Recorder
from service.jobs.tasks import evaluate_task
from service.models.promotion.best import find_best
from service.models.promotion.gate import BestComparison, conclude
from service.models.promotion.policy import gate_policy, judges_by_base_set
from service.training.protocol.messages.comparison import Comparison, Evaluate, Evaluated
from service.training.protocol.messages.shared import Failed, ResourceLimits
from service.training.protocol.messages.training import Done
from storage.blobs.assembled import Parts
from storage.errors import Damaged, NotFound
from storage.records.jobs import Job
from storage.records.models import FileRecord, Model
from storage.records.versions import FileRecipe, Version
from storage.store import Store

ON_NOTHING = Comparison(samples=0, class_counts=(), candidate={}, baseline={})
"""The result of a comparison without samples."""
BASE = "inference_model"
"""The role of the file that a recipe starts from."""
MAX_COMPARISONS = 5
"""How often a model is compared again because `latest` moved."""

Answer = Evaluated | Failed


class Comparisons(Struct, frozen=True):
    """Results of measuring a candidate. compared_with: the version that `latest` named."""

    answer: Answer
    compared_with: int | None
    best: BestComparison | None = None
    best_on_base_set: BestComparison | None = None


class Incumbents(Struct, frozen=True):
    """The versions that a candidate is compared with; a best is None if it is `latest` itself."""

    model: Model
    latest: Version
    best: Version | None
    best_on_base_set: Version | None

    def bests(self, found: dict[int, Evaluated]) -> dict[str, BestComparison]:
        """The comparisons with the best, by field of Comparisons. found: by version."""
        bests = {}
        if self.best is not None:
            number = self.best.version
            bests["best"] = BestComparison(number, found[number].validation)
        if self.best_on_base_set is not None:
            number = self.best_on_base_set.version
            if (comparison := found[number].base_set) is not None:
                bests["best_on_base_set"] = BestComparison(number, comparison)
        return bests


class Publication:
    """Lets the gate decide on the model that a job has exported, and publishes it.

    ask: runs a task in a child; None if it was stopped before it could answer.
    """

    def __init__(
        self,
        job: Job,
        store: Store,
        recorder: Recorder,
        *,
        limits: Callable[[], Awaitable[ResourceLimits]],
        ask: Callable[[Evaluate], Awaitable[Answer | None]],
    ) -> None:
        self._job = job
        self._store = store
        self._recorder = recorder
        self._limits = limits
        self._ask = ask

    async def conclude(self, done: Done) -> None:
        """Return when the version is published, or the job is to stop.

        If a person moves `latest` meanwhile, the model is compared again with what it names now.
        """
        candidate: Path | FileRecord = Path(done.path)
        recipe: FileRecipe | None = None
        for _ in range(MAX_COMPARISONS):
            found = await self._compare(candidate)
            if found is None:
                return
            if isinstance(candidate, Path):
                candidate = await asyncio.to_thread(self._store.files.adopt, candidate)
                recipe = await asyncio.to_thread(self._adopt_recipe, done, candidate)
            if await self._publish(done, candidate, found, recipe):
                return
        assert isinstance(candidate, FileRecord)
        moving = Failed("state_conflict", "latest was moved each time while it was compared")
        await self._publish(done, candidate, Comparisons(moving, None), recipe)

    def _adopt_recipe(self, done: Done, file: FileRecord) -> FileRecipe | None:
        """The recipe that rebuilds the file, None if the file must be kept whole."""
        model = self._store.models.get_by_id(self._job.model_id)
        if done.recipe is None or BASE not in model.files:
            return None
        base = model.files[BASE].sha256
        adopted = self._store.files.adopt(Path(done.recipe))
        leads = self._store.files.assembled.leads_to(file.sha256, Parts(base, adopted.sha256))
        return FileRecipe(base, adopted) if leads else None

    async def _compare(self, candidate: Path | FileRecord) -> Comparisons | None:
        """Compare the candidate with `latest` and the best promoted versions; None if stopped."""
        path = (
            candidate if isinstance(candidate, Path) else self._store.files.path(candidate.sha256)
        )
        chosen = await asyncio.to_thread(self._versions)
        latest = chosen.latest
        answer = await self._ask_of(chosen.model, path, latest, reference=True)
        if answer is None or isinstance(answer, Failed):
            return None if answer is None else Comparisons(answer, latest.version)
        found: dict[int, Evaluated] = {}
        for best in (chosen.best, chosen.best_on_base_set):
            if best is None or best.version in found:
                continue
            again = await self._ask_of(chosen.model, path, best, reference=False)
            if again is None or isinstance(again, Failed):
                return None if again is None else Comparisons(again, latest.version)
            found[best.version] = again
        return Comparisons(answer, latest.version, **chosen.bests(found))

    async def _ask_of(
        self, model: Model, candidate: Path, baseline: Version, *, reference: bool
    ) -> Answer | None:
        try:
            task = await asyncio.to_thread(
                evaluate_task,
                model,
                self._store,
                self._job,
                candidate=candidate,
                baseline=baseline,
                limits=await self._limits(),
            )
        except (Damaged, NotFound) as error:  # it was whole when chosen
            return Failed(error.code, error.detail)
        if not reference:
            what = replace(task.measurement, reference=False, simple=False)
            task = replace(task, measurement=what, seen_up_to=None)
        what = task.measurement
        # Without samples, a second child would find nothing.
        has_samples = what.reference or what.base_set or model.samples.validation > 0
        if not has_samples and task.seen_up_to is None:
            return Evaluated(ON_NOTHING)
        return await self._ask(task)

    def _versions(self) -> Incumbents:
        model = self._store.models.get_by_id(self._job.model_id)
        latest = self._store.integrity.latest(model.id)
        best = find_best(self._store, model, latest=latest)
        on_base_set = None
        if judges_by_base_set(model):
            on_base_set = find_best(self._store, model, latest=latest, on_base_set=True)
        return Incumbents(model, latest, best, on_base_set)

    async def _publish(
        self, done: Done, file: FileRecord, found: Comparisons, recipe: FileRecipe | None
    ) -> bool:
        model = await asyncio.to_thread(self._store.models.get_by_id, self._job.model_id)
        conclusion = conclude(
            gate_policy(model),
            found.answer,
            compared_with=found.compared_with,
            best=found.best,
            best_on_base_set=found.best_on_base_set,
        )
        return await asyncio.to_thread(
            self._recorder.succeeded, done, file, conclusion, recipe=recipe
        )
