"""Response bodies of what children found out about files and versions."""

from __future__ import annotations

from api.schemas.diagnosis import (
    DiagnosisBody,
    InitializerBody,
    ParametersFound,
    SuggestedBody,
)
from api.schemas.versions import ChangedSampleBody, ChangedSamples, ComparisonBody
from service.models.version_comparison import SideBySide
from service.training.protocol.messages.diagnosis import Diagnosed, Suggested
from service.training.protocol.messages.versions import ChangedSample
from storage.records.models import Model


def diagnosis_body(found: Diagnosed) -> DiagnosisBody:
    """What a file holds, and whether it could be registered."""
    made = found.prepared
    return DiagnosisBody.of(
        found,
        ready=made is not None and not found.problems,
        output=made and made.output,
        target=made and made.signature.target,
        suggested=found.suggested and _suggested(found.suggested),
        parameters=_parameters(found),
        cut=made and made.cut,
        notes=made.notes if made is not None else (),
    )


def _parameters(found: Diagnosed) -> ParametersFound:
    made = found.prepared
    if made is not None:
        trainable, frozen = made.trainable_parameters, made.frozen_parameters
    else:
        trainable = sum(each.count for each in found.initializers if each.trains)
        frozen = sum(each.count for each in found.initializers if not each.trains)
    items = [InitializerBody.of(each) for each in found.initializers]
    return ParametersFound(trainable=trainable, frozen=frozen, items=items)


def _suggested(found: Suggested) -> SuggestedBody:
    own = found.loss_output
    return SuggestedBody.of(found, loss=found.loss if own is None else {"output": own})


def comparison_body(model: Model, compared: SideBySide, limit: int) -> ComparisonBody:
    """Two versions, and up to `limit` samples of each side."""
    found, classes = compared.found, model.signature.target.classes

    def changed(total: int, samples: tuple[ChangedSample, ...]) -> ChangedSamples:
        return ChangedSamples(
            total=total, items=[ChangedSampleBody.of(each) for each in samples[:limit]]
        )

    return ComparisonBody.of(
        found,
        model=model.name,
        versions=[compared.before.version, compared.after.version],
        classes=classes,
        worse=changed(found.worse, found.worse_samples),
        better=changed(found.better, found.better_samples),
    )
