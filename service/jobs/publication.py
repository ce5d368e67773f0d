"""Submits a job's trained model to the gate, and publishes it."""

from __future__ import annotations

import logging
from collections.abc import Generator
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from service.federation.terms import publish_update
from service.jobs.recorder import Recorder
from service.jobs.tasks import evaluate_task
from service.jobs.training_tasks import model_of
from service.logs import event
from service.models.promotion.best import find_best, prune
from service.models.promotion.gate import BestComparison, Decision, decide
from service.models.promotion.policy import gate_policy, judges_by_base_set
from service.training.protocol.messages.comparison import Comparison, Evaluate, Evaluated
from service.training.protocol.messages.shared import Failed
from service.training.protocol.messages.training import Done, Updated
from storage.blobs.assembled import Parts
from storage.errors import Damaged, HoneError, NotFound
from storage.records.jobs import Job
from storage.records.models import FileRecord, Model
from storage.records.versions import FileRecipe, NewVersion, Version
from storage.store import Store

logger = logging.getLogger(__name__)

ON_NOTHING = Comparison(samples=0, class_counts=(), candidate={}, baseline={})
"""The result of a comparison without samples."""
BASE = "inference_model"
"""The role of the file that a recipe starts from."""
MAX_COMPARISONS = 5
"""How often a model is compared again because `latest` moved."""

Answer = Evaluated | Failed
Measuring = Generator[Evaluate, Answer, Answer]
"""Yields tasks for a child, and is sent its answers."""


class Comparisons(Struct, frozen=True):
    """Results of measuring a candidate. compared_with: the version that `latest` named.

    bests: `best` and `best_on_base_set` of `decide`, if these are other versions.
    """

    answer: Answer
    compared_with: int | None
    bests: dict[str, BestComparison] = {}


class Publication:
    """Publishes what a job has trained: a version as the gate decides, or a round's update.

    Blocking: call it from a thread.
    """

    def __init__(self, job: Job, store: Store, recorder: Recorder) -> None:
        self._job = job
        self._store = store
        self._recorder = recorder

    def publish(self, done: Done) -> Generator[Evaluate, Answer, None]:
        """Yield the comparisons that a child has to make, then publish the version.

        If a person moves `latest` meanwhile, the model is compared again with what it names now.
        """
        candidate: Path | FileRecord = Path(done.path)
        recipe: FileRecipe | None = None
        for _ in range(MAX_COMPARISONS):
            comparisons = yield from self._compare(candidate)
            if isinstance(candidate, Path):
                candidate = self._store.files.adopt(candidate)
                recipe = self._adopt_recipe(done, candidate)
            if self._add_version(done, candidate, comparisons, recipe):
                return
        assert isinstance(candidate, FileRecord)
        moving = Failed("state_conflict", "latest was moved each time while it was compared")
        self._add_version(done, candidate, Comparisons(moving, None), recipe)

    def publish_update(self, message: Updated) -> None:
        """Store the update of a round, and end the job."""
        self._recorder.report()
        publish_update(self._job, self._store, message, self._job_metrics(message))
        self._log("round.trained", samples=message.samples, steps=message.step)

    def _adopt_recipe(self, done: Done, file: FileRecord) -> FileRecipe | None:
        """The recipe that rebuilds the file, None if the file must be kept whole."""
        model = model_of(self._job, self._store)
        if done.recipe is None or BASE not in model.files:
            return None
        base = model.files[BASE].sha256
        adopted = self._store.files.adopt(Path(done.recipe))
        leads = self._store.files.assembled.leads_to(file.sha256, Parts(base, adopted.sha256))
        return FileRecipe(base, adopted) if leads else None

    def _compare(self, candidate: Path | FileRecord) -> Generator[Evaluate, Answer, Comparisons]:
        """Compare the candidate with `latest` and the best promoted versions."""
        path = (
            candidate if isinstance(candidate, Path) else self._store.files.path(candidate.sha256)
        )
        model = model_of(self._job, self._store)
        latest = self._store.integrity.latest(model.id)
        chosen = {"best": find_best(self._store, model, latest=latest)}
        if judges_by_base_set(model):
            chosen["best_on_base_set"] = find_best(
                self._store, model, latest=latest, on_base_set=True
            )
        answer = yield from self._measure(model, path, latest, reference=True)
        if isinstance(answer, Failed):
            return Comparisons(answer, latest.version)
        measured: dict[int, Evaluated] = {}
        bests: dict[str, BestComparison] = {}
        for name, best in chosen.items():
            if best is None:
                continue
            if best.version not in measured:
                again = yield from self._measure(model, path, best, reference=False)
                if isinstance(again, Failed):
                    return Comparisons(again, latest.version)
                measured[best.version] = again
            of_best = measured[best.version]
            comparison = of_best.validation if name == "best" else of_best.base_set
            if comparison is not None:
                bests[name] = BestComparison(best.version, comparison)
        return Comparisons(answer, latest.version, bests)

    def _measure(
        self, model: Model, candidate: Path, baseline: Version, *, reference: bool
    ) -> Measuring:
        try:
            task = evaluate_task(
                model, self._store, self._job, candidate=candidate, baseline=baseline
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
        return (yield task)

    def _add_version(
        self, done: Done, file: FileRecord, comparisons: Comparisons, recipe: FileRecipe | None
    ) -> bool:
        """Add the version as the gate decides, and end the job: one transaction.

        False, with nothing stored, if `latest` has moved since the comparison.
        """
        model = self._store.models.get_by_id(self._job.model_id)
        decision = decide(
            gate_policy(model),
            comparisons.answer,
            baseline_version=comparisons.compared_with,
            classes=model.signature.target.classes,
            **comparisons.bests,
        )
        self._recorder.report()
        version = self._store.versions.publish(
            self._new_version(done, file, decision, recipe),
            compared_with=comparisons.compared_with,
            job_metrics=self._job_metrics(done, *done.warnings),
        )
        if version is None:
            return False
        self._log("job.succeeded", version=version.version, promoted=version.promoted)
        self._prune()
        return True

    def _new_version(
        self, done: Done, file: FileRecord, decision: Decision, recipe: FileRecipe | None
    ) -> NewVersion:
        final = self._store.checkpoints.latest_of(self._job.id, roles=("final",))
        return NewVersion(
            model_id=self._job.model_id,
            job_id=self._job.id,
            checkpoint_id=final.id if final else None,
            file=file,
            promoted=decision.promoted,
            reason=decision.reason,
            metrics=decision.metrics | _calibration(done),
            baseline=decision.baseline,
            verdict=decision.verdict,
            provenance=done.provenance,
            recipe=recipe,
        )

    def _job_metrics(self, end: Done | Updated, *warnings: str) -> dict[str, Any]:
        return {
            "train_loss": end.train_loss,
            "validation": end.validation,
            "baseline": end.baseline,
            "ended": end.reason,
            "warnings": [*self._recorder.warnings, *warnings],
        }

    def _prune(self) -> None:
        """Remove old versions. Failure does not affect the job, and is retried within the hour."""
        try:
            prune(self._store, self._store.models.get_by_id(self._job.model_id))
        except HoneError as error:
            self._log("versions.not_pruned", error=error.detail)

    def _log(self, name: str, **fields: Any) -> None:
        event(logger, logging.INFO, name, job=self._job.id, model=self._job.model, **fields)


def _calibration(done: Done) -> dict[str, Any]:
    """The temperature, and the calibration before it, which only the job has measured."""
    calibration = done.validation.get("calibration")
    return {} if calibration is None else {"calibration": calibration}
