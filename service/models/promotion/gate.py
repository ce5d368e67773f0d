"""The gate: decides on the findings by the model's policy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct, to_builtins

from service.models.promotion.findings import (
    Finding,
    find,
    find_beside_simple,
    find_drift,
    find_floor,
    find_on_base_set,
)
from service.models.promotion.policy import GatePolicy
from service.training.protocol.messages.comparison import Comparison, Converted, Evaluated
from service.training.protocol.messages.shared import Failed

BEST = "version {}, the best that was promoted"


class Decision(Struct, frozen=True):
    """Whether `latest` moves, and why: a sentence for people, the figures for programs.

    metrics, baseline: as measured of the candidate, and of the baseline version.
    """

    promoted: bool
    reason: str
    verdict: dict[str, Any]
    metrics: dict[str, Any] = {}
    baseline: dict[str, Any] = {}


class BestComparison(Struct, frozen=True):
    """The candidate compared with the best promoted version, on today's samples."""

    version: int
    comparison: Comparison


def decide(
    policy: GatePolicy,
    answer: Evaluated | Failed,
    *,
    baseline_version: int | None,
    classes: Sequence[str] | None = None,
    best: BestComparison | None = None,
    best_on_base_set: BestComparison | None = None,
) -> Decision:
    """Whether a candidate replaces the baseline version as `latest`.

    answer: of the child that was to measure both. classes: their names. best, best_on_base_set:
    None if that is the baseline version. They keep losses within chance or margin from adding up.
    """
    if isinstance(answer, Failed):
        return _without_evaluation(policy, answer)
    baseline = f"version {baseline_version}"
    findings = findings_of(policy, answer, baseline=baseline, classes=classes)
    if best is not None and findings["validation"].outcome != "too_few":
        name = BEST.format(best.version)
        findings["best"] = find(
            best.comparison, policy, where="validation", baseline=name, classes=classes
        )
    if best_on_base_set is not None:
        name = BEST.format(best_on_base_set.version)
        findings["best_on_base_set"] = find_on_base_set(
            best_on_base_set.comparison, policy, baseline=name, classes=classes
        )
    if answer.drift is not None:
        findings["drift"] = find_drift(answer.drift, baseline=baseline)
    promoted = passes(policy, findings)
    findings |= find_beside_simple(answer.validation, policy, classes)
    said = "; ".join(filter(None, (finding.sentence for finding in findings.values())))
    verdict = verdict_of(policy, findings) | {"baseline_version": baseline_version}
    if best is not None:
        verdict["best_version"] = best.version
    if best_on_base_set is not None:
        verdict["best_version_on_base_set"] = best_on_base_set.version
    metrics, before = answer.validation.candidate, answer.validation.baseline or {}
    if answer.base_set is not None:
        metrics = metrics | {"base_set": answer.base_set.candidate}
        before = before | {"base_set": answer.base_set.baseline or {}}
    return Decision(promoted, _reason(policy, promoted, said), verdict, metrics, before)


def _reason(policy: GatePolicy, promoted: bool, said: str) -> str:
    if policy.mode == "always":
        return f"promoted: the gate is always open; {said}"
    if policy.mode == "manual":
        return f"not promoted: the gate leaves it to a person; {said}"
    return f"{'promoted' if promoted else 'not promoted'}: {said}"


def _without_evaluation(policy: GatePolicy, failure: Failed) -> Decision:
    """The gate stays shut, unless it is always open."""
    fault = f"the new model could not be measured: {failure.detail}"
    if policy.mode == "always":
        return Decision(True, f"promoted: the gate is always open; {fault}", verdict_of(policy, {}))
    return Decision(False, f"not promoted: {fault}", verdict_of(policy, {}))


def findings_of(
    policy: GatePolicy,
    answer: Evaluated | Converted,
    *,
    baseline: str,
    classes: Sequence[str] | None,
) -> dict[str, Finding]:
    """By set: `validation`, and `reference` and `base_set` if present; and by guard.

    baseline: its name. classes: their names.
    """
    about: Any = {"baseline": baseline, "classes": classes}
    findings = {"validation": find(answer.validation, policy, where="validation", **about)}
    if answer.reference is not None:
        findings["reference"] = find(answer.reference, policy, where="reference", **about)
    if answer.base_set is not None:
        findings["base_set"] = find_on_base_set(answer.base_set, policy, **about)
    if findings["validation"].outcome != "too_few":
        metrics = answer.validation.candidate
        for at, guard in enumerate(policy.guard):
            findings[f"guard_{at}"] = find_floor(guard, metrics, classes)
    return findings


def passes(policy: GatePolicy, findings: dict[str, Finding]) -> bool:
    """Whether the findings let a candidate through."""
    if policy.mode == "if_not_worse":
        return all(finding.passes for finding in findings.values())
    return policy.mode == "always"


def verdict_of(policy: GatePolicy, findings: dict[str, Finding]) -> dict[str, Any]:
    """The policy that was applied, and by set the outcome with its figures."""
    return {
        "policy": to_builtins(policy),
        **{name: {"outcome": each.outcome, **each.figures} for name, each in findings.items()},
    }
