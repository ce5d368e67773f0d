"""One signal against its limits: its state, and the sentence that describes it."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from service.device.reading import Signals
from service.policy.policy import LEVELS, SETTINGS, Levels, Policy


class ConditionCheck(Struct, frozen=True):
    """The state of one condition at one moment.

    bad: beyond the level that stops. good: at the level that resumes. With a single level, they are
    opposites. detail: number and limit, true whether it blocks or not. Delays: see `Hysteresis`.
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
    limit: float | None,
    rule: str,
    said: str,
) -> Iterator[ConditionCheck]:
    """A percentage that may exceed its limit for the grace period; None switches it off."""
    signal = f"{condition}_percent"
    if limit is None:
        return
    value = signals.number(signal)
    if value is None:
        yield unknown_signal(policy, signals, signal, condition=condition, rule=rule)
        return
    yield ConditionCheck(
        condition,
        value > limit,
        value <= limit,
        said.format(value=short(value), limit=short(limit)),
        block_after_s=policy.grace_seconds,
        clear_after_s=policy.settle_seconds,
    )


def between_levels(
    policy: Policy, signals: Signals, *, rule: str, clear_after_s: float = 0.0
) -> Iterator[ConditionCheck]:
    """The checks of all quantities that have two levels and share a rule of `Unknown`."""
    for levels in LEVELS:
        stop, resume = getattr(policy, levels.stop), getattr(policy, levels.resume)
        if levels.rule != rule or stop is None or resume is None:
            continue
        value = signals.number(levels.signal)
        if value is None:
            yield unknown_signal(
                policy, signals, levels.signal, condition=levels.condition, rule=rule
            )
            continue
        is_floor = levels.side == "above"
        yield ConditionCheck(
            levels.condition,
            value < stop if is_floor else value > stop,
            value >= resume if is_floor else value <= resume,
            _level_detail(levels, value, stop, resume),
            clear_after_s=clear_after_s,
        )


def _level_detail(levels: Levels, value: float, stop: float, resume: float) -> str:
    unit = SETTINGS[levels.stop].description

    def shown(number: float) -> str:
        return size(number) if unit == "B" else f"{short(number)} {unit}"

    beyond = "below" if levels.side == "above" else "above"
    return (
        f"{levels.said.format(shown(value))}, needs {shown(resume)} to resume "
        f"(stops {beyond} {shown(stop)})"
    )


def unknown_signal(
    policy: Policy, signals: Signals, signal: str, *, condition: str, rule: str | None = None
) -> ConditionCheck:
    """The check for an unknown signal. rule: its field of `Unknown`, else the condition's name."""
    rule = rule or condition
    decision = getattr(policy.unknown, rule)
    allowed = decision == "allow"
    detail = f"{signal} is unknown ({signals.why_unknown(signal)}); unknown.{rule} is {decision}"
    return ConditionCheck(condition, not allowed, allowed, detail)


def short(value: float) -> str:
    """A number with at most one decimal: `42`, `42.5`."""
    return f"{round(value, 1):g}"


def size(size_bytes: float) -> str:
    """Bytes as people read them."""
    if size_bytes < 2**30:
        return f"{size_bytes / 2**20:.0f} MiB"
    return f"{size_bytes / 2**30:.1f} GiB"
