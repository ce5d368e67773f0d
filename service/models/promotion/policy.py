"""A model's gate: what its author requires of a version before apps get it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Literal

from msgspec import Struct, convert

from service.errors import InvalidInput
from service.training.tasks import TASKS
from service.training.tasks.task import LearningTask
from storage.errors import Problem
from storage.records.models import Model

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
    """guard: bounds that a candidate must keep besides. margin: see docs/promotion.md; in units of
    the metric.

    base_set: whether to judge by the base set too. base_margin: like margin, the loss allowed
    there. hold_on_drift: whether drifted inputs hold a version back.

    min_validation_samples: with fewer than the default, no outcome could be beyond chance:
    McNemar's exact test reaches p = 2 / 2**6 = 0.031 with six samples, and 0.063 with five.
    """

    metric: str
    mode: Mode = "if_not_worse"
    margin: float = 0.1
    min_validation_samples: int = 6
    min_per_class: int = 0
    base_set: bool = True
    base_margin: float = 0.02
    hold_on_drift: bool = False
    guard: tuple[Floor, ...] = ()


FIELDS = GatePolicy.__struct_fields__


def gate_policy(model: Model) -> GatePolicy:
    """The model's gate policy, with defaults for what it does not set."""
    return effective_gate(model.gate, model.loss)


def judges_by_base_set(model: Model) -> bool:
    """Whether there is a base set and the gate uses it."""
    return model.samples.base > 0 and gate_policy(model).base_set


def effective_gate(own: dict[str, Any], loss: str) -> GatePolicy:
    """own: what differs from the defaults."""
    return convert({"metric": TASKS[loss].metrics[0].name, **own}, GatePolicy)


def merge_gate(
    own: dict[str, Any],
    change: dict[str, Any],
    *,
    loss: str,
    classes: Collection[str] | None = None,
) -> dict[str, Any]:
    """What differs from the defaults after a change; None resets a field to its default.

    classes: the names, None if they are unknown. Raises InvalidInput for a metric that a model of
    this loss does not have, and a label that it does not know.
    """
    merged = {name: value for name, value in {**own, **change}.items() if value is not None}
    metric = merged.get("metric")
    known = [each.name for each in TASKS[loss].metrics]
    problems = []
    if metric is not None and metric not in known:
        detail = f"a model with loss {loss} is measured by {' or '.join(known)}"
        problems.append(Problem("/gate/metric", detail))
    for at, guard in enumerate(change.get("guard") or ()):
        wrong = _floor_problem(convert(guard, Floor), TASKS[loss], classes)
        if wrong is not None:
            problems.append(Problem(f"/gate/guard/{at}/{wrong[0]}", wrong[1]))
    if problems:
        raise InvalidInput("the gate does not fit the model", problems=problems)
    return merged


def _floor_problem(
    guard: Floor, task: LearningTask, classes: Collection[str] | None
) -> tuple[str, str] | None:
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
    wrong = _label_problem(guard.metric, guard.label, task, classes)
    return None if wrong is None else ("label", wrong)


def _label_problem(
    metric: str, label: str | int | None, task: LearningTask, classes: Collection[str] | None
) -> str | None:
    """What is wrong with the class that a figure is of."""
    if label is None:
        is_of_all = any(each.name == metric for each in task.metrics)
        return None if is_of_all else f"{metric} is a figure of each class; name one"
    if metric not in task.figures_by_class:
        return f"{metric} is of all classes together; leave the label out"
    if isinstance(label, str) and classes is not None and label not in classes:
        return f"the model has no class {label!r}"
    return None
