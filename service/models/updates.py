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

    All of it, or nothing. Raises InvalidInput with every problem, unless there are as many names as
    classes and the metric is the model's, and StorageFull if the quota cannot be met.
    """

    def edit(now: Model) -> Model:
        new_gate = _checked(now, classes, gate)
        target = now.signature.target
        named = target if classes is None else replace(target, classes=tuple(classes))
        merged = {**now.hyperparameters, **hyperparameters}
        return replace(
            now,
            signature=replace(now.signature, target=named),
            hyperparameters={name: value for name, value in merged.items() if value is not None},
            gate=new_gate,
            retention={**now.retention, **retention},
            quota=replace(now.quota, **(quota or {})),
        )

    return store.models.change(model.name, edit)[0]


def _checked(model: Model, classes: Sequence[str] | None, gate: dict[str, Any]) -> dict[str, Any]:
    """The gate as it shall be. Raises InvalidInput with what is wrong with it and the classes."""
    problems: list[Problem] = []
    target = model.signature.target
    if classes is not None and len(set(classes)) != target.num_classes:
        wanted = f"{target.num_classes} different names" if target.num_classes else "no names"
        detail = f"{len(classes)} names given, the model takes {wanted}"
        problems.append(Problem("/classes", detail))
    merged: dict[str, Any] = {}
    try:
        merged = merge_gate(model.gate, gate, loss=model.loss)
    except InvalidInput as error:
        problems += error.problems
    if problems:
        raise InvalidInput("the change does not fit the model", problems=problems)
    return merged
