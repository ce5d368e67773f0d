"""Queues a job: its hyperparameters, and where it starts from."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from typing import Any

from msgspec.structs import asdict

from service.errors import InvalidInput
from service.training.engines import manifest
from service.training.errors import NoSamples
from service.training.heads.kinds import (
    BESIDE_COMPUTED,
    head_problems,
    is_computed,
    layer_problem,
    more_neighbours_than,
    plain,
)
from service.training.hyperparameters import CHOSEN, OF_NUMBERS, Hyperparameters
from service.training.optimizer.recipe import OPTIONS, LossOptions, Recipe, loss_problems, problems
from storage.errors import NotFound, Problem
from storage.records.jobs import Job, NewJob
from storage.records.models import Model, NewModel
from storage.store import Store

STARTS = ("latest", "base")


ENDINGS = ("epochs", "max_steps", "max_seconds")
"""Limits on a job's length; it ends at the first one reached."""
COURSE = (
    *ENDINGS,
    *("batch_size", "learning_rate", "schedule", "warmup_steps"),
    *("accumulation_steps", "early_stopping_patience"),
)
"""If any of these is set, the job does not choose hyperparameters unless told to."""
DEFAULT_EPOCHS = 5
FIXED = (
    "{name} is fixed in the artifacts of Microsoft's tools that this model came as; leave it out,"
    " or register the forward ONNX model"
)
FOR_JOBS = frozenset(Hyperparameters.__struct_fields__)
OF_OPTIMIZERS = frozenset().union(*OPTIONS.values())
"""Options that only some optimizers take."""
OF_CROSS_ENTROPY = frozenset(LossOptions.__struct_fields__)
OF_CLASSES = frozenset({"head", "sampling", "calibrate"})
"""Settings for cross entropy only, with any engine."""
SCALES_LABELS = "standardize_labels"
OF_RECIPES = OF_CROSS_ENTROPY.union(Recipe.__struct_fields__, {SCALES_LABELS})


def random_seed() -> int:
    """A seed that fits every generator: 31 bits."""
    return secrets.randbits(31)


def enqueue(
    store: Store,
    model: Model,
    request: dict[str, Any],
    *,
    trigger: str,
    start: str = "latest",
    ignore_policy: bool = False,
    priority: int = 0,
    new_seed: Callable[[], int] = random_seed,
) -> Job:
    """Queue a job.

    request: the hyperparameters asked for. start: `latest`, `base` or a checkpoint's id.
    Raises NoSamples, InvalidInput for a start that is not this model's or a wrong recipe, and
    StateConflict if the model's classes have changed meanwhile.
    """
    if model.samples.train == 0:
        raise NoSamples(
            f"model {model.name!r} has no labelled training samples; "
            f"send some to /v1/models/{model.name}/samples first"
        )
    _check_start(store, model, start)
    check_recipe(model, request)
    hyperparameters = merge(model, request, seed=new_seed())
    _check_replay(model, hyperparameters)
    _check_head(store, model, hyperparameters.get("head"))
    return store.jobs.enqueue(
        NewJob(
            model_id=model.id,
            trigger=trigger,
            hyperparameters=hyperparameters,
            start=start,
            ignore_policy=ignore_policy,
            priority=priority,
            class_ids=model.signature.target.ids,
        )
    )


def _check_replay(model: Model, hyperparameters: dict[str, Any]) -> None:
    if hyperparameters.get("replay") and not model.samples.base:
        detail = (
            f"{model.name!r} has no base set to replay; send one to "
            f"/v1/models/{model.name}/base-set, or ask for replay 0"
        )
        raise InvalidInput("the job has nothing to replay", problems=[Problem("/replay", detail)])


def _check_head(store: Store, model: Model, head: Any) -> None:
    """Whether the model has the layer that its head would be. head: from JSON."""
    if head is None:
        return
    made = manifest.read(store.integrity.file(model.files["manifest"].sha256))
    found = more_neighbours_than(model.samples.train, head)
    wrong = layer_problem(made.head, kind=None if head == "auto" else head["kind"])
    if wrong is not None:
        found.append(Problem("/head", wrong))
    if found:
        raise InvalidInput("the job cannot have this head", problems=found)


def _check_start(store: Store, model: Model, start: str) -> None:
    if start in STARTS:
        return
    try:
        found = store.checkpoints.get(int(start)).model_id == model.id
    except (ValueError, NotFound):
        found = False
    if not found:
        detail = f"from is latest, base or the id of a checkpoint of {model.name!r}"
        raise InvalidInput("the job has no valid start", problems=[Problem("/from", detail)])


