"""The best promoted version: the baseline that keeps small losses from adding up."""

from __future__ import annotations

from service.models.promotion.policy import GatePolicy, gate_policy, place_of
from service.training.tasks import METRICS
from service.training.tasks.task import figure_of
from storage.records.models import Model
from storage.records.versions import Version
from storage.store import Store

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
