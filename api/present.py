"""Response bodies made of the store's rows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec.structs import asdict

from api import schemas
from api.schemas.access import AuditBody, NewTokenBody, TokenBody
from api.schemas.federation import ConsentBody
from api.schemas.samples import (
    BaseSetBody,
    DeletionBody,
    DriftBody,
    FeatureDriftBody,
    LabelCount,
    SampleBody,
    SamplesAccepted,
)
from service.access.principal import Principal, Scope
from service.federation.consent import consent_of
from service.models.promotion.policy import gate_policy
from service.models.retention import retention_policy
from service.samples.base_set import BaseSet
from service.samples.drift import DriftReport
from service.samples.ingest.intake import IngestResult
from service.samples.updates import shown_label
from storage.erasure.unlearning import Deletion
from storage.integrity import Damage
from storage.records.access import AuditEntry, Token
from storage.records.jobs import Job
from storage.records.models import Model, NamedLoss
from storage.records.samples import Sample
from storage.records.versions import Checkpoint, Variant, Version
from storage.samples.stats import LabelCount as CountOfLabel


def model(row: Model) -> schemas.ModelBody:
    """A model."""
    return schemas.ModelBody(
        name=row.name,
        created_at=row.created_at,
        inputs=[schemas.InputBody(**asdict(spec)) for spec in row.signature.inputs],
        target=schemas.TargetBody.model_validate(row.signature.target, from_attributes=True),
        loss=_loss(row),
        optimizer=row.hyperparameters.get("optimizer", row.optimizer),
        engine=row.engine,
        output=row.output,
        parameters=schemas.ParameterCounts(
            trainable=row.trainable_parameters,
            frozen=row.frozen_parameters,
            names=list(row.trainable),
        ),
        hyperparameters=row.hyperparameters,
        samples=schemas.SampleCountsBody(**asdict(row.samples)),
        latest_version=row.latest_version,
        gate=schemas.GateBody(**asdict(gate_policy(row))),
        retention=schemas.RetentionSettings(**asdict(retention_policy(row))),
        held_since=row.held_since,
        notes=list(row.notes),
        preprocess=list(row.preprocess),
        quota=schemas.QuotaSettings(**asdict(row.quota)),
        duplicates="keep" if row.keeps_duplicates else "merge",
        features=None if row.features is None else list(row.features),
        federation=ConsentBody(**asdict(consent_of(row))),
    )


def _loss(row: Model) -> NamedLoss | schemas.LossOutput:
    if row.loss == "output":
        return schemas.LossOutput(output=row.loss_output or "")
    return row.loss


def label_counts(row: Model, counts: Iterable[CountOfLabel]) -> list[LabelCount]:
    """Counts by split and label, with the names of classes."""
    classes = row.signature.target.classes
    return [
        LabelCount(
            split=split.value,
            label=label,
            name=classes[label] if classes is not None and label is not None else None,
            count=count,
        )
        for split, label, count in counts
    ]


def base_set(row: Model, found: BaseSet) -> BaseSetBody:
    """A model's base set."""
    return BaseSetBody(
        samples=row.samples.base,
        held_out=found.held_out,
        labels=label_counts(row, found.labels),
        changed_at=row.base_set_at if row.samples.base else None,
    )


def accepted(result: IngestResult, principal: Principal) -> SamplesAccepted:
    """The result of an upload; warnings tell of others' samples, so only with `samples:read`."""
    may_read = principal.has(Scope.SAMPLES_READ)
    return SamplesAccepted(
        accepted=result.accepted,
        duplicates=result.duplicates,
        ids=result.ids,
        rejected=result.rejected,
        errors=[schemas.FaultBody(**asdict(problem)) for problem in result.problems],
        evicted=result.evicted,
        conflicts=result.conflicts,
        warnings=list(result.warnings) if may_read else [],
    )


def sample(
    row: Sample,
    of: Model,
    *,
    uncertainty: float | None = None,
    doubt: float | None = None,
    predicted: int | None = None,
) -> SampleBody:
    """A sample of a model. uncertainty, doubt: see `SampleBody`; predicted: a class."""
    return SampleBody(
        id=row.id,
        key=row.key,
        split=row.split.value,
        label=shown_label(of, row.label),
        sha256=row.sha256,
        size_bytes=row.size_bytes,
        created_at=row.created_at,
        pinned=row.pinned,
        weight=row.weight,
        quarantine=row.quarantine,
        uncertainty=uncertainty,
        doubt=doubt,
        predicted=None if predicted is None else shown_label(of, predicted),
    )


