"""The hyperparameters of a job: a request's and its model's own, checked and merged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Annotated, Any, get_args

from msgspec import Meta, Struct, defstruct
from msgspec.structs import asdict

from service.errors import InvalidInput
from service.training.heads.kinds import ALL_HEADS, head_problems, is_computed, plain
from service.training.hyperparameters import ABOUT, FIXED, LENGTHS, Hyperparameters, declared
from service.training.optimizer.options import loss_problems, problems
from service.training.tasks import TASKS, losses
from storage.errors import Problem
from storage.records.models import Model, NewModel

DEFAULT_EPOCHS = 5
OF_TASKS = frozenset().union(*(task.options for task in TASKS.values()))
"""Options that only some tasks take."""
IS_FIXED = (
    "{name} is fixed in the artifacts of Microsoft's tools that this model came as; leave it out,"
    " or register the forward ONNX model"
)
IS_COMPUTED = (
    "a {kind} head is computed, not trained, so {name} has no meaning; leave it out, or take head"
    " linear or full"
)
ALONE_TRAINS = "head {kind} lets nothing else train, so {name} have no meaning; take full"


@cache
def requested() -> type[Struct]:
    """Hyperparameters as JSON may request them, within their bounds, as a type of msgspec."""
    kinds = []
    for name, kind, about, _ in declared():
        number = float if float in (kind, *get_args(kind)) else int
        bounds: dict[str, Any] = about.bounds
        bounded = Annotated[number, Meta(**bounds)] if bounds else kind
        kinds.append((name, bounded | None, None))
    return defstruct("Requested", kinds, forbid_unknown_fields=True)


def merge(model: Model | NewModel, request: dict[str, Any], *, seed: int) -> dict[str, Any]:
    """The hyperparameters that a job uses. seed: used if the request has none.

    A length in the request overrides every length limit of the model, and another optimizer drops
    the options of the model's own. A computed head ignores training settings; a request with
    training settings does not inherit a computed head. What the job itself will choose is left out.
    """
    asked = {name: value for name, value in request.items() if value is not None}
    merged = {"seed": seed, **_inherited(model, asked), **asked}
    if "head" in merged:
        merged["head"] = plain(merged["head"])
    if is_computed(merged.get("head")):
        idle = _idle(merged["head"], merged)
        return {name: merged[name] for name in merged if name not in idle} | {"auto": False}
    left_open = _left_open(merged)
    merged["auto"] = bool(left_open)
    if not left_open and not any(merged.get(name) for name in LENGTHS):
        merged["epochs"] = DEFAULT_EPOCHS
    whole = Hyperparameters(**merged)
    left_out = {"head", *left_open, *_foreign(model, whole.optimizer)} - merged.keys()
    return {name: value for name, value in asdict(whole).items() if name not in left_out}


def _inherited(model: Model | NewModel, asked: Mapping[str, Any]) -> dict[str, Any]:
    """The model's own hyperparameters that stay beside those asked for."""
    own = {"optimizer": model.optimizer, **model.hyperparameters}
    replaced = set(LENGTHS) if any(name in asked for name in LENGTHS) else set()
    if asked.get("optimizer", own["optimizer"]) != own["optimizer"]:
        replaced |= {name for name, about in ABOUT.items() if about.optimizers}
    if is_computed(own.get("head")) and _idle(own["head"], asked):
        replaced.add("head")
    return {name: own[name] for name in own if name in ABOUT and name not in replaced}


def _foreign(model: Model | NewModel, optimizer: str) -> Iterator[str]:
    """Hyperparameters that do not apply to the model's jobs with this optimizer."""
    yield from OF_TASKS - TASKS[model.loss].options
    if model.engine == "ort_training":
        yield from FIXED - {"optimizer"}
    else:
        yield from (name for name, about in ABOUT.items() if not about.is_of(optimizer))


