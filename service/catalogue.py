"""What people change of a registered model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from service.errors import InvalidInput
from storage.errors import Problem
from storage.records import Model
from storage.store import Store


def change_model(
    store: Store,
    model: Model,
    *,
    hyperparameters: dict[str, Any],
    classes: Sequence[str] | None,
) -> Model:
    """Merge default hyperparameters (None takes one away) and name the classes.

    Raises InvalidInput unless there are as many names as classes.
    """
    target = model.signature.target
    if classes is not None and len(set(classes)) != target.num_classes:
        wanted = f"{target.num_classes} different names" if target.num_classes else "no names"
        problem = Problem("/classes", f"{len(classes)} names given, the model takes {wanted}")
        raise InvalidInput("the classes do not fit the model", problems=[problem])
    merged = {**model.hyperparameters, **hyperparameters}
    return store.models.update(
        model.name,
        hyperparameters={name: value for name, value in merged.items() if value is not None},
        classes=tuple(classes) if classes is not None else None,
    )
