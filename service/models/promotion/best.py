"""The best promoted version: the baseline that keeps small losses from adding up. It stays when
older versions are removed.
"""

from __future__ import annotations

import logging

from service.logs import event
from service.models.promotion.policy import GatePolicy, gate_policy, place_of
from service.training.tasks import METRICS
from service.training.tasks.task import figure_of
from storage.records.models import Model
from storage.records.versions import Version
from storage.store import Store
from storage.versions.retention import RetentionPolicy

logger = logging.getLogger(__name__)

VERSIONS_AT_ONCE = 1000


def find_best(
    store: Store, model: Model, *, latest: Version, on_base_set: bool = False
) -> Version | None:
    """The best promoted version, None if that is `latest` itself.

    Best by the gate's metric as measured when the version was made, on the validation samples or
    on the base set; the newest of equals.
    Versions newer than `latest` do not count, since a person has rolled them back; nor do damaged
    ones.
    """
    policy = gate_policy(model)
    known = store.versions.list(model.id, VERSIONS_AT_ONCE)
    scores = _scores(known, policy, on_base_set=on_base_set)
    promoted = [each for each in known if each.promoted and each.version <= latest.version]
    measured = [version for version in promoted if version.version in scores]
    measured.sort(key=lambda version: (scores[version.version], version.version), reverse=True)
    best = next((each for each in measured if store.integrity.is_whole(each.file.sha256)), None)
    return None if best is None or best.version == latest.version else best


def _scores(versions: list[Version], policy: GatePolicy, *, on_base_set: bool) -> dict[int, float]:
    """Version → its figure, higher is better. That of version 1 comes from comparisons with it,
    since it was not measured when registered.

    A version's target is the model's when they were measured.
    """
    found = [
        (each.verdict.get("baseline_version"), each.baseline, each.target) for each in versions
    ]
    found += [(each.version, each.metrics, each.target) for each in versions]
    scores: dict[int, float] = {}
    for number, metrics, target in found:
        measured = metrics.get("base_set") or {} if on_base_set else metrics
        figure = figure_of(measured, policy.metric, place_of(policy.label, target.classes))
        if number is not None and figure is not None:
            scores[number] = METRICS[policy.metric].gain(0.0, figure)
    return scores


def retention_policy(model: Model) -> RetentionPolicy:
    """The model's retention, with defaults for what it does not set."""
    return RetentionPolicy(**model.retention)


def prune(store: Store, model: Model) -> list[int]:
    """Remove the versions that the model's retention no longer allows; returns their numbers.

    The best promoted versions on the validation samples and on the base set stay: the gate measures
    candidates against them.
    """
    latest = store.versions.by_alias(model.id, "latest")
    bests = [find_best(store, model, latest=latest, on_base_set=base) for base in (False, True)]
    keep = [best.version for best in bests if best is not None]
    gone = store.retention.prune(model.id, retention_policy(model), keep=keep)
    if gone:
        event(logger, logging.INFO, "versions.pruned", model=model.name, versions=gone)
    return gone


def prune_all(store: Store) -> None:
    """Prune every model: versions also age when no job runs."""
    for model in store.models.list():
        prune(store, model)