def _left_open(merged: Mapping[str, Any]) -> list[str]:
    """The hyperparameters that the job will choose itself."""
    auto = merged.get("auto")
    if auto is None:
        auto = not any(about.sets and merged.get(name) is not None for name, about in ABOUT.items())
    has_length = any(merged.get(name) for name in LENGTHS)
    return [
        name
        for name, about in ABOUT.items()
        if auto and about.chosen and name not in merged and not (has_length and name in LENGTHS)
    ]


def _idle(head: Any, wanted: Mapping[str, Any]) -> list[str]:
    """The hyperparameters that have no meaning with this head, by name. head: from JSON."""
    kind = head["kind"] if isinstance(head, Mapping) else None
    idle = [name for name in sorted(wanted) if kind in ALL_HEADS and kind not in ABOUT[name].heads]
    return [name for name in idle if (name, wanted[name]) != ("auto", False)]


def check_hyperparameters(
    model: Model | NewModel, asked: Mapping[str, Any], *, at: str = ""
) -> None:
    """Raises InvalidInput if the model's engine cannot train with these hyperparameters.

    asked: completed by the model's own. at: the JSON pointer of their object.
    """
    chosen = {name: asked[name] for name in asked if name in ABOUT and asked[name] is not None}
    wrong = [*_wrong_head(model, chosen), *_for_one_class(model, chosen)]
    if model.engine == "ort_training":
        wrong += [Problem(f"/{n}", IS_FIXED.format(name=n)) for n in chosen if n in FIXED]
    else:
        wrong += [*_of_other_tasks(model, chosen), *_wrong_options(model, chosen)]
    if wrong:
        placed = [Problem(at + fault.pointer, fault.detail) for fault in wrong]
        raise InvalidInput("the model cannot train so", problems=placed)


def _wrong_head(model: Model | NewModel, chosen: Mapping[str, Any]) -> Iterator[Problem]:
    """Errors in the head that is asked for, and what has no meaning beside it."""
    head, is_fixed = chosen.get("head"), model.engine == "ort_training"
    if head is None or not (is_fixed or "head" in TASKS[model.loss].options):
        return
    target = model.signature.target
    yield from head_problems(head, target=target, engine=model.engine)
    for name in () if is_fixed or target.shape else _idle(head, chosen):
        why = IS_COMPUTED if is_computed(head) else ALONE_TRAINS
        yield Problem(f"/{name}", why.format(kind=head["kind"], name=name))


def _for_one_class(model: Model | NewModel, chosen: Mapping[str, Any]) -> Iterator[Problem]:
    """Options that need one class a sample, for a model without."""
    options, shape = TASKS[model.loss].options, model.signature.target.shape
    for name, about in ABOUT.items():
        value, what = about.one_class or (None, "")
        if value is not None and chosen.get(name) == value and (shape or name not in options):
            is_taken = name in options
            why = (
                f"a label has shape {[*shape]}" if is_taken else f"the model's loss is {model.loss}"
            )
            yield Problem(f"/{name}", f"{what} needs one class a sample, {why}; leave it out")


def _of_other_tasks(model: Model | NewModel, chosen: Mapping[str, Any]) -> Iterator[Problem]:
    task = TASKS[model.loss]
    for name in chosen:
        if name in OF_TASKS - task.options and ABOUT[name].one_class is None:
            takers = losses(lambda of_loss, name=name: name in of_loss.options)  # type: ignore[misc]
            detail = f"{name} is of {takers}, the model's loss is {task.name}; leave it out"
            yield Problem(f"/{name}", detail)


def _wrong_options(model: Model | NewModel, chosen: dict[str, Any]) -> Iterator[Problem]:
    """Errors in the options of optimizer and loss."""
    if is_computed(chosen.get("head")):
        return
    merged = Hyperparameters(**merge(model, chosen, seed=0))
    yield from problems(merged.optimizer_options, list(chosen), parameters=model.trainable)
    if TASKS[model.loss].has_classes:
        classes = model.signature.target.num_classes or 0
        yield from loss_problems(merged.loss_options, classes=classes)
