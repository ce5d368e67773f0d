"""Tasks for training children: paths, hyperparameters and starting point."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from service.federation.terms import BEGIN_WITH_SENT, start_with_sent, update_terms
from service.jobs.tasks import artifacts, artifacts_sha256, classes_known, other_measurement
from service.models.prepared import TOKENIZER
from service.preprocess.fitting import learn_preprocess
from service.settings import Settings
from service.training.heads.kinds import is_computed
from service.training.hyperparameters import CHOSEN, Hyperparameters
from service.training.protocol.messages.training import LoopState, Start, Teacher, Train
from storage.blobs.cache_folder import cache_path
from storage.records.jobs import Job
from storage.records.models import Model
from storage.records.versions import Checkpoint
from storage.store import Store


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
        teacher=_teacher_of_other_base(job, model, start, store),
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
        provenance=_provenance(model),
    )


def _provenance(model: Model) -> dict[str, Any]:
    """What is recorded of a version's origin, whichever job makes it."""
    origin = {"model": model.name, "artifacts_sha256": artifacts_sha256(model)}
    if TOKENIZER in model.files:
        origin["tokenizer_sha256"] = model.files[TOKENIZER].sha256
    return origin


def _to_choose(job: Job, model: Model, start: Start) -> tuple[str, ...]:
    """Names of what the job still has to choose; empty once it has chosen.

    The share of the base set is chosen whenever it is not given, so that no job forgets by default.
    """
    if job.choices or start.how == "resume":
        return ()
    wanted = job.hyperparameters
    names = [name for name in CHOSEN if wanted.get("auto") and name not in wanted]
    names += ["head"] if wanted.get("head") == "auto" else []
    replays = model.samples.base > 0 and wanted.get("replay") is None
    return (*(name for name in names if name != "replay"), *(["replay"] if replays else []))


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


def _teacher_of_other_base(job: Job, model: Model, start: Start, store: Store) -> Teacher | None:
    """What teaches a distilling upgrade: what `latest` named when it began.

    None if that is of the job's own base, or the job starts from a checkpoint; then its start
    teaches. Raises NotFound, Damaged.
    """
    if not job.hyperparameters.get("distillation") or job.start != "base":
        return None
    if start.state is None:
        version = store.versions.by_alias(model.id, "latest")
    elif start.state.taught_by is not None:
        version = store.versions.get(model.id, start.state.taught_by)
    else:
        return None
    measured = other_measurement(model, version, store, job)
    if measured is None:
        return None
    file = store.integrity.file(version.file.sha256)
    known = classes_known(model, version)
    return Teacher(version.version, version.job_id, str(file), measured, known)


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
