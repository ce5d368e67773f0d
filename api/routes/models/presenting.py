"""Response bodies of what children found out about files and versions."""

from __future__ import annotations

from typing import Any

from api.schemas.diagnosis import (
    DiagnosisBody,
    SuggestedBody,
)
from api.schemas.versions import ComparisonBody
from service.models.version_comparison import SideBySide
from service.training.protocol.messages.comparison import ChangedSample
from service.training.protocol.messages.diagnosis import Diagnosed, Suggested
from storage.records.models import Model


def diagnosis_body(diagnosis: Diagnosed) -> DiagnosisBody:
    """What a file holds, and whether it could be registered."""
    prepared = diagnosis.prepared
    return DiagnosisBody.of(
        diagnosis,
        ready=prepared is not None and not diagnosis.problems,
        output=prepared and prepared.output,
        target=prepared and prepared.signature.target,
        suggested=diagnosis.suggested and _suggested(diagnosis.suggested),
        parameters=_parameters(diagnosis),
        cut=prepared and prepared.cut,
        notes=prepared.notes if prepared is not None else (),
    )


def _parameters(diagnosis: Diagnosed) -> dict[str, Any]:
    prepared = diagnosis.prepared
    if prepared is not None:
        trainable, frozen = prepared.trainable_parameters, prepared.frozen_parameters
    else:
        trainable = sum(each.count for each in diagnosis.initializers if each.trains)
        frozen = sum(each.count for each in diagnosis.initializers if not each.trains)
    return {"trainable": trainable, "frozen": frozen, "items": diagnosis.initializers}


def _suggested(suggestion: Suggested) -> SuggestedBody:
    own = suggestion.loss_output
    return SuggestedBody.of(suggestion, loss=suggestion.loss if own is None else {"output": own})


def comparison_body(model: Model, compared: SideBySide, limit: int) -> ComparisonBody:
    """Two versions, and up to `limit` samples of each side."""
    found = compared.found
    return ComparisonBody.of(
        found,
        model=model.name,
        versions=[compared.before.version, compared.after.version],
        classes=model.signature.target.classes,
        worse={"total": found.worse, "items": found.worse_samples[:limit]},
        better={"total": found.better, "items": found.better_samples[:limit]},
    )
