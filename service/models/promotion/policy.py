"""A model's gate: what its author requires of a version before apps get it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from msgspec import Struct

from service.errors import InvalidInput
from service.training.tasks import TASKS
from service.training.tasks.task import LearningTask
from storage.database.codec import convert
from storage.errors import Problem
from storage.records.models import Model
from storage.records.signatures import TargetSpec

Mode = Literal["always", "if_not_worse", "manual"]
SIGNIFICANCE = 0.05
"""A difference counts if its p-value is below this."""


class Floor(Struct, frozen=True):
    """A bound that a figure of the candidate must keep: at_least, or for an error at_most. label:
    the class, for a figure by class: its name, or its index.
    """

    metric: str
    at_least: float | None = None
    label: str | int | None = None
    at_most: float | None = None


class GatePolicy(Struct, frozen=True):
    """label: the class that the metric is of, by name or index. guard: bounds that a candidate must
    keep besides. margin: see docs/promotion.md; in units of the metric.

    base_set: whether to judge by the base set too. base_margin: like margin, the loss allowed
    there. hold_on_drift: whether drifted inputs hold a version back.

    min_validation_samples: with fewer than the default, no outcome could be beyond chance:
    McNemar's exact test reaches p = 2 / 2**6 = 0.031 with six samples, and 0.063 with five.
    """

    metric: str
    label: str | int | None = None
    mode: Mode = "if_not_worse"
    margin: float = 0.1
    min_validation_samples: int = 6
    min_per_class: int = 0
    base_set: bool = True
    base_margin: float = 0.02
    hold_on_drift: bool = False
    guard: tuple[Floor, ...] = ()


FIELDS = GatePolicy.__struct_fields__
UNKNOWN = -1
"""The place of a class that the model does not have."""


def place_of(label: str | int | None, classes: Sequence[str] | None) -> int | None:
    """The place of a class among the figures by class; None for no class."""
    if label is None or isinstance(label, int):
        return label
    return [*classes].index(label) if classes and label in classes else UNKNOWN


def by_name(own: dict[str, Any], classes: Sequence[str]) -> dict[str, Any]:
    """A gate's own fields with names for indices of classes, which change when one is removed."""
    label, named_so = own.get("label"), dict(own)
    if isinstance(label, int) and label < len(classes):
        named_so["label"] = classes[label]
    if "guard" in own:
        named_so["guard"] = [by_name(floor, classes) for floor in own["guard"]]
    return named_so


def named(figure: GatePolicy | Floor) -> str:
    """The metric, and the class that it is of, in words."""
    return figure.metric if figure.label is None else f"{figure.metric} of {figure.label!r}"


def measured_by(model: Model) -> tuple[str, int | None]:
    """The gate's metric, and the place of its class; the default where the model lacks that."""
    policy, target = gate_policy(model), model.signature.target
    place = place_of(policy.label, target.classes)
    if place is None or place in range(TASKS[model.loss].name_count(target)):
        return policy.metric, place
    return TASKS[model.loss].metrics[0].name, None


def gate_policy(model: Model) -> GatePolicy:
    """The model's gate policy, with defaults for what it does not set."""
    return convert({"metric": TASKS[model.loss].metrics[0].name, **model.gate}, GatePolicy)


def judges_by_base_set(model: Model) -> bool:
    """Whether there is a base set and the gate uses it."""
    return model.samples.base > 0 and gate_policy(model).base_set


def merge_gate(
    own: dict[str, Any], change: dict[str, Any], *, loss: str, target: TargetSpec, at: str = "/gate"
) -> dict[str, Any]:
    """What differs from the defaults after a change; None resets a field to its default.

    at: the JSON pointer of the change. Raises InvalidInput for a metric that a model of this loss
    does not have, and a label that its target does not know.
    """
    merged = {name: value for name, value in {**own, **change}.items() if value is not None}
    task, problems = TASKS[loss], []
    known = dict.fromkeys(metric.name for metric in (*task.metrics, *task.by_class))
    metric = merged.get("metric", next(iter(known)))
    if metric not in known:
        detail = f"a model with loss {loss} is measured by {' or '.join(known)}"
        problems.append(Problem(f"{at}/metric", detail))
    elif {"metric", "label"} & change.keys():  # a class may have been renamed since
        wrong = _label_problem(metric, merged.get("label"), task, target)
        problems += [] if wrong is None else [Problem(f"{at}/label", wrong)]
    for place, guard in enumerate(change.get("guard") or ()):
        unfit = _floor_problem(convert(guard, Floor), task, target)
        if unfit is not None:
            problems.append(Problem(f"{at}/guard/{place}/{unfit[0]}", unfit[1]))
    if problems:
        raise InvalidInput("the gate does not fit the model", problems=problems)
    return merged


def _floor_problem(guard: Floor, task: LearningTask, target: TargetSpec) -> tuple[str, str] | None:
    """The field that is wrong, and what would be right."""
    figures = dict.fromkeys(task.figures_by_class, True)
    figures |= {metric.name: metric.higher_is_better for metric in task.metrics}
    if guard.metric not in figures:
        return "metric", f"a bound of a model with loss {task.name} is of {', '.join(figures)}"
    bounds = {"at_least": guard.at_least, "at_most": guard.at_most}
    wanted = "at_least" if figures[guard.metric] else "at_most"
    if [name for name, bound in bounds.items() if bound is not None] != [wanted]:
        better = "more" if figures[guard.metric] else "less"
        return wanted, f"{better} {guard.metric} is better, so say {wanted}, and that alone"
    wrong = _label_problem(guard.metric, guard.label, task, target)
    return None if wrong is None else ("label", wrong)


def _label_problem(
    metric: str, label: str | int | None, task: LearningTask, target: TargetSpec
) -> str | None:
    """What is wrong with the class that a figure is of."""
    is_of_all = any(figure.name == metric for figure in task.metrics)
    if label is None:
        return None if is_of_all else f"{metric} is a figure of each class; name one"
    if metric not in task.figures_by_class:
        return f"{metric} is of all classes together; leave the label out"
    if target.classes is None and is_of_all:
        return f"{metric} of one number needs names; give them in classes"
    count = len(target.classes or ()) or task.name_count(target)
    if place_of(label, target.classes) not in range(count):
        return f"the model has no class {label!r}"
    return None
