"""What becomes of a job's model: the gate's decision, with what was measured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from service.models.promotion.gate import BestComparison, Decision, decide, without_evaluation
from service.models.promotion.policy import GatePolicy
from service.training.protocol.messages.comparison import Evaluated
from service.training.protocol.messages.endings import Failed


@dataclass(frozen=True, slots=True)
class Conclusion:
    """compared_with: what `latest` must still name for the decision to hold, None for anything."""

    decision: Decision
    metrics: dict[str, Any]
    baseline: dict[str, Any]
    compared_with: int | None


def conclude(
    policy: GatePolicy,
    answer: Evaluated | Failed,
    *,
    compared_with: int | None,
    best: BestComparison | None = None,
) -> Conclusion:
    """Let the gate decide on what the child found, or on that it could not measure the model."""
    if isinstance(answer, Failed) or compared_with is None:
        why = answer.detail if isinstance(answer, Failed) else "nothing was compared"
        fault = f"the new model could not be measured: {why}"
        return Conclusion(without_evaluation(policy, fault), {}, {}, compared_with)
    decision = decide(policy, answer, baseline_version=compared_with, best=best)
    validation = answer.validation
    return Conclusion(decision, validation.candidate, validation.baseline or {}, compared_with)
