"""The job that trains the base model again on the samples that are not erased."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from service.jobs.enqueue import random_seed
from service.models.hyperparameters import merge
from storage.errors import NotFound
from storage.records.jobs import Job, NewJob
from storage.records.models import Model
from storage.records.versions import Version
from storage.store import Store

if TYPE_CHECKING:
    from numpy.typing import NDArray

TRIGGER = "erasure"
BY_CLASS = ("class_weights", "ignore_index")
"""Hyperparameters that depend on the classes."""


def retraining(store: Store, model: Model, gone: NDArray[np.int64]) -> NewJob:
    """A job with the hyperparameters of the longest job that led to `latest`.

    Longest: by optimizer steps, the newest of equals. These are the job that made `latest`, the job
    that made the version it started from, and so on. If `latest` is the base model, the jobs that
    saw the deleted samples are taken instead.
    """
    jobs = list(_behind(store, store.versions.by_alias(model.id, "latest")))
    if not jobs:
        jobs = [store.jobs.get(each) for each in store.lineage.jobs_that_saw(model.id, gone)]
    longest = max(jobs, key=lambda job: (job.progress.get("step", 0), job.id), default=None)
    asked = {} if longest is None else _for_classes_of(model, longest, store)
    return NewJob(
        model_id=model.id,
        trigger=TRIGGER,
        hyperparameters=merge(model, asked, seed=random_seed()),
        start="base",
        class_ids=model.signature.target.ids,
    )


def _for_classes_of(model: Model, job: Job, store: Store) -> dict[str, Any]:
    """A job's hyperparameters, without those by class if the classes may have changed since."""
    target = model.signature.target
    if target.class_ids is None or _classes_made_by(job, store) == target.ids:
        return job.hyperparameters
    return {name: value for name, value in job.hyperparameters.items() if name not in BY_CLASS}


def _classes_made_by(job: Job, store: Store) -> tuple[int, ...] | None:
    """The class ids of a job's version, None if it is not kept."""
    if job.version is None:
        return None
    try:
        return store.versions.get(job.model_id, job.version).target.ids
    except NotFound:
        return None


def _behind(store: Store, version: Version) -> Iterator[Job]:
    """The jobs that led to a version, newest first, as far back as versions are kept."""
    while version.job_id is not None:
        yield store.jobs.get(version.job_id)
        parent = version.provenance.get("parent_version")
        if parent is None:
            return
        try:
            version = store.versions.get(version.model_id, parent)
        except NotFound:
            return
