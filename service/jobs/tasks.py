"""Tasks for children that measure, compare, convert and rank, and what tasks share."""

from __future__ import annotations

import hashlib
from pathlib import Path

from service.device.memory import default_threads
from service.models.prepared import NO_ARTIFACTS, tokenizer_of
from service.models.promotion.policy import gate_policy, judges_by_base_set, measured_by
from service.settings import Settings
from service.training.protocol.messages.comparison import (
    Drift,
    Evaluate,
    Rank,
    Ranks,
)
from service.training.protocol.messages.shared import (
    Artifacts,
    Measurement,
    OwnLoss,
    ResourceLimits,
)
from storage.blobs.cache_folder import cache_path
from storage.records.jobs import Job
from storage.records.models import Model
from storage.records.versions import Version
from storage.store import Store

SHORT_TASK_NICE = 5
"""Lower than a job's: someone waits for the answer."""


def evaluate_task(
    model: Model, store: Store, job: Job, *, candidate: Path, baseline: Version
) -> Evaluate:
    """The task to compare what a job has exported with a version of its model."""
    return Evaluate(
        candidate=str(candidate),
        baseline=str(store.integrity.file(baseline.file.sha256)),
        measurement=measurement(model, store, job),
        baseline_classes=classes_known(model, baseline),
        baseline_measurement=other_measurement(model, baseline, store, job),
        seen_up_to=_seen_up_to(baseline, store) if gate_policy(model).hold_on_drift else None,
    )


def rank_task(model: Model, version: Version, store: Store, *, newest: int, what: Ranks) -> Rank:
    """The task to rank the newest samples by how uncertain a version is of them or their labels."""
    return Rank(
        model=str(store.integrity.file(version.file.sha256)),
        measurement=measurement(model, store),
        newest=newest,
        what=what,
        classes=classes_known(model, version),
    )


def drift_task(version: Version, store: Store) -> Drift:
    """The task to compare the newest samples with those that a version was trained on."""
    watermark = _seen_up_to(version, store)
    assert watermark is not None
    return Drift(
        model=str(store.integrity.file(version.file.sha256)),
        measurement=measurement(store.models.of_version(version), store),
        watermark=watermark,
    )


def _seen_up_to(version: Version, store: Store) -> int | None:
    """The watermark of the job that made the version; None if no job made it."""
    return None if version.job_id is None else store.jobs.get(version.job_id).watermark


def classes_known(model: Model, version: Version) -> tuple[int, ...] | None:
    """Ids of the version's classes, None if they are the model's current ones."""
    ids = version.target.ids
    return None if ids == model.signature.target.ids else ids


def measurement(model: Model, store: Store, job: Job | None = None) -> Measurement:
    """How a model's versions are measured, or what a job made: what it ignores does not count."""
    own = {} if job is None else job.hyperparameters
    metric, metric_class = measured_by(model)
    return Measurement(
        signature=model.signature,
        loss=model.loss,
        output=model.output,
        database=str(store.database),
        packs=str(store.packs_dir),
        model_id=model.id,
        metric=metric,
        metric_class=metric_class,
        reference=model.reference_frozen_at is not None,
        base_set=judges_by_base_set(model),
        preprocess=model.preprocess,
        cache=str(cache_path(store.cache_dir, model.id, model.base)),
        own_loss=_own_loss(model, store),
        simple=job is not None,
        ignore_index={**model.hyperparameters, **own}.get("ignore_index"),
        tokenizer=tokenizer_of(model, store),
        features=model.features,
    )


def other_measurement(
    model: Model, baseline: Version, store: Store, job: Job | None = None
) -> Measurement | None:
    """How a version is measured that descends from another base than the model's, else None."""
    if baseline.base == model.base:
        return None
    return measurement(store.models.get_by_id(model.id, base=baseline.base), store, job)


def _own_loss(model: Model, store: Store) -> OwnLoss | None:
    if model.loss_output is None:
        return None
    files = artifacts(model, store)
    assert files.manifest is not None  # only the session engine trains such a loss
    return OwnLoss(files.manifest, files.eval_model, files.checkpoint)


def artifacts_sha256(model: Model) -> str:
    """One hash of all artifacts: SHA-256 of a line `role hash` for each, sorted by role."""
    lines = [
        f"{role} {file.sha256}\n"
        for role, file in sorted(model.files.items())
        if role not in NO_ARTIFACTS
    ]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def short_task_limits(settings: Settings) -> ResourceLimits:
    """Limits of a child that checks or converts: it is short-lived, so no policy applies."""
    return ResourceLimits(
        threads=settings.training_threads or default_threads(),
        nice=SHORT_TASK_NICE if settings.training_nice is None else settings.training_nice,
    )


def artifacts(model: Model, store: Store) -> Artifacts:
    """Paths of a model's artifacts. Raises Damaged."""
    paths = {
        role: str(store.integrity.file(file.sha256))
        for role, file in model.files.items()
        if role not in NO_ARTIFACTS
    }
    return Artifacts(**paths)
