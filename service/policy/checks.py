"""One signal against its limits: how it stands, and the sentence that says so."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from service.policy.policy import Policy, Rule
from service.policy.signals import Signals


@dataclass(frozen=True, slots=True)
class ConditionCheck:
    """How one condition stands at one moment.

    bad: beyond the level that stops. good: at the level that resumes. With one level only, one
    is the other's opposite. detail: number and limit, true whether it blocks or not. The delays
    are those of `Hysteresis`.
    """

    condition: str
    bad: bool
    good: bool
    detail: str
    block_after_s: float = 0.0
    clear_after_s: float = 0.0


def below_limit(
    policy: Policy,
    signals: Signals,
    *,
    condition: str,
    signal: str,
    limit: float | None,
    unknown: Rule,
    said: str,
) -> Iterator[ConditionCheck]:
    """A percentage that may stay above its limit for the grace; None switches it off."""
    if limit is None:
        return
    value = signals.number(signal)
    if value is None:
        yield unknown_signal(condition, unknown, signals, signal)
        return
    yield ConditionCheck(
        condition,
        value > limit,
        value <= limit,
        said.format(value=short(value), limit=short(limit)),
        block_after_s=policy.grace_seconds,
        clear_after_s=policy.settle_seconds,
    )


def above_floor(
    signals: Signals,
    *,
    condition: str,
    signal: str,
    levels: tuple[int | None, int | None],
    unknown: Rule,
    settle_s: float,
    said: str,
) -> Iterator[ConditionCheck]:
    """A number of bytes with a level to stop and one to resume; None switches it off."""
    stop, resume = levels
    if stop is None or resume is None:
        return
    value = signals.number(signal)
    if value is None:
        yield unknown_signal(condition, unknown, signals, signal)
        return
    yield ConditionCheck(
        condition,
        value < stop,
        value >= resume,
        f"{size(value)} {said}, needs {size(resume)} to resume (stops below {size(stop)})",
        clear_after_s=settle_s,
    )


def unknown_signal(condition: str, rule: Rule, signals: Signals, name: str) -> ConditionCheck:
    """What the policy makes of a signal that nobody can tell."""
    allowed = rule == "allow"
    detail = f"{name} is unknown ({signals.why_unknown(name)}); unknown.{rule_name(condition)}"
    return ConditionCheck(condition, not allowed, allowed, f"{detail} is {rule}")


def rule_name(condition: str) -> str:
    """The field of `Unknown` that governs a condition: the three pressures share one."""
    return "pressure" if condition.endswith("_pressure") else condition


def short(value: float) -> str:
    """A number with one decimal at most: `42`, `42.5`."""
    return f"{round(value, 1):g}"


def size(size_bytes: float) -> str:
    """Bytes as people read them."""
    if size_bytes < 2**30:
        return f"{size_bytes / 2**20:.0f} MiB"
    return f"{size_bytes / 2**30:.1f} GiB"
