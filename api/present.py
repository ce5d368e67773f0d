"""Response bodies made of the store's rows, and of what children found out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from api.schemas.access import AuditBody
from api.schemas.diagnosis import DiagnosisBody, SuggestedBody
from api.schemas.jobs import CheckpointBody, JobBody
from api.schemas.models import ModelBody
from api.schemas.samples import (
    BaseSetBody,
    DeletionBody,
    DriftBody,
    FeatureDriftBody,
    LabelCount,
    SampleBody,
    SamplesAccepted,
)
from api.schemas.versions import AliasBody, ComparisonBody, VariantBody, VersionBody
from service.access.principal import Principal, Scope
from service.federation.consent import consent_of
from service.models.promotion.best import retention_policy
from service.models.promotion.policy import gate_policy
from service.models.version_comparison import SideBySide
from service.samples.base_set import BaseSet
from service.samples.drift import DriftReport
from service.samples.ingest.intake import IngestResult
from service.samples.updates import shown_label
from service.training.protocol.messages.comparison import Drifted
from service.training.protocol.messages.diagnosis import Diagnosed, Suggested
from storage.erasure.unlearning import Deletion
from storage.records.access import AuditEntry
from storage.records.jobs import Job
from storage.records.models import Model
from storage.records.samples import Sample
from storage.records.versions import Checkpoint, Version
from storage.samples.stats import LabelCount as CountOfLabel


def model(row: Model) -> ModelBody:
    """A model."""
    return ModelBody.of(
        row,
        inputs=row.signature.inputs,
        target=row.signature.target,
        loss=row.loss if row.loss_output is None else {"output": row.loss_output},
        optimizer=row.hyperparameters.get("optimizer", row.optimizer),
        parameters={
            "trainable": row.trainable_parameters,
            "frozen": row.frozen_parameters,
            "names": row.trainable,
        },
        gate=gate_policy(row),
        retention=retention_policy(row),
        duplicates="keep" if row.keeps_duplicates else "merge",
        federation=consent_of(row),
    )


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


def base_set(row: Model, contents: BaseSet) -> BaseSetBody:
    """A model's base set."""
    return BaseSetBody(
        samples=row.samples.base,
        held_out=contents.held_out,
        labels=label_counts(row, contents.labels),
        changed_at=row.base_set_at if row.samples.base else None,
    )


def accepted(result: IngestResult, principal: Principal) -> SamplesAccepted:
    """The result of an upload; warnings tell of others' samples, so only with `samples:read`."""
    warnings = result.warnings if principal.has(Scope.SAMPLES_READ) else ()
    return SamplesAccepted.of(result, errors=result.problems, warnings=warnings)


def sample(
    row: Sample, of: Model, *, predicted: int | None = None, **ranked: float | None
) -> SampleBody:
    """A sample of a model. predicted: a class. ranked: uncertainty or doubt, see `SampleBody`."""
    return SampleBody.of(
        row,
        label=shown_label(of, row.label),
        predicted=None if predicted is None else shown_label(of, predicted),
        **ranked,
    )


def deletion(done: Deletion) -> DeletionBody:
    """The result of a deletion."""
    return DeletionBody.of(done, job=job(done.job) if done.job is not None else None)


def job(row: Job) -> JobBody:
    """A job. One that has ended, such as by early stopping, has no time left."""
    progress = row.progress if row.finished_at is None else {**row.progress, "eta_seconds": None}
    asked = {**row.hyperparameters, "from": row.start}
    return JobBody.of(row, progress=progress, hyperparameters=asked)


def checkpoint(row: Checkpoint, of: Model) -> CheckpointBody:
    """A checkpoint of a model."""
    return CheckpointBody.of(row, model=of.name)


def version(row: Version) -> VersionBody:
    """A version."""
    variants = [VariantBody.of(variant, variant=variant.name) for variant in row.variants]
    return VersionBody.of(row, classes=row.target.classes, variants=variants)


def alias(named: tuple[str, int]) -> AliasBody:
    """An alias and the number of its version."""
    name, version_number = named
    return AliasBody(alias=name, version=version_number)


def audit_entry(row: AuditEntry) -> AuditBody:
    """An entry of the audit log."""
    return AuditBody.of(row, previous=row.previous.hex(), hash=row.hash.hex())


def drift(report: DriftReport, model: Model) -> DriftBody:
    """How a model's inputs have drifted since its version was trained."""
    found = report.found or Drifted(training_samples=0, recent_samples=0, features=())
    return DriftBody.of(
        found,
        version=report.version,
        drifted=report.has_drifted if found.compared else None,
        features=[
            FeatureDriftBody.of(feature, name=report.name_of(feature, model))
            for feature in found.features
        ],
    )


def diagnosis(found: Diagnosed) -> DiagnosisBody:
    """What a file holds, and whether it could be registered."""
    prepared = found.prepared
    return DiagnosisBody.of(
        found,
        ready=prepared is not None and not found.problems,
        output=prepared and prepared.output,
        target=prepared and prepared.signature.target,
        suggested=found.suggested and _suggested(found.suggested),
        parameters=_parameters(found),
        cut=prepared and prepared.cut,
        notes=prepared.notes if prepared is not None else (),
    )


def _parameters(found: Diagnosed) -> dict[str, Any]:
    prepared = found.prepared
    if prepared is not None:
        trainable, frozen = prepared.trainable_parameters, prepared.frozen_parameters
    else:
        trainable = sum(each.count for each in found.initializers if each.trains)
        frozen = sum(each.count for each in found.initializers if not each.trains)
    return {"trainable": trainable, "frozen": frozen, "items": found.initializers}


def _suggested(suggestion: Suggested) -> SuggestedBody:
    own = suggestion.loss_output
    return SuggestedBody.of(suggestion, loss=suggestion.loss if own is None else {"output": own})


def comparison(of: Model, compared: SideBySide, limit: int) -> ComparisonBody:
    """Two versions, and up to `limit` samples of each side."""
    found = compared.found
    return ComparisonBody.of(
        found,
        model=of.name,
        versions=[compared.before.version, compared.after.version],
        classes=of.signature.target.classes,
        worse={"total": found.worse, "items": found.worse_samples[:limit]},
        better={"total": found.better, "items": found.better_samples[:limit]},
    )
