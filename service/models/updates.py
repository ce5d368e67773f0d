"""What people change of a registered model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from service.errors import InvalidInput
from service.models.promotion.policy import merge_gate
from storage.errors import Problem
from storage.records.models import Model
from storage.store import Store


def change_model(
    store: Store,
    model: Model,
    *,
    hyperparameters: dict[str, Any],
    classes: Sequence[str] | None,
    gate: dict[str, Any],
    retention: dict[str, Any],
    quota: dict[str, Any] | None = None,
) -> Model:
    """Merge hyperparameters (None takes one away), gate, retention and quota; name the classes.

    Raises InvalidInput unless there are as many names as classes, and the metric is the model's.
    """
    target = model.signature.target
    if classes is not None and len(set(classes)) != target.num_classes:
        wanted = f"{target.num_classes} different names" if target.num_classes else "no names"
        problem = Problem("/classes", f"{len(classes)} names given, the model takes {wanted}")
        raise InvalidInput("the classes do not fit the model", problems=[problem])
    if quota:
        store.samples.set_quota(model.id, replace(model.quota, **quota))
    merged = {**model.hyperparameters, **hyperparameters}
    return store.models.update(
        model.name,
        hyperparameters={name: value for name, value in merged.items() if value is not None},
        classes=tuple(classes) if classes is not None else None,
        gate=merge_gate(model.gate, gate, loss=model.loss) if gate else None,
        retention={**model.retention, **retention} if retention else None,
    )
