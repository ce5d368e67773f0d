"""Changes to a registered model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import UNSET, UnsetType
from msgspec.structs import astuple, replace

from service import preprocess
from service.errors import InvalidInput
from service.federation.consent import merge_consent
from service.models.hyperparameters import check_hyperparameters
from service.models.promotion.policy import merge_gate
from service.preprocess.text_inputs import LEAVE_OUT, is_text
from service.samples.ingest.require import require_names
from service.samples.ingest.windows import check_channels
from service.training.tasks import TASKS
from storage.errors import InUse, Problem, in_full
from storage.records.jobs import JobState, Trigger
from storage.records.models import Model
from storage.records.signatures import TargetSpec
from storage.store import Store

Description = Mapping[str, Any]
CHANGEABLE = ("augment", LEAVE_OUT)
"""Fields that may change at any time: no version or stored sample depends on them."""
UNDER_WAY = (JobState.RUNNING, JobState.PAUSED)


def _is_settled(store: Store, model: Model) -> bool:
    """Whether samples or trained versions depend on the current preprocessing.

    Raises InUse while a job is under way: it would continue on different samples.
    """
    for job in store.jobs.list(model=model.name, states=UNDER_WAY, limit=1):
        raise InUse(f"job {job.id} of {model.name!r} is {job.state.value}; let it end first")
    return any(astuple(model.samples)) or len(store.versions.list(model.id, 2)) > 1


def _checked_preprocess(
    model: Model, descriptions: Sequence[Description], *, is_settled: bool
) -> tuple[dict[str, Any], ...]:
    """The new descriptions, complete. Raises InvalidInput with every error."""
    is_cut = "prefix_model" in model.files
    try:
        text = next(filter(is_text, model.preprocess), None)
        wanted = preprocess.parse(descriptions, model.signature, is_cut=is_cut, text=text)
        require_names(model.signature, wanted)
    except InvalidInput as wrong:
        problems = [
            Problem(each.pointer.removeprefix("/spec"), each.detail) for each in wrong.problems
        ]
        raise InvalidInput(wrong.detail, problems=problems) from wrong
    problems = list(_unlike(model.preprocess, wanted)) if is_settled else []
    if problems:
        raise InvalidInput("the preprocessing cannot be changed any more", problems=problems)
    return wanted


def _unlike(before: Sequence[Description], wanted: Sequence[Description]) -> Iterator[Problem]:
    """A problem for each changed field that samples or versions depend on."""
    known = {description["input"]: description for description in before}
    for place, now in enumerate(wanted):
        at = f"/preprocess/{place}" if len(wanted) > 1 else "/preprocess"
        then = known.pop(now["input"], {})
        for name in sorted((now.keys() | then.keys()) - {*CHANGEABLE}):
            if now.get(name) != then.get(name):
                yield Problem(f"{at}/{name}", _hangs(f"{name} {then.get(name)}"))
    for name in known:
        yield Problem("/preprocess", _hangs(f'the preprocessing of "{name}"'))


def _hangs(what: str) -> str:
    return (
        f"samples or versions were made with {what}: from then on only "
        f"{' and '.join(CHANGEABLE)} change;"
        " register the model under another name"
    )


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
    features: Sequence[str] | UnsetType | None = UNSET,
    federation: dict[str, Any] | None = None,
    preprocess: Sequence[dict[str, Any]] | None = None,
) -> Model:
    """Merge hyperparameters (None removes one), gate, retention, quota, consent to federated
    training; name classes, columns.

    All or nothing. Raises InvalidInput with every problem, such as a wrong number of names or a
    metric that the model does not have, StateConflict for a second federation, StorageFull if the
    quota cannot be met, and InUse for preprocessing while a job is under way.
    """
    is_settled = preprocess is not None and _is_settled(store, model)
    triggers = store.triggers.list(model.id)

    def edit(now: Model) -> Model:
        target = now.signature.target
        named = target if classes is None else replace(target, classes=tuple(classes))
        new_gate, new_features = _checked(now, named, gate, features)
        return replace(
            now,
            signature=replace(now.signature, target=named),
            hyperparameters=_defaults(now, hyperparameters, triggers),
            gate=new_gate,
            retention={**now.retention, **retention},
            quota=replace(now.quota, **(quota or {})),
            keeps_duplicates=now.keeps_duplicates if keeps_duplicates is None else keeps_duplicates,
            features=now.features if features is UNSET else new_features,
            federation=merge_consent(now.federation, federation or {}),
            preprocess=now.preprocess
            if preprocess is None
            else _checked_preprocess(now, preprocess, is_settled=is_settled),
        )

    return store.models.change(model.name, edit)[0]


def _defaults(model: Model, change: dict[str, Any], triggers: Sequence[Trigger]) -> dict[str, Any]:
    """The model's hyperparameters after a change. Raises InvalidInput if it, or a trigger that can
    now, could not train with them.
    """
    if not change:
        return model.hyperparameters
    merged = {**model.hyperparameters, **change}
    own = {name: value for name, value in merged.items() if value is not None}
    after, asked = replace(model, hyperparameters=own), dict(change)
    if "weight_decay" in change:  # without which decays say nothing
        asked["decays"] = own.get("decays")
    check_hyperparameters(after, asked, at="/hyperparameters")
    for trigger in triggers:
        said = _refusal(after, trigger.hyperparameters)
        if said and not _refusal(model, trigger.hyperparameters):
            detail = f"trigger {trigger.id} could train no more; change it first: {said}"
            title = "the change does not fit a trigger"
            raise InvalidInput.at("/hyperparameters", detail, title=title)
    return own


def _refusal(model: Model, asked: Mapping[str, Any]) -> str:
    """Why the model cannot train so; empty if it can."""
    try:
        check_hyperparameters(model, asked)
    except InvalidInput as wrong:
        return in_full(wrong)
    return ""


def _checked(
    model: Model,
    target: TargetSpec,
    gate: dict[str, Any],
    features: Sequence[str] | UnsetType | None,
) -> tuple[dict[str, Any], tuple[str, ...] | None]:
    """The new gate and features. target: the new one, whose names the gate may use. Raises
    InvalidInput with everything that is wrong.
    """
    problems: list[Problem] = []
    names_taken, classes = TASKS[model.loss].name_count(target), target.classes or ()
    is_new = target != model.signature.target
    if is_new and not len(set(classes)) == len(classes) == names_taken:
        wanted = f"{names_taken} different names" if names_taken else "no names"
        detail = f"{len(classes)} names given, the model takes {wanted}"
        problems.append(Problem("/classes", detail))
    merged: dict[str, Any] = {}
    names: tuple[str, ...] | None = None
    try:
        merged = merge_gate(model.gate, gate, loss=model.loss, target=target)
    except InvalidInput as error:
        problems += error.problems
    try:
        channels = None if features is UNSET else features
        names = check_channels(model.signature, model.preprocess, channels, at="/features")
    except InvalidInput as error:
        problems += error.problems
    if problems:
        raise InvalidInput("the change does not fit the model", problems=problems)
    return merged, names
