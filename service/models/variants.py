"""Variants on request: made once in a child, measured, kept, or refused."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

from msgspec import Struct

from service.errors import VariantNotReady
from service.jobs.short_tasks import ShortTasks
from service.jobs.tasks import artifacts, classes_known, measurement
from service.logs import event
from service.models.promotion.gate import findings_of, verdict_of
from service.models.promotion.policy import gate_policy
from service.training.errors import OutOfMemory, VariantRefused
from service.training.protocol.messages.comparison import AdaptedFiles, Convert, Converted
from storage.errors import counted, in_words
from storage.records.models import FileRecord, Model
from storage.records.versions import VARIANTS, Variant, VariantName, Version
from storage.store import Store

logger = logging.getLogger(__name__)

PATIENCE_S = 25.0
"""How long a request waits for a variant that is being created, before the answer is 503."""
ADAPTED: tuple[VariantName, ...] = ("adaptable", "adapter")
Key = tuple[int, int, VariantName]


class Judgement(Struct, frozen=True):
    """Whether a variant is kept, and why. lasting: whether another request would be refused too."""

    kept: bool
    reason: str
    verdict: dict[str, Any]
    lasting: bool = True


class VariantMaker:
    """Makes variants, one at a time. Belongs to the event loop."""

    def __init__(self, store: Store, short_tasks: ShortTasks) -> None:
        self._store = store
        self._short_tasks = short_tasks
        self._one_at_a_time = asyncio.Lock()
        self._making: dict[Key, asyncio.Task[Variant]] = {}

    async def file(self, version: Version, name: VariantName) -> FileRecord:
        """The variant's file, made if it is missing or damaged.

        Raises VariantRefused, VariantNotReady if it takes long, ChildDied, NotFound, Damaged.
        """
        known = _find(version, name)
        if known is None or not await asyncio.to_thread(self._is_whole, known):
            known = await self._made(version, name)
        if known.file is None:
            raise VariantRefused(known.reason)
        return known.file

    def close(self) -> None:
        """Cancel what is being made; those who wait are told to try again."""
        for task in self._making.values():
            task.cancel()

    async def stop(self) -> None:
        """Like `close`, and wait until the children are gone."""
        self.close()
        await asyncio.gather(*self._making.values(), return_exceptions=True)

    async def _made(self, version: Version, name: VariantName) -> Variant:
        key = (version.model_id, version.version, name)
        task = self._making.get(key)
        if task is None:
            task = self._making[key] = asyncio.create_task(self._make(version, name))
            task.add_done_callback(lambda done: self._finished(key, done))
        await asyncio.wait({task}, timeout=PATIENCE_S)
        if not task.done() or task.cancelled():
            raise VariantNotReady(
                f"the {name} variant of version {version.version} is being made; ask again"
            )
        return task.result()

    def _finished(self, key: Key, task: asyncio.Task[Variant]) -> None:
        del self._making[key]
        if not task.cancelled() and (error := task.exception()) is not None:
            event(
                logger, logging.WARNING, "variant.not_made", variant=key[2], error=in_words(error)
            )

    async def _make(self, version: Version, name: VariantName) -> Variant:
        async with self._one_at_a_time:
            # Read again: it may have been made since, or there may be enough samples now.
            version = await asyncio.to_thread(
                self._store.versions.get, version.model_id, version.version
            )
            model = await asyncio.to_thread(self._store.models.of_version, version)
            known = _find(version, name)
            if known is not None and await asyncio.to_thread(self._is_whole, known):
                return known
            _refuse_too_few(model, name)
            async with self._short_tasks.folder("variant") as work_dir:
                try:
                    converted = await self._convert(model, version, name, work_dir=work_dir)
                except VariantRefused as refusal:
                    judgement = Judgement(False, refusal.detail, verdict_of(gate_policy(model), {}))
                    return await asyncio.to_thread(self._keep, version, name, judgement)
                judgement = judge(model, version, name, converted)
                return await asyncio.to_thread(self._keep, version, name, judgement, converted)

    async def _convert(
        self, model: Model, version: Version, name: VariantName, *, work_dir: Path
    ) -> Converted:
        """Raises VariantRefused if there can be no such variant of the version."""
        task = await asyncio.to_thread(self._task, model, version, name, work_dir)
        failure = f"the {name} variant cannot be made"
        return await self._short_tasks.ask(
            task, Converted, failure=failure, refusals=(VariantRefused, OutOfMemory)
        )

    def _task(self, model: Model, version: Version, name: VariantName, work_dir: Path) -> Convert:
        """Raises VariantRefused if what the variant is made from is gone."""
        return Convert(
            source=str(self._store.integrity.file(version.file.sha256)),
            variant=name,
            work_dir=str(work_dir),
            measurement=measurement(model, self._store),
            classes=classes_known(model, version),
            adapted=_adapted(model, version, name, self._store),
        )

    def _is_whole(self, variant: Variant) -> bool:
        """Whether the file is intact; a refused variant has none."""
        return variant.file is None or self._store.integrity.is_whole(variant.file.sha256)

    def _keep(
        self,
        version: Version,
        name: VariantName,
        judgement: Judgement,
        converted: Converted | None = None,
    ) -> Variant:
        """Store variant or refusal. Raises VariantRefused if a later request may succeed."""
        if not judgement.kept and not judgement.lasting:
            raise VariantRefused(judgement.reason)
        with self._store.files.adopting() as adopt:
            return self._store.variants.add(
                version.model_id,
                version.version,
                name,
                file=adopt(Path(converted.path)) if converted and judgement.kept else None,
                method=converted.method if converted else "none",
                metrics=converted.validation.candidate if converted else {},
                verdict=judgement.verdict,
                reason=judgement.reason,
            )


def _adapted(
    model: Model, version: Version, name: VariantName, store: Store
) -> AdaptedFiles | None:
    """The files that a version's adapters are read from, None if the variant needs none.

    Raises VariantRefused without the version's checkpoint.
    """
    if name not in ADAPTED:
        return None
    files = artifacts(model, store)
    if files.manifest is None or files.inference_model is None:
        return None
    if version.checkpoint_id is None and version.job_id is None:
        return AdaptedFiles(files.manifest, files.inference_model, files.checkpoint)
    checkpoint = store.integrity.checkpoint_of(version)
    if checkpoint is None or checkpoint.id != version.checkpoint_id:
        raise VariantRefused(
            f"the checkpoint of version {version.version} is gone, and its adapters with it; fetch"
            " the version as it is"
        )
    path = str(store.files.path(checkpoint.file.sha256))
    return AdaptedFiles(files.manifest, files.inference_model, files.checkpoint, path)


def judge(model: Model, version: Version, name: VariantName, converted: Converted) -> Judgement:
    """Judge a variant by the model's gate, against the version that it was made from."""
    policy, classes = gate_policy(model), model.signature.target.classes
    if VARIANTS[name].is_exact and converted.validation.samples == 0:
        return Judgement(True, "kept: it computes the same", verdict_of(policy, {}))
    baseline = f"version {version.version}"
    findings = findings_of(policy, converted, baseline=baseline, classes=classes)
    said = "; ".join(finding.sentence for finding in findings.values())
    verdict = verdict_of(policy, findings)
    outcomes = {finding.outcome for finding in findings.values()}
    # A person has requested the variant, so a manual gate decides by measuring, too.
    kept = policy.mode == "always" or all(finding.passes for finding in findings.values())
    if VARIANTS[name].is_exact and "worse" not in outcomes:
        kept = True
    return Judgement(
        kept, f"{'kept' if kept else 'refused'}: {said}", verdict, lasting="worse" in outcomes
    )


def _refuse_too_few(model: Model, name: VariantName) -> None:
    """Raises VariantRefused before any work if the gate would have too few samples anyway."""
    policy = gate_policy(model)
    wanted = max(1, policy.min_validation_samples)
    if VARIANTS[name].is_exact or policy.mode == "always":
        return
    if model.samples.validation < wanted:
        raise VariantRefused(
            f"refused: it has {counted(model.samples.validation, 'validation sample')}, too few"
            f" to tell whether {name} is as good: the gate wants at least {wanted}"
        )


def _find(version: Version, name: VariantName) -> Variant | None:
    return next((variant for variant in version.variants if variant.name == name), None)
