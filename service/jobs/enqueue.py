"""Asking for a job: what it trains with, and where it begins."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any

from service.errors import InvalidInput
from service.jobs.hyperparameters import merge
from service.training.errors import NoSamples
from storage.errors import NotFound, Problem
from storage.records.jobs import Job, NewJob
from storage.records.models import Model
from storage.store import Store

STARTS = ("latest", "base")


def random_seed() -> int:
    """A seed that fits every generator: 31 bits."""
    return secrets.randbits(31)


def enqueue(
    store: Store,
    model: Model,
    request: dict[str, Any],
    *,
    trigger: str,
    start: str = "latest",
    ignore_policy: bool = False,
    priority: int = 0,
    new_seed: Callable[[], int] = random_seed,
) -> Job:
    """Put a job into the queue.

    request: the hyperparameters asked for. start: `latest`, `base` or a checkpoint's id.
    Raises NoSamples, or InvalidInput for a start that is not this model's.
    """
    if model.samples.train == 0:
        raise NoSamples(
            f"model {model.name!r} has no labelled training samples; "
            f"send some to /v1/models/{model.name}/samples first"
        )
    _check_start(store, model, start)
    return store.jobs.enqueue(
        NewJob(
            model_id=model.id,
            trigger=trigger,
            hyperparameters=merge(model.hyperparameters, request, seed=new_seed()),
            start=start,
            ignore_policy=ignore_policy,
            priority=priority,
        )
    )


def _check_start(store: Store, model: Model, start: str) -> None:
    if start in STARTS:
        return
    try:
        found = store.checkpoints.get(int(start)).model_id == model.id
    except (ValueError, NotFound):
        found = False
    if not found:
        detail = f"from is latest, base or the id of a checkpoint of {model.name!r}"
        raise InvalidInput("the job has nowhere to begin", problems=[Problem("/from", detail)])
