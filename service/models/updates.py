"""Changes to a registered model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from service.errors import InvalidInput
from service.federation.consent import merge_consent
from service.models.hyperparameters import check_hyperparameters
from service.models.preprocess_change import change_of
from service.models.promotion.policy import merge_gate
from service.samples.ingest.csv_header import check_features
from service.samples.ingest.csv_windows import row_signature
from service.training.tasks import TASKS
from storage.errors import Problem
from storage.records.models import Model
from storage.records.samples import UNSET, Unset
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
    keeps_duplicates: bool | None = None,
    features: Sequence[str] | Unset | None = UNSET,
    federation: dict[str, Any] | None = None,
    preprocess: Sequence[dict[str, Any]] | None = None,
) -> Model:
    """Merge hyperparameters (None removes one), gate, retention, quota, consent to federated
    training; name classes, columns.

    All or nothing. Raises InvalidInput with every problem, such as a wrong number of names or a
    metric that the model does not have, StateConflict for a second federation, StorageFull if the
    quota cannot be met, and InUse for preprocessing while a job is under way.
    """
    preprocessed = change_of(store, model, preprocess)

    def edit(now: Model) -> Model:
        new_gate, new_features = _checked(now, classes, gate, features)
        target = now.signature.target
        named = target if classes is None else replace(target, classes=tuple(classes))
        merged = {**now.hyperparameters, **hyperparameters}
        check_hyperparameters(now, hyperparameters, at="/hyperparameters")
        return replace(
            now,
            signature=replace(now.signature, target=named),
            hyperparameters={name: value for name, value in merged.items() if value is not None},
            gate=new_gate,
            retention={**now.retention, **retention},
            quota=replace(now.quota, **(quota or {})),
            keeps_duplicates=now.keeps_duplicates if keeps_duplicates is None else keeps_duplicates,
            features=now.features if isinstance(features, Unset) else new_features,
            federation=merge_consent(now.federation, federation or {}),
            preprocess=preprocessed(now),
        )

    return store.models.change(model.name, edit)[0]


def _checked(
    model: Model,
    classes: Sequence[str] | None,
    gate: dict[str, Any],
    features: Sequence[str] | Unset | None,
) -> tuple[dict[str, Any], tuple[str, ...] | None]:
    """The new gate and features. Raises InvalidInput with everything that is wrong."""
    problems: list[Problem] = []
    target = model.signature.target
    names_taken = TASKS[model.loss].name_count(target)
    if classes is not None and len(set(classes)) != names_taken:
        wanted = f"{names_taken} different names" if names_taken else "no names"
        detail = f"{len(classes)} names given, the model takes {wanted}"
        problems.append(Problem("/classes", detail))
    merged: dict[str, Any] = {}
    names: tuple[str, ...] | None = None
    try:
        merged = merge_gate(model.gate, gate, loss=model.loss, classes=target.classes)
    except InvalidInput as error:
        problems += error.problems
    try:
        given = None if isinstance(features, Unset) else features
        rows = row_signature(model.signature, model.preprocess)
        names = check_features(rows, given, at="/features")
    except InvalidInput as error:
        problems += error.problems
    if problems:
        raise InvalidInput("the change does not fit the model", problems=problems)
    return merged, names