def merge(model: Model | NewModel, request: dict[str, Any], *, seed: int) -> dict[str, Any]:
    """The hyperparameters that a job uses. seed: used if the request has none.

    A length in the request overrides every length limit of the model, and another optimizer drops
    the options of the model's own. A computed head ignores training settings; a request with
    training settings does not inherit a computed head. What the job itself will choose is left out.
    """
    asked = {name: value for name, value in request.items() if value is not None}
    known = {"optimizer": model.optimizer, **model.hyperparameters}
    defaults = {name: value for name, value in known.items() if name in FOR_JOBS}
    if "head" not in asked and not asked.keys() <= BESIDE_COMPUTED:
        defaults = {n: v for n, v in defaults.items() if n != "head" or not is_computed(v)}
    head = plain(asked.get("head", defaults.get("head")))
    if is_computed(head):
        kept = {n: v for n, v in {**defaults, **asked}.items() if n in BESIDE_COMPUTED}
        return {"seed": seed, **kept, "head": head, "auto": False}
    if any(name in asked for name in ENDINGS):
        defaults = {name: value for name, value in defaults.items() if name not in ENDINGS}
    if asked.get("optimizer", defaults["optimizer"]) != defaults["optimizer"]:
        defaults = {name: value for name, value in defaults.items() if name not in OF_OPTIMIZERS}
    merged = {"seed": seed, **defaults, **asked} | ({} if head is None else {"head": head})
    left_open = _left_open(merged)
    merged["auto"] = bool(left_open)
    if not left_open and not any(merged.get(name) for name in ENDINGS):
        merged["epochs"] = DEFAULT_EPOCHS
    whole = Hyperparameters(**merged)
    missing = (_unused(model, whole.optimizer) - merged.keys()) | left_open
    missing |= {"head"} - merged.keys()
    return {name: value for name, value in asdict(whole).items() if name not in missing}


def _left_open(given: dict[str, Any]) -> frozenset[str]:
    """The hyperparameters that the job will choose itself."""
    auto = given.get("auto")
    if auto is None:
        auto = not any(given.get(name) is not None for name in COURSE)
    ends = any(given.get(name) for name in ENDINGS)
    return frozenset(
        name for name in CHOSEN if auto and name not in given and not (ends and name == "epochs")
    )


def _unused(model: Model | NewModel, optimizer: str) -> frozenset[str]:
    """Hyperparameters that do not apply to this model and optimizer."""
    is_classifier = model.loss == "cross_entropy"
    of_classes = frozenset() if is_classifier else OF_CLASSES
    if model.engine == "ort_training":
        return (OF_RECIPES - {"optimizer"}) | of_classes
    of_loss = of_classes if is_classifier else of_classes | OF_CROSS_ENTROPY
    of_loss |= frozenset() if model.loss in OF_NUMBERS else {SCALES_LABELS}
    return (OF_OPTIMIZERS - OPTIONS.get(optimizer, OF_OPTIMIZERS)) | of_loss


def _without_classes(model: Model | NewModel, given: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Hyperparameters that need classes, each with its error, for a model without classes."""
    shape = model.signature.target.shape
    is_classifier = model.loss == "cross_entropy"
    if is_classifier and not shape:
        return
    why = f"a label has shape {[*shape]}" if is_classifier else f"the model's loss is {model.loss}"
    if given.get("sampling") == "balanced":
        yield "sampling", f"balanced sampling needs one class a sample, {why}; leave it out"
    if given.get("calibrate"):
        yield "calibrate", f"calibration needs one class a sample, {why}; leave it out"


def _without_numbers(model: Model | NewModel, given: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Hyperparameters that need labels of numbers, as `_without_classes`."""
    if SCALES_LABELS in given and model.loss not in OF_NUMBERS:
        losses = ", ".join(OF_NUMBERS)
        yield SCALES_LABELS, f"{SCALES_LABELS} is of {losses}, the model's loss is {model.loss}"


def check_recipe(model: Model | NewModel, asked: dict[str, Any], *, at: str = "") -> None:
    """Raises InvalidInput if the model's engine cannot train with these hyperparameters.

    asked: completed by the model's own. at: the JSON pointer of their object.
    """
    given = {n: v for n, v in asked.items() if n in FOR_JOBS and v is not None}
    target = model.signature.target
    found = head_problems(given, loss=model.loss, target=target, engine=model.engine)
    unfit = (*_without_classes(model, given), *_without_numbers(model, given))
    found += [Problem(f"/{name}", detail) for name, detail in unfit]
    if model.engine == "ort_training":
        found += [Problem(f"/{n}", FIXED.format(name=n)) for n in given if n in OF_RECIPES]
    elif not is_computed(given.get("head")):
        merged = Hyperparameters(**merge(model, given, seed=0))
        classes = target.num_classes if model.loss == "cross_entropy" else None
        found += problems(merged.recipe, list(given), parameters=model.trainable)
        options = merged.loss_options
        found += loss_problems(options, list(given), loss=model.loss, classes=classes)
    if found:
        placed = [Problem(at + each.pointer, each.detail) for each in found]
        raise InvalidInput("the model cannot train so", problems=placed)
