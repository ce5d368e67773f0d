"""Whether a new base fits a model: its inputs and target must take the samples that are stored."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from service.errors import InvalidInput
from service.models.hyperparameters import check_hyperparameters
from service.models.specification import ModelSpec, described, only_adapters, prepare_task
from service.models.upgrade.spec import UpgradeSpec
from service.preprocess import for_model
from service.preprocess.text_inputs import OF_TOKENIZER, ROLES, is_text
from service.training.protocol.messages.preparation import Prepare, Prepared
from service.training.tasks import TASKS
from storage.errors import Problem, pointer
from storage.records.models import Model, NewModel
from storage.records.signatures import Signature, TargetSpec

Description = Mapping[str, Any]
NOT_STORED = ("augment", "mean", "std", "learn_from")
"""Fields of tensors' preprocessing that no stored sample depends on."""
DERIVED = frozenset({"size", "input", *ROLES, *OF_TOKENIZER})
"""Fields of files' preprocessing that follow from the file and its tokenizer, unless given."""


def upgrade_task(
    model: Model, spec: UpgradeSpec, source: Path, *, work_dir: Path, tokenizer: Path | None
) -> Prepare:
    """The check of the file, which makes its artifacts. Raises InvalidInput.

    Its head gets a row for each of the model's classes: the file's own by name, a neutral one for a
    class that it does not have. tokenizer: of a model of texts.
    """
    if any(map(is_text, model.preprocess)):
        described_so = _preprocess(model, spec)
    else:  # Axes that the file leaves open are as the samples are.
        changed = spec.descriptions[0] if for_model(model).files and spec.descriptions else {}
        described_so = tuple({**then, **changed} for then in model.preprocess)
    known = replace(_as_registered(model, spec), preprocess=described_so)
    target, rows = model.signature.target, _row_ids(model, spec)
    is_same = rows is None or rows == target.ids == tuple(range(len(target.ids)))
    # Where the output tells how many there are, without names: so another number of classes is
    # told with all else.
    if is_same and (TASKS[model.loss].has_classes or target.box_classes):
        known = replace(known, classes=None)
    task = prepare_task(known, source, "forward", work_dir=work_dir, tokenizer=tokenizer)
    return task if is_same else replace(task, class_ids=target.ids, row_ids=rows)


def _as_registered(model: Model, spec: UpgradeSpec) -> ModelSpec:
    """The spec by which the file would be registered as a model with these settings."""
    return ModelSpec(
        name=model.name,
        loss=model.loss,
        loss_output=model.loss_output if spec.loss is None else spec.loss.output,
        optimizer=model.optimizer,
        output=spec.output,
        trainable=spec.patterns,
        lora=only_adapters(spec.adapters),
        classes=model.signature.target.classes,
        hyperparameters=model.hyperparameters,
        keeps_duplicates=model.keeps_duplicates,
        features=model.features,
        batch_norm=spec.batch_norm,
    )


def _row_ids(model: Model, spec: UpgradeSpec) -> tuple[int, ...] | None:
    """The model's id of each class of the file, None if the task has no head of classes.

    Raises InvalidInput.
    """
    target, classes = model.signature.target, spec.classes or None
    if not TASKS[model.loss].has_classes:
        if classes is not None and classes != target.classes:
            names = "none" if target.classes is None else ", ".join(target.classes)
            raise _wrong(Problem("/spec/classes", f"the model's are {names}; leave them out"))
        return None
    if classes is None:
        return target.ids
    if target.classes is None:
        detail = "the model's classes have no names; give them some first, with PATCH"
        raise _wrong(Problem("/spec/classes", detail))
    if len({*classes}) < len(classes):
        raise _wrong(Problem("/spec/classes", "a name stands twice"))
    if not {*classes} & {*target.classes}:
        detail = f"none of them is one of the model's, which are {', '.join(target.classes[:20])}"
        raise _wrong(Problem("/spec/classes", detail))
    ids = dict(zip(target.classes, target.ids, strict=True))
    return tuple(ids.get(name, -1) for name in classes)


