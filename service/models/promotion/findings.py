"""The finding of one comparison of two models: better, worse, or not different beyond chance."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, lgamma, log
from typing import Any, Literal

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from service.models.promotion.policy import (
    SIGNIFICANCE,
    Floor,
    GatePolicy,
    named,
    place_of,
)
from service.training.protocol.messages.comparison import (
    Comparison,
    Drifted,
    SimpleName,
)
from service.training.tasks import METRICS
from service.training.tasks.task import figure_of
from storage.errors import counted

Outcome = Literal["better", "same", "worse", "too_few", "not_comparable"]
SMALLEST_SHOWN = 0.001


class Finding(Struct, frozen=True):
    """outcome: of the candidate. sentence: for people, empty if there is nothing to say. figures:
    for programs.

    needed: whether too few samples block the candidate.
    """

    outcome: Outcome
    sentence: str
    figures: dict[str, Any]
    needed: bool = True

    @property
    def passes(self) -> bool:
        """Whether the candidate is no worse; with too few samples, whether that is not needed."""
        if self.outcome == "too_few":
            return not self.needed
        return self.outcome != "worse"


SIMPLE: dict[SimpleName, str] = {
    "mean_label": "the mean of the training labels",
    "last_value": "the last value of the window",
}


def find_beside_simple(
    comparison: Comparison, policy: GatePolicy, classes: Sequence[str] | None
) -> dict[str, Finding]:
    """How the candidate does beside predictions without a model; said unless it is better."""
    findings: dict[str, Finding] = {}
    ours = figure_of(comparison.candidate, policy.metric, place_of(policy.label, classes))
    for simple in comparison.simple if ours is not None else ():
        baseline, name = {policy.metric: simple.figure}, SIMPLE[simple.name]
        beside = replace(
            comparison,
            candidate=comparison.candidate | {policy.metric: ours},
            baseline=baseline,
            interval=simple.interval,
        )
        finding = find(beside, replace(policy, label=None), where="validation", baseline=name)
        word = {"worse": "worse", "same": "no better"}.get(finding.outcome)
        figure = f"validation {named(policy)} is {_number(simple.figure)}"
        said = f"it is {word} than {name}, whose {figure}" if word else ""
        findings[simple.name] = replace(finding, sentence=said)
    return findings


def find_on_base_set(
    comparison: Comparison,
    policy: GatePolicy,
    *,
    baseline: str,
    classes: Sequence[str] | None = None,
) -> Finding:
    """The finding on the base set. Too few samples in it block no version."""
    policy = replace(policy, min_per_class=0)
    finding = find(
        comparison,
        policy,
        where="base set",
        baseline=baseline,
        classes=classes,
        tolerated=policy.base_margin,
    )
    return replace(finding, needed=False)


def find_floor(guard: Floor, candidate: dict[str, Any], classes: Sequence[str] | None) -> Finding:
    """Whether the candidate keeps a bound. candidate: its metrics. classes: their names."""
    figure = figure_of(candidate, guard.metric, place_of(guard.label, classes))
    name = named(guard)
    figures = {**to_builtins(guard), "candidate": figure}
    if figure is None:
        return Finding("too_few", f"no sample tells its {name}, which the gate guards", figures)
    floor = guard.at_least
    bound = (guard.at_most or 0.0) if floor is None else floor
    holds = figure <= bound if floor is None else figure >= bound
    words = ("above", "at most") if floor is None else ("below", "at least")
    said = f"its {name} is {_number(figure)}, {words[holds]} {_number(bound)}"
    return Finding("same" if holds else "worse", said, figures)


def find_drift(drifted: Drifted, *, baseline: str) -> Finding:
    """Whether inputs still resemble those that the baseline was trained on."""
    figures = {"samples": drifted.recent_samples, "drifted": drifted.drifted}
    if drifted.compared == 0:
        few = f"too few samples after {baseline} to tell drift by: {drifted.recent_samples}"
        return Finding("too_few", few, figures, needed=False)
    worst = drifted.features[0]
    named = f"{worst.input!r}, {worst.figure or f'feature {worst.feature}'}: PSI {worst.psi:.2f}"
    if drifted.drifted == 0:
        return Finding("same", f"inputs are as {baseline} knew them ({named})", figures)
    return Finding(
        "worse",
        f"{drifted.drifted} of {drifted.compared} features of inputs have drifted from what"
        f" {baseline} was trained on ({named}): if the new inputs are right, move latest by hand",
        figures,
    )


def find(
    comparison: Comparison,
    policy: GatePolicy,
    *,
    where: str,
    baseline: str,
    classes: Sequence[str] | None = None,
    tolerated: float = 0.0,
) -> Finding:
    """where: the sample set's name. baseline: the other model's name. classes: their names.

    tolerated: a loss, measured like the margin, that is accepted even if it is beyond chance.
    """
    if policy.label is None:
        policy = replace(policy, metric=comparison.metric or policy.metric)
    figures: dict[str, Any] = {"samples": comparison.samples}
    shortage = _shortage(comparison, policy, where, classes)
    if shortage is not None:
        return Finding("too_few", shortage, figures)
    place = place_of(policy.label, classes)
    after = figure_of(comparison.candidate, policy.metric, place)
    before = figure_of(comparison.baseline or {}, policy.metric, place)
    figures |= {"candidate": after, "baseline": before}
    name = f"{where} {named(policy)}"
    if after is None and before is None and _are_measured(comparison):
        sentence = f"nothing in the {where} samples tells its {named(policy)}"
        return Finding("too_few", sentence, figures)
    if after is None:
        return Finding("worse", f"its {name} is not a finite number", figures)
    if before is None:
        fault = comparison.fault or f"its {name} is not a finite number"
        sentence = f"{name} is {_number(after)}; {baseline} cannot be compared: {fault}"
        return Finding("not_comparable", sentence, figures)
    test, p_value, evidence = _test(comparison)
    gain = METRICS[policy.metric].gain(before, after)
    outcome, judgement = _judge(gain, p_value, before=before, policy=policy, tolerated=tolerated)
    figures |= {"gain": gain, "p_value": p_value, **test}
    samples = counted(comparison.samples, "sample")
    if comparison.left_out:
        figures["left_out"] = comparison.left_out
        samples += f", without {comparison.left_out} of classes that only one of them knows"
    change = f"{name} went from {_number(before)} ({baseline}) to {_number(after)} on {samples}"
    return Finding(outcome, f"{change}, {judgement} ({evidence}, {_p(p_value)})", figures)


def _are_measured(comparison: Comparison) -> bool:
    """Whether both have a loss, so that a metric that neither has depends on the samples."""
    measured = (comparison.candidate, comparison.baseline or {})
    return all(side.get("loss") is not None for side in measured)


def _shortage(
    comparison: Comparison, policy: GatePolicy, where: str, names: Sequence[str] | None
) -> str | None:
    wanted = policy.min_validation_samples
    if comparison.samples < wanted or comparison.samples == 0:
        samples = counted(comparison.samples, f"{where} sample")
        return f"it has {samples}, too few to tell: the gate wants at least {max(1, wanted)}"
    classes = [at for at in range(len(comparison.class_counts)) if at != comparison.ignored]
    rarest = min(classes, key=comparison.class_counts.__getitem__, default=0)
    if comparison.class_counts and comparison.class_counts[rarest] < policy.min_per_class:
        samples = counted(comparison.class_counts[rarest], f"{where} sample")
        name = names[rarest] if names else rarest
        return (
            f"class {name!r} has {samples}, too few to tell: the gate wants at least"
            f" {policy.min_per_class} of each class"
        )
    return None


def _test(comparison: Comparison) -> tuple[dict[str, Any], float, str]:
    """Figures, p-value and a phrase of the applicable paired test."""
    if comparison.discordant is not None:
        old, new = comparison.discordant
        figures = {"test": "mcnemar", "only_baseline_right": old, "only_candidate_right": new}
        phrase = f"McNemar's exact test: {new} right only now, {old} right only before"
        return figures, exact_p_value(old, new), phrase
    interval = comparison.interval
    if interval is None:
        # Single samples without a finite score are no evidence.
        return {"test": "none"}, 1.0, "single samples have no finite score"
    figures = {"test": "bootstrap", "interval": [interval.low, interval.high]}
    low, high = _signed(interval.low), _signed(interval.high)
    return figures, interval.p_value, f"paired bootstrap: 95 % interval {low} to {high}"


def _judge(
    gain: float, p_value: float, *, before: float, policy: GatePolicy, tolerated: float
) -> tuple[Outcome, str]:
    significant = p_value < SIGNIFICANCE
    if gain > 0:
        return ("better", "better") if significant else ("same", "better, but within chance")
    if gain == 0:
        return "same", "the same"
    unit = METRICS[policy.metric].margin_unit(before)
    small, allowed = (bound * unit for bound in (tolerated, policy.margin))
    # One sample of ten must not count as more than a tenth because of rounding.
    if tolerated and -gain <= small * (1 + 1e-9):
        return "same", f"worse, but within the margin of {_number(small)}"
    if significant:
        return "worse", f"worse by more than the margin of {_number(small)}" if small else "worse"
    if -gain > allowed * (1 + 1e-9):
        return "worse", f"worse by more than the margin of {_number(allowed)}, if within chance"
    return "same", "worse, but within chance"


def _number(value: float) -> str:
    return f"{value:.4g}"


def _signed(value: float) -> str:
    return f"{value:+.3g}"


def _p(value: float) -> str:
    return f"p < {SMALLEST_SHOWN}" if value < SMALLEST_SHOWN else f"p = {value:.3f}"


def exact_p_value(b: int, c: int) -> float:
    """Two-sided p-value, where only one model is right on b samples, and only the other on c.

    Under the null hypothesis each goes to either model with probability one half, so b is binomial:
    p = min(1, 2 · Σ_{i ≤ min(b, c)} C(b + c, i) / 2^(b + c)); 1 without such samples.
    Source: McNemar (1947), Psychometrika 12; exact form: Dietterich (1998), Neural Computation 10.
    """
    n, fewer = b + c, min(b, c)
    logs = [
        lgamma(n + 1) - lgamma(i + 1) - lgamma(n - i + 1) - n * log(2) for i in range(fewer + 1)
    ]
    return min(1.0, 2 * sum(map(exp, logs)))
