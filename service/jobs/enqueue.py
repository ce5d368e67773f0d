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
from service.training.hyperparameters import CHOSEN, Hyperparameters
from service.training.optimizer.recipe import OPTIONS, LossOptions, Recipe, loss_problems, problems
from service.training.tasks import TASKS, losses
from service.training.tasks.task import LearningTask
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
OF_TASKS = frozenset().union(*(task.options for task in TASKS.values()))
"""Options that only some tasks take."""
OF_RECIPES = frozenset(
    {*LossOptions.__struct_fields__, *Recipe.__struct_fields__, "standardize_labels"}
)
FOR_ONE_CLASS = {"sampling": ("balanced", "balanced sampling"), "calibrate": (True, "calibration")}
"""Options with the value that needs one class a sample, and what it is called."""


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
    of_others = OF_TASKS - TASKS[model.loss].options
    if model.engine == "ort_training":
        return (OF_RECIPES - {"optimizer"}) | of_others
    return (OF_OPTIMIZERS - OPTIONS.get(optimizer, OF_OPTIMIZERS)) | of_others


def _of_others(task: LearningTask, given: dict[str, Any]) -> Iterator[Problem]:
    """Options of other tasks."""
    for name in given:
        if name in OF_TASKS - task.options - FOR_ONE_CLASS.keys():
            takers = losses(lambda each, name=name: name in each.options)  # type: ignore[misc]
            detail = f"{name} is of {takers}, the model's loss is {task.name}; leave it out"
            yield Problem(f"/{name}", detail)


def _for_one_class(model: Model | NewModel, given: dict[str, Any]) -> Iterator[Problem]:
    """Options that need one class a sample, for a model without."""
    options, shape = TASKS[model.loss].options, model.signature.target.shape
    for name, (value, what) in FOR_ONE_CLASS.items():
        if given.get(name) == value and (shape or name not in options):
            is_taken = name in options
            why = (
                f"a label has shape {[*shape]}" if is_taken else f"the model's loss is {model.loss}"
            )
            yield Problem(f"/{name}", f"{what} needs one class a sample, {why}; leave it out")


def check_recipe(model: Model | NewModel, asked: dict[str, Any], *, at: str = "") -> None:
    """Raises InvalidInput if the model's engine cannot train with these hyperparameters.

    asked: completed by the model's own. at: the JSON pointer of their object.
    """
    given = {n: v for n, v in asked.items() if n in FOR_JOBS and v is not None}
    target, task = model.signature.target, TASKS[model.loss]
    is_fixed = model.engine == "ort_training"
    of_head = given if is_fixed or "head" in task.options else {}
    found = head_problems(of_head, target=target, engine=model.engine)
    found += _for_one_class(model, given)
    if is_fixed:
        found += [Problem(f"/{n}", FIXED.format(name=n)) for n in given if n in OF_RECIPES]
    else:
        found += _of_others(task, given)
    if not is_fixed and not is_computed(given.get("head")):
        merged = Hyperparameters(**merge(model, given, seed=0))
        found += problems(merged.recipe, list(given), parameters=model.trainable)
        if task.has_classes:
            found += loss_problems(merged.loss_options, classes=target.num_classes or 0)
    if found:
        placed = [Problem(at + each.pointer, each.detail) for each in found]
        raise InvalidInput("the model cannot train so", problems=placed)
