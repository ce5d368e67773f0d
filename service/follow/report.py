"""What a vendor learns of an upgrade, if a person allows it: one small report, never more.

It is OTLP in JSON (opentelemetry.io/docs/specs/otlp, "JSON Protobuf Encoding"), as collectors of
OpenTelemetry take it by HTTP. No sample, label, parameter or id of the device is in it.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from service.models.promotion.policy import gate_policy
from storage.errors import NotFound
from storage.records.follows import Follow
from storage.records.jobs import Job, JobState
from storage.records.models import Model
from storage.records.versions import Version
from storage.store import Store

DIGITS = 2
"""Of metrics: more would tell of single samples."""
DECIDED = (JobState.SUCCEEDED, JobState.FAILED)


def report_body(store: Store, follow: Follow, now: datetime) -> dict[str, Any] | None:
    """The report on the upgrade that was taken last; None until its job has ended. Blocking."""
    if follow.progress.job_id is None:
        return None
    try:
        job = store.jobs.get(follow.progress.job_id)
        model = store.models.get(follow.model)
        version = None if job.version is None else store.versions.get(model.id, job.version)
    except NotFound:  # deleted meanwhile
        return None
    if job.state not in DECIDED:
        return None
    figures = _figures(model, job, version)
    gauges = [_gauge(name, value, int(now.timestamp())) for name, value in figures.items()]
    scope = {"scope": {"name": "honed"}, "metrics": gauges}
    about = [_attribute(key, value) for key, value in _about(follow).items()]
    return {"resourceMetrics": [{"resource": {"attributes": about}, "scopeMetrics": [scope]}]}


def _about(follow: Follow) -> dict[str, str]:
    offered, taken = follow.progress.offered, follow.progress.taken
    digest = offered.sha256 if offered is not None and offered.version == taken else ""
    return {
        "service.name": "honed",
        "honed.model": follow.terms.name,
        "honed.base.version": str(taken),
        "honed.base.sha256": digest,
    }


def _figures(model: Model, job: Job, version: Version | None) -> dict[str, float]:
    """samples: rounded down to a power of two. before, after: of the gate's metric."""
    count = model.samples.train
    figures = {
        "honed.upgrade.promoted": float(bool(version is not None and version.promoted)),
        "honed.upgrade.failed": float(job.state is JobState.FAILED),
        "honed.upgrade.samples": float(1 << count.bit_length() >> 1),
    }
    metric = gate_policy(model).metric
    measured = {} if version is None else {"before": version.baseline, "after": version.metrics}
    for when, metrics in measured.items():
        if isinstance(value := metrics.get(metric), float):
            figures[f"honed.upgrade.{metric}.{when}"] = round(value, DIGITS)
    return figures


def _attribute(key: str, value: str) -> dict[str, Any]:
    return {"key": key, "value": {"stringValue": value}}


def _gauge(name: str, value: float, at_s: int) -> dict[str, Any]:
    point = {"timeUnixNano": str(at_s * 10**9), "asDouble": value}
    return {"name": name, "gauge": {"dataPoints": [point]}}
