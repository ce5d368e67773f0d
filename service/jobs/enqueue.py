"""Queues a job: its hyperparameters, and where it starts from."""

from __future__ import annotations

import secrets
from contextlib import suppress
from pathlib import Path
from typing import Any

from service.errors import InvalidInput
from service.models.hyperparameters import check_hyperparameters, merge
from service.training.engines.manifest import read_manifest
from service.training.errors import NoSamples
from service.training.heads.kinds import layer_problem, more_neighbours_than
from storage.errors import NotFound, Problem
from storage.records.jobs import Job, NewJob
from storage.records.models import Model
from storage.store import Store

STARTS = ("latest", "base")


def random_seed() -> int:
    """A seed that fits every generator: 31 bits."""
    return secrets.randbits(31)


def enqueue(store: Store, model: Model, request: dict[str, Any], **about: Any) -> Job:
    """Queue a job, as `new_job` makes it.

    Raises as that does, and StateConflict if the model's classes have changed meanwhile.
    """
    return store.jobs.enqueue(new_job(store, model, request, **about))


def new_job(
    store: Store,
    model: Model,
    request: dict[str, Any],
    *,
    trigger: str,
    start: str = "latest",
    ignore_policy: bool = False,
    priority: int = 0,
    base: int | None = None,
    manifest_path: Path | None = None,
) -> NewJob:
    """A job to be queued.

    request: the hyperparameters asked for. start: `latest`, `base` or a checkpoint's id. base: the
    one that it trains, and at which the model is given; None for that of the checkpoint, or for the
    current one. manifest_path: of a base that is not stored yet.
    Raises NoSamples, InvalidInput for wrong hyperparameters or a start of another model.
    """
    if model.samples.train == 0:
        raise NoSamples(
            f"model {model.name!r} has no labelled training samples; "
            f"send some to /v1/models/{model.name}/samples first"
        )
    base = base or _base_of_start(store, model, start)
    check_hyperparameters(model, request)
    hyperparameters = merge(model, request, seed=random_seed())
    _check_replay(model, hyperparameters)
    if (head := hyperparameters.get("head")) is not None:
        path = manifest_path or store.integrity.file(model.files["manifest"].sha256)
        _check_head(model, head, path)
    return NewJob(
        model_id=model.id,
        trigger=trigger,
        hyperparameters=hyperparameters,
        start=start,
        ignore_policy=ignore_policy,
        priority=priority,
        class_ids=model.signature.target.ids,
        base=base,
    )


def _check_replay(model: Model, hyperparameters: dict[str, Any]) -> None:
    if hyperparameters.get("replay") and not model.samples.base:
        detail = (
            f"{model.name!r} has no base set to replay; send one to "
            f"/v1/models/{model.name}/base-set, or ask for replay 0"
        )
        raise InvalidInput.at("/replay", detail, title="the job has nothing to replay")


def _check_head(model: Model, head: Any, manifest_path: Path) -> None:
    """Whether the model has the layer that its head would be. head: from JSON."""
    manifest = read_manifest(manifest_path)
    problems = more_neighbours_than(model.samples.train, head)
    wrong = layer_problem(manifest.head, kind=None if head == "auto" else head["kind"])
    if wrong is not None:
        problems.append(Problem("/head", wrong))
    if problems:
        raise InvalidInput("the job cannot have this head", problems=problems)


def _base_of_start(store: Store, model: Model, start: str) -> int | None:
    """The base of the checkpoint that a job starts from, None for another start."""
    if start in STARTS:
        return None
    with suppress(ValueError, NotFound):
        checkpoint = store.checkpoints.get(int(start))
        if checkpoint.model_id == model.id:
            return store.jobs.get(checkpoint.job_id).base
    detail = f"from is latest, base or the id of a checkpoint of {model.name!r}"
    raise InvalidInput.at("/from", detail, title="the job has no valid start")