def deletion(done: Deletion) -> DeletionBody:
    """The result of a deletion."""
    return DeletionBody(
        deleted=done.deleted,
        job=job(done.job) if done.job is not None else None,
        versions=list(done.versions),
    )


def job(row: Job) -> schemas.JobBody:
    """A job."""
    return schemas.JobBody(
        id=row.id,
        model=row.model,
        state=row.state.value,
        blocked_by=[schemas.BlockerBody(**asdict(blocker)) for blocker in row.blocked_by],
        trigger=row.trigger,
        priority=row.priority,
        ignore_policy=row.ignore_policy,
        hyperparameters={**row.hyperparameters, "from": row.start},
        choices=row.choices,
        watermark=row.watermark,
        progress=schemas.ProgressBody(**row.progress),
        metrics=schemas.MetricsBody(**row.metrics),
        version=row.version,
        engine=row.engine,
        restarts=row.restarts,
        error=schemas.JobErrorBody(**row.error) if row.error else None,
        created_at=row.created_at,
        started_at=row.started_at,
        finished_at=row.finished_at,
    )


def checkpoint(row: Checkpoint, of: Model) -> schemas.CheckpointBody:
    """A checkpoint of a model."""
    return schemas.CheckpointBody(
        id=row.id,
        model=of.name,
        job_id=row.job_id,
        role=row.role,
        step=row.step,
        epoch=row.epoch,
        engine=row.engine,
        sha256=row.file.sha256,
        size_bytes=row.file.size_bytes,
        pinned=row.pinned,
        note=row.note,
        created_at=row.created_at,
    )


def damage(known: Damage) -> schemas.DamageBody | None:
    """The known damage, if any."""
    return schemas.DamageBody(samples=known.samples, files=known.files) if known else None


def version(row: Version) -> schemas.VersionBody:
    """A version."""
    return schemas.VersionBody(
        model=row.model,
        version=row.version,
        sha256=row.file.sha256,
        size_bytes=row.file.size_bytes,
        stored_bytes=row.stored_bytes,
        created_at=row.created_at,
        job_id=row.job_id,
        metrics=row.metrics,
        baseline=row.baseline,
        aliases=list(row.aliases),
        promoted=row.promoted,
        reason=row.reason,
        verdict=row.verdict,
        provenance=row.provenance,
        classes=None if row.target.classes is None else list(row.target.classes),
        variants=[variant(each) for each in row.variants],
    )


def variant(row: Variant) -> schemas.VariantBody:
    """A variant of a version."""
    return schemas.VariantBody(
        variant=row.name,
        sha256=row.file and row.file.sha256,
        size_bytes=row.file and row.file.size_bytes,
        method=row.method,
        metrics=row.metrics,
        verdict=row.verdict,
        reason=row.reason,
        created_at=row.created_at,
    )


def alias(named: tuple[str, int]) -> schemas.AliasBody:
    """An alias and the number of its version."""
    name, version_number = named
    return schemas.AliasBody(alias=name, version=version_number)


def token(row: Token) -> TokenBody:
    """A token."""
    return TokenBody.model_validate(_token(row))


def new_token(row: Token, secret: str) -> NewTokenBody:
    """A token and its secret."""
    return NewTokenBody.model_validate({**_token(row), "secret": secret})


def _token(row: Token) -> dict[str, Any]:
    told = {name: value for name, value in asdict(row).items() if name in TokenBody.model_fields}
    return {**told, "limits": asdict(row.limits)}


def audit_entry(row: AuditEntry) -> AuditBody:
    """An entry of the audit log."""
    return AuditBody(**{**asdict(row), "previous": row.previous.hex(), "hash": row.hash.hex()})


def drift(report: DriftReport, model: Model) -> DriftBody:
    """How a model's inputs have drifted since its version was trained."""
    found = report.found
    return DriftBody(
        version=report.version,
        drifted=None if found is None or found.compared == 0 else report.has_drifted,
        training_samples=0 if found is None else found.training_samples,
        recent_samples=0 if found is None else found.recent_samples,
        compared=0 if found is None else found.compared,
        features=[
            FeatureDriftBody(**asdict(each), name=report.name_of(each, model))
            for each in (() if found is None else found.features)
        ],
    )
