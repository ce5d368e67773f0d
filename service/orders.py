"""What a training child is told: paths, hyperparameters, where to begin, what it may take."""

from __future__ import annotations

from pathlib import Path

from service.settings import Settings
from service.training.messages import (
    Artifacts,
    Hyperparameters,
    Limits,
    LoopState,
    Start,
    Train,
)
from storage.records import Job, Model
from storage.store import Store


def train_order(job: Job, store: Store, settings: Settings, *, work_dir: Path) -> Train:
    """The order for a job, from its last checkpoint if it has one."""
    model = store.models.get_by_id(job.model_id)
    return Train(
        artifacts=artifacts(model, store),
        signature=model.signature,
        loss=model.loss,
        output=model.output,
        database=str(store.database),
        packs=str(store.packs_dir),
        model_id=model.id,
        watermark=job.watermark,
        hyperparameters=Hyperparameters(**job.hyperparameters),
        start=_start(job, store),
        work_dir=str(work_dir),
        checkpoint_interval_s=settings.checkpoint_interval_s,
        limits=limits(settings),
    )


def limits(settings: Settings) -> Limits:
    """What a child may take of the device."""
    return Limits(
        threads=settings.training_threads,
        nice=settings.training_nice,
        memory_bytes=settings.training_memory_bytes,
    )


def artifacts(model: Model, store: Store) -> Artifacts:
    """Where a model's artifacts lie."""
    paths = {role: str(store.files.path(file.sha256)) for role, file in model.files.items()}
    return Artifacts(
        training_model=paths["training_model"],
        eval_model=paths["eval_model"],
        optimizer_model=paths["optimizer_model"],
        checkpoint=paths["checkpoint"],
    )


def _start(job: Job, store: Store) -> Start:
    last = store.checkpoints.latest_of(job.id)
    if last is not None:
        best = store.checkpoints.latest_of(job.id, roles=("best",))
        return Start(
            how="resume",
            checkpoint=str(store.files.path(last.file.sha256)),
            state=LoopState(**last.state),
            best_checkpoint=str(store.files.path(best.file.sha256)) if best else None,
        )
    checkpoint_id = _checkpoint_to_start_from(job, store)
    if checkpoint_id is None:
        return Start(how="base")
    file = store.checkpoints.get(checkpoint_id).file
    return Start(how="parameters", checkpoint=str(store.files.path(file.sha256)))


def _checkpoint_to_start_from(job: Job, store: Store) -> int | None:
    if job.start == "base":
        return None
    if job.start == "latest":
        return store.versions.by_alias(job.model_id, "latest").checkpoint_id
    return int(job.start)