def fitted(model: Model, spec: UpgradeSpec, prepared: Prepared) -> NewModel:
    """The model on its new base, without files. Raises InvalidInput with everything wrong."""
    new_signature = replace(prepared.signature, target=model.signature.target)
    problems = [
        *_input_problems(model, new_signature),
        *_target_problems(model.signature.target, prepared.signature.target),
    ]
    preprocess: tuple[dict[str, Any], ...] = ()
    try:
        preprocess = _preprocess(model, spec)
    except InvalidInput as error:
        problems += error.problems
    if not problems:
        try:
            known = replace(_as_registered(model, spec), preprocess=preprocess)
            new = described(known, replace(prepared, signature=new_signature))
            check_hyperparameters(new, spec.hyperparameters, at="/spec/hyperparameters")
        except InvalidInput as error:
            problems += error.problems
    if problems:
        raise InvalidInput("the file does not fit the model", problems=problems)
    return new


def on_base(model: Model, new: NewModel) -> Model:
    """The model as it is on the new base."""
    names = NewModel.__struct_fields__
    kept = ("name", "gate", "retention", "hyperparameters", "keeps_duplicates", "features")
    taken = {name: getattr(new, name) for name in names if hasattr(model, name)}
    return replace(model, **{name: value for name, value in taken.items() if name not in kept})


def _input_problems(model: Model, new: Signature) -> Iterator[Problem]:
    """Stored files become any input; stored tensors are what the inputs must take."""
    kind = for_model(model).files
    if kind is not None:
        if len(new.inputs) > 1 and not kind.feeds_several:
            names = ", ".join(f'"{spec.name}"' for spec in new.inputs)
            detail = f"the samples are files, for one input; the file has {names}"
            yield Problem("/model/graph/input", detail)
        return
    before = model.signature.inputs
    if [spec.name for spec in before] != [spec.name for spec in new.inputs]:
        wanted, named = (
            ", ".join(f'"{spec.name}"' for spec in inputs) for inputs in (before, new.inputs)
        )
        detail = f"the inputs are {named}, and the samples hold {wanted}; name them so, in order"
        yield Problem("/model/graph/input", detail)
        return
    for then, now in zip(before, new.inputs, strict=True):
        if (then.dtype, then.shape) != (now.dtype, now.shape):
            yield Problem(
                "/model/graph/input" + pointer(now.name),
                f'input "{now.name}" is {now.dtype} {[*now.shape]}, and the samples hold'
                f" {then.dtype} {[*then.shape]}",
            )


def _target_problems(before: TargetSpec, new: TargetSpec) -> Iterator[Problem]:
    then, now = (target.box_classes or target.num_classes for target in (before, new))
    if then != now and before.shape == new.shape:
        advice = "" if before.box_classes else f"; name all {now} in the spec's classes"
        detail = f"it tells apart {now} classes, and the model {then}{advice}"
        yield Problem("/model/graph/output", detail)
    elif (before.dtype, before.shape) != (new.dtype, new.shape) or (
        before.may_ignore and not new.may_ignore
    ):
        yield Problem(
            "/model/graph/output",
            f"its labels are {new.dtype} {[*new.shape]}, and those of the samples"
            f" {before.dtype} {[*before.shape]}",
        )


def _preprocess(model: Model, spec: UpgradeSpec) -> tuple[dict[str, Any], ...]:
    """The model's descriptions, with what the spec changes. Raises InvalidInput."""
    before, descriptions = model.preprocess, list(spec.descriptions)
    if not before and descriptions:
        detail = "the samples were stored without preprocessing; leave it out"
        raise _wrong(Problem("/spec/preprocess", detail))
    if for_model(model).files is not None:
        (then,) = before
        kept = {name: value for name, value in then.items() if name not in DERIVED}
        changed = descriptions[0] if descriptions else {}
        _require_kind(then, changed)
        return ({**kept, **changed},)
    return tuple(_of_tensors(then, descriptions) for then in before)


def _of_tensors(then: dict[str, Any], asked: Sequence[Description]) -> dict[str, Any]:
    alone = len(asked) == 1 and "input" not in asked[0]
    changed = next((each for each in asked if alone or each.get("input") == then["input"]), {})
    _require_kind(then, changed)
    problems = [
        Problem(f"/spec/preprocess/{name}", f"the samples were stored with {name} {then.get(name)}")
        for name, value in changed.items()
        if name not in NOT_STORED and value != then.get(name)
    ]
    if problems:
        raise _wrong(*problems)
    return {**then, **changed}


def _require_kind(then: Description, changed: Description) -> None:
    if changed.get("kind", then["kind"]) != then["kind"]:
        detail = f"the samples are of kind {then['kind']}; another model takes others"
        raise _wrong(Problem("/spec/preprocess/kind", detail))


def _wrong(*problems: Problem) -> InvalidInput:
    return InvalidInput("the file does not fit the model", problems=list(problems))
