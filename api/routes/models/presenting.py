"""Response bodies of what children found out about files and versions."""

from __future__ import annotations

from math import prod
from typing import Any, cast

from msgspec.structs import asdict

from api.schemas import FaultBody, LossOutput, TargetBody
from api.schemas.diagnosis import (
    CutBody,
    DiagnosisBody,
    HeadBody,
    InitializerBody,
    ParametersFound,
    RefusedNodeBody,
    SuggestedBody,
    TensorBody,
)
from api.schemas.versions import ChangedSampleBody, ChangedSamples, ComparisonBody
from service.models.version_comparison import SideBySide
from service.training.protocol.messages.diagnosis import Diagnosed, Suggested
from service.training.protocol.messages.versions import ChangedSample
from storage.records.models import Model, NamedLoss


def diagnosis_body(found: Diagnosed) -> DiagnosisBody:
    """What a file holds, and whether it could be registered."""
    made = found.prepared
    return DiagnosisBody(
        ready=made is not None and not found.problems,
        problems=[FaultBody(**asdict(each)) for each in found.problems],
        refused=[RefusedNodeBody(**asdict(each)) for each in found.refused],
        opset=found.opset,
        producer=found.producer,
        operators=found.operators,
        inputs=[TensorBody(**_listed(each)) for each in found.inputs],
        outputs=[TensorBody(**_listed(each)) for each in found.outputs],
        loss=found.loss,
        output=made and made.output,
        target=made and TargetBody.model_validate(made.signature.target, from_attributes=True),
        head=found.head and HeadBody(**asdict(found.head)),
        suggested=found.suggested and _suggested(found.suggested),
        parameters=_parameters(found),
        cut=None if made is None or made.cut is None else CutBody(**_listed(made.cut)),
        notes=[] if made is None else list(made.notes),
    )


def _parameters(found: Diagnosed) -> ParametersFound:
    items = [
        InitializerBody(**_listed(each), count=prod(each.shape)) for each in found.initializers
    ]
    made = found.prepared
    if made is not None:
        counts = made.trainable_parameters, made.frozen_parameters
    else:
        train = sum(each.count for each in items if each.trains)
        counts = train, sum(each.count for each in items) - train
    return ParametersFound(trainable=counts[0], frozen=counts[1], items=items)


def _suggested(found: Suggested) -> SuggestedBody:
    own = found.loss_output
    return SuggestedBody(
        loss=cast("NamedLoss", found.loss) if own is None else LossOutput(output=own),
        because=found.because,
        output=found.output,
        classes=None if found.classes is None else list(found.classes),
        preprocess=list(found.preprocess),
    )


def comparison_body(model: Model, compared: SideBySide, limit: int) -> ComparisonBody:
    """Two versions, and up to `limit` samples of each side."""
    found, classes = compared.found, model.signature.target.classes

    def changed(total: int, samples: tuple[ChangedSample, ...]) -> ChangedSamples:
        items = [ChangedSampleBody(**asdict(each)) for each in samples[:limit]]
        return ChangedSamples(total=total, items=items)

    return ComparisonBody(
        model=model.name,
        versions=[compared.before.version, compared.after.version],
        samples=found.samples,
        left_out=found.left_out,
        by=found.by,
        classes=None if classes is None else list(classes),
        before=found.before,
        after=found.after,
        worse=changed(found.worse, found.worse_samples),
        better=changed(found.better, found.better_samples),
    )


def _listed(row: Any) -> dict[str, Any]:
    """The fields of a row, with lists for tuples."""
    return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(row).items()}
