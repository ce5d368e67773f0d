"""Response bodies of rounds, consent and spent privacy."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from api import present
from api.schemas.federation import FederationBody, RoundBody, SpentBody, TermsBody
from service.federation.accounting import epsilon_spent
from service.federation.consent import consent_of
from storage.records.federation import PrivacySpent, Round
from storage.records.jobs import JobState
from storage.records.models import Model

OF_JOBS = (
    *("id", "model", "state", "blocked_by", "hyperparameters", "progress", "error"),
    *("created_at", "started_at", "finished_at"),
)
"""The fields of its job that a round shows."""


def federation_body(row: Model, spent: PrivacySpent, rounds_today: int) -> FederationBody:
    """A model's consent, and the privacy that was spent."""
    consent = consent_of(row)
    return FederationBody.of(
        consent,
        spent=SpentBody(
            epsilon=None if spent.unnoised else epsilon_spent(spent, delta=consent.delta),
            rounds=spent.rounds,
            rounds_without_noise=spent.unnoised,
        ),
        rounds_today=rounds_today,
    )


def figures(metrics: dict[str, Any] | None) -> dict[str, Any] | None:
    """The scalar metrics: those per class would reveal which classes a device has."""
    return metrics and {name: each for name, each in metrics.items() if not isinstance(each, list)}


def round_body(row: Round, *, has_update: bool, different: int = 0) -> RoundBody:
    """A round, without its norms, which only the audit log records, and without what its job tells
    of the training samples: the loss of a last epoch may be that of one sample.

    different: how many of the model's validation samples differ.
    """
    ended, late = row.job.finished_at, row.deadline
    if row.job.state is JobState.CANCELLED and ended and late and ended >= late:
        passed = {"code": "deadline_passed", "detail": "the deadline passed before it was done"}
        row = replace(row, job=replace(row.job, error=passed))
    shown = present.job(row.job)
    return RoundBody(
        **{name: getattr(shown, name) for name in OF_JOBS},
        federation=row.federation,
        round=row.number,
        deadline=row.deadline,
        metrics={
            "ended": row.job.metrics.get("ended"),
            **{
                name: _of_enough(row, row.job.metrics.get(name), different)
                for name in ("validation", "baseline")
            },
        },
        terms=TermsBody(**row.terms),
        **{name: row.outcome.get(name) for name in ("samples", "bytes", "raw_bytes", "epsilon")},
        has_update=has_update,
    )


def _of_enough(row: Round, metrics: dict[str, Any] | None, different: int) -> dict[str, Any] | None:
    """The figures, None for those of fewer samples than may leave."""
    few = (
        metrics is not None and min(metrics.get("samples", 0), different) < row.terms["min_samples"]
    )
    return None if few else figures(metrics)
