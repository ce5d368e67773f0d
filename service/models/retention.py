"""How many versions of a model are kept."""

from __future__ import annotations

import logging
from datetime import timedelta

from msgspec import Struct

from service.logs import event
from service.models.promotion.best import find_best
from storage.records.models import Model
from storage.store import Store
from storage.versions.retention import RetentionLimits

logger = logging.getLogger(__name__)


class RetentionPolicy(Struct, frozen=True):
    """None is no limit. max_versions: besides those that always stay, see docs/promotion.md."""

    max_versions: int | None = 20
    max_age_days: float | None = None
    max_bytes: int | None = None


def retention_policy(model: Model) -> RetentionPolicy:
    """The model's retention, with defaults for what it does not set."""
    return RetentionPolicy(**model.retention)


def prune(store: Store, model: Model) -> list[int]:
    """Remove the versions that the model's retention no longer allows; returns their numbers.

    The best promoted versions on the validation samples and on the base set stay: the gate measures
    candidates against them.
    """
    policy = retention_policy(model)
    limits = RetentionLimits(
        versions=policy.max_versions,
        age=None if policy.max_age_days is None else timedelta(days=policy.max_age_days),
        size_bytes=policy.max_bytes,
    )
    latest = store.versions.by_alias(model.id, "latest")
    bests = [find_best(store, model, latest=latest, on_base_set=base) for base in (False, True)]
    keep = [best.version for best in bests if best is not None]
    gone = store.retention.prune(model.id, limits, keep=keep)
    if gone:
        event(logger, logging.INFO, "versions.pruned", model=model.name, versions=gone)
    return gone


def prune_all(store: Store) -> None:
    """Prune every model: versions also age when no job runs."""
    for model in store.models.list():
        prune(store, model)
