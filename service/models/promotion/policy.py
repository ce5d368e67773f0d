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
    """A floor under a figure of the candidate. label: the class, for a figure by class: its name,
    or its index.
    """

    metric: str
    at_least: float
    label: str | int | None = None


class GatePolicy(Struct, frozen=True):
    """guard: floors that a candidate must hold besides. margin: see docs/promotion.md; in units of
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
    shares = [metric.name for metric in task.metrics if metric.higher_is_better]
    if guard.metric not in (*shares, *task.figures_by_class):
        figures = ", ".join([*shares, *task.figures_by_class]) or "nothing: it has no share"
        return "metric", f"a floor of a model with loss {task.name} is under {figures}"
    if guard.metric in shares:
        if guard.label is not None:
            return "label", f"{guard.metric} is of all classes together; leave the label out"
    elif guard.label is None:
        return "label", f"{guard.metric} is a figure of each class; name one"
    elif isinstance(guard.label, str) and classes is not None and guard.label not in classes:
        return "label", f"the model has no class {guard.label!r}"
    return None
