"""A model's gate: what its author requires of a version before apps get it."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct

from service.errors import InvalidInput
from service.training.tasks import TASKS
from storage.errors import Problem
from storage.records.models import Model

Mode = Literal["always", "if_not_worse", "manual"]
SIGNIFICANCE = 0.05
"""A difference counts if its p-value is below this."""


class GatePolicy(Struct, frozen=True):
    """margin: see docs/promotion.md; in units of the metric.

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


FIELDS = GatePolicy.__struct_fields__


def gate_policy(model: Model) -> GatePolicy:
    """The model's gate policy, with defaults for what it does not set."""
    return effective_gate(model.gate, model.loss)


def judges_by_base_set(model: Model) -> bool:
    """Whether there is a base set and the gate uses it."""
    return model.samples.base > 0 and gate_policy(model).base_set


def effective_gate(own: dict[str, Any], loss: str) -> GatePolicy:
    """own: what differs from the defaults."""
    return GatePolicy(**{"metric": TASKS[loss].metrics[0].name, **own})


def merge_gate(own: dict[str, Any], change: dict[str, Any], *, loss: str) -> dict[str, Any]:
    """What differs from the defaults after a change; None resets a field to its default.

    Raises InvalidInput for a metric that a model of this loss does not have.
    """
    merged = {name: value for name, value in {**own, **change}.items() if value is not None}
    metric = merged.get("metric")
    known = [each.name for each in TASKS[loss].metrics]
    if metric is not None and metric not in known:
        detail = f"a model with loss {loss} is measured by {' or '.join(known)}"
        problem = Problem("/gate/metric", detail)
        raise InvalidInput("the gate does not fit the model", problems=[problem])
    return merged
