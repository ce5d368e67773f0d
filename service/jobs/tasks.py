"""Tasks for training children: paths, hyperparameters, starting point, and limits."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from service.federation.terms import BEGIN_WITH_SENT, start_with_sent, update_terms
from service.models.prepared import NO_ARTIFACTS, TOKENIZER, tokenizer_of
from service.models.promotion.policy import gate_policy, judges_by_base_set
from service.preprocess.fitting import learn_preprocess
from service.settings import Settings, default_threads
from service.training.heads.kinds import is_computed
from service.training.hyperparameters import CHOSEN, Hyperparameters
from service.training.protocol.messages.comparison import (
    AdaptedFiles,
    Convert,
    Drift,
    Evaluate,
    Measurement,
    OwnLoss,
    Rank,
    Ranks,
)
from service.training.protocol.messages.shared import Artifacts, ResourceLimits
from service.training.protocol.messages.training import LoopState, Start, Train
from storage.blobs.cache_folder import cache_path
from storage.records.jobs import Job
from storage.records.models import Model
from storage.records.versions import Checkpoint, VariantName, Version
from storage.store import Store

SHORT_TASK_NICE = 5
"""Lower than a job's: someone waits for the answer."""


def train_task(job: Job, store: Store, settings: Settings, *, work_dir: Path) -> Train:
    """The task for a job, from its last checkpoint if it has one.

    Raises Damaged if a file that it needs is damaged.
    """
    model = learn_preprocess(store, model_of(job, store), watermark=job.watermark)
    start = _start(job, store)
    task = training_task(
        model,
        store,
        settings,
        hyperparameters=job.hyperparameters,
        watermark=job.watermark,
        start=start,
        work_dir=work_dir,
    )
    return replace(
        task,
        provenance={**task.provenance, "job_id": job.id},
        to_choose=_to_choose(job, model, start),
        update=update_terms(job, model, store),
    )


def model_of(job: Job, store: Store) -> Model:
    """A job's model, at the base that it trains. Raises NotFound."""
    return store.models.get_by_id(job.model_id, base=job.base)


def training_task(
    model: Model,
    store: Store,
    settings: Settings,
    *,
    hyperparameters: Mapping[str, Any],
    watermark: int,
    start: Start,
    work_dir: Path,
) -> Train:
    """The task to train a model, or to measure its parameters as training would.

    Raises Damaged if a file that it needs is damaged.
    """
    return Train(
        artifacts=artifacts(model, store),
        signature=model.signature,
        loss=model.loss,
        output=model.output,
        database=str(store.database),
        packs=str(store.packs_dir),
        model_id=model.id,
        watermark=watermark,
        hyperparameters=Hyperparameters(**hyperparameters),
        start=start,
        work_dir=str(work_dir),
        checkpoint_interval_s=settings.checkpoint_interval_s,
        cache=str(cache_path(store.cache_dir, model.id, model.base)),
        feature_cache_bytes=settings.feature_cache_bytes,
        preprocess=model.preprocess,
        tensor_cache_bytes=settings.tensor_cache_bytes,
        providers=settings.training_providers,
        provenance={
            "model": model.name,
            "artifacts_sha256": artifacts_sha256(model),
            **{
                f"{TOKENIZER}_sha256": model.files[role].sha256
                for role in (TOKENIZER,)
                if role in model.files
            },
        },
    )


def _to_choose(job: Job, model: Model, start: Start) -> tuple[str, ...]:
    """Names of what the job still has to choose; empty once it has chosen.

    The share of the base set is chosen whenever it is not given, so that no job forgets by default.
    """
    if job.choices or start.how == "resume":
        return ()
    wanted = job.hyperparameters
    found = [name for name in CHOSEN if wanted.get("auto") and name not in wanted]
    found += ["head"] if wanted.get("head") == "auto" else []
    replays = model.samples.base > 0 and wanted.get("replay") is None
    return (*(name for name in found if name != "replay"), *(["replay"] if replays else []))


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


def convert_task(
    model: Model,
    version: Version,
    variant: VariantName,
    *,
    store: Store,
    work_dir: Path,
    adapted: AdaptedFiles | None,
) -> Convert:
    """The task to make a variant of a version."""
    return Convert(
        source=str(store.integrity.file(version.file.sha256)),
        variant=variant,
        work_dir=str(work_dir),
        measurement=measurement(model, store),
        classes=classes_known(model, version),
        adapted=adapted,
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


def drift_task(model: Model, version: Version, store: Store) -> Drift:
    """The task to compare the newest samples with those that a version was trained on."""
    watermark = _seen_up_to(version, store)
    assert watermark is not None
    return Drift(
        model=str(store.integrity.file(version.file.sha256)),
        measurement=measurement(model, store),
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
    return Measurement(
        signature=model.signature,
        loss=model.loss,
        output=model.output,
        database=str(store.database),
        packs=str(store.packs_dir),
        model_id=model.id,
        metric=gate_policy(model).metric,
        reference=model.reference_frozen_at is not None,
        base_set=judges_by_base_set(model),
        preprocess=model.preprocess,
        cache=str(cache_path(store.cache_dir, model.id, model.base)),
        own_loss=_own_loss(model, store),
        simple=job is not None,
        ignore_index={**model.hyperparameters, **own}.get("ignore_index"),
        tokenizer=tokenizer_of(model, store),
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


def _start(job: Job, store: Store) -> Start:
    """Where the job starts.

    A job that computes its head starts over: that is quick, and gives the same result.
    """
    if is_computed(job.hyperparameters.get("head")):
        return _first_start(job, store)
    last = store.integrity.checkpoint(job.id, ("periodic", "final"))
    if last is None:
        return _first_start(job, store)
    return _resumption(job, last, store)


def _resumption(job: Job, last: Checkpoint, store: Store) -> Start:
    best = store.integrity.checkpoint(job.id, ("best",))
    return Start(
        how="resume",
        checkpoint=str(store.files.path(last.file.sha256)),
        state=LoopState(**last.state),
        best_checkpoint=str(store.files.path(best.file.sha256)) if best else None,
        teacher=_teacher(job, last.state.get("parent_version"), store),
    )


def _teacher(job: Job, parent_version: int | None, store: Store) -> str | None:
    """The start of a distilling job, None for the artifacts' own. Raises NotFound, Damaged."""
    if not job.hyperparameters.get("distillation") or job.start == "base":
        return None
    checkpoint_id: int | None = None
    if job.start != "latest":
        checkpoint_id = int(job.start)
    elif parent_version is not None:
        checkpoint_id = store.versions.get(job.model_id, parent_version).checkpoint_id
    if checkpoint_id is None:
        return None
    return str(store.integrity.file(store.checkpoints.get(checkpoint_id).file.sha256))


def _first_start(job: Job, store: Store) -> Start:
    if job.start in BEGIN_WITH_SENT:
        return start_with_sent(job, store)
    return start_from(job.start, model_of(job, store), store)


def start_from(where: str, model: Model, store: Store) -> Start:
    """Where a job that begins anew starts. where: latest, base, or a checkpoint's id."""
    if where == "latest":
        checkpoint = store.integrity.checkpoint_for(model.id, model.base)
    else:
        checkpoint = None if where == "base" else store.checkpoints.get(int(where))
    if checkpoint is None:
        return Start(how="base", parent_version=1 if model.base == 1 else None)
    return Start(
        how="parameters",
        checkpoint=str(store.integrity.file(checkpoint.file.sha256)),
        from_job=checkpoint.job_id,
        parent_version=store.versions.of_checkpoint(model.id, checkpoint.id),
    )
