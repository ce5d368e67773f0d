"""The policy's conditions: what each requires of the device."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from service.device.reading import Signals
from service.policy.checks import (
    ConditionCheck,
    below_limit,
    between_levels,
    short,
    unknown_signal,
)
from service.policy.policy import Policy
from service.policy.time_windows import is_open, next_opening

Condition = Callable[[Policy, Signals], Iterator[ConditionCheck]]


def power(policy: Policy, signals: Signals) -> Iterator[ConditionCheck]:
    """The device is on mains power."""
    if not policy.require_ac_power:
        return
    on_ac = signals.flag("on_ac_power")
    if on_ac is None:
        yield unknown_signal(policy, signals, "on_ac_power", condition="power")
        return
    detail = "on AC power" if on_ac else "on battery power, needs AC power"
    yield ConditionCheck("power", not on_ac, on_ac, detail, clear_after_s=policy.settle_seconds)


def battery(policy: Policy, signals: Signals) -> Iterator[ConditionCheck]:
    """The battery, if there is one, is charged enough, even on mains power."""
    if signals.flag("battery_present") is not False:
        yield from between_levels(policy, signals, rule="battery")


def battery_saver(policy: Policy, signals: Signals) -> Iterator[ConditionCheck]:
    """The device is not set to save energy."""
    if not policy.obey_battery_saver:
        return
    saving = signals.flag("battery_saver")
    if saving is None:
        yield unknown_signal(policy, signals, "battery_saver", condition="battery_saver")
        return
    detail = "battery saver is on, needs it off" if saving else "battery saver is off"
    yield ConditionCheck(
        "battery_saver", saving, not saving, detail, clear_after_s=policy.settle_seconds
    )


def user_idle(policy: Policy, signals: Signals) -> Iterator[ConditionCheck]:
    """Nobody has used the device for a while."""
    if not policy.require_idle:
        return
    idle_s, input_s = signals.number("user_idle_s"), signals.number("last_input_s")
    needed_s = policy.idle_minutes * 60
    if idle_s is None and input_s is not None and input_s < needed_s:
        idle_s = input_s  # A session without a signal may have been active even later.
    if idle_s is None:
        yield unknown_signal(policy, signals, "user_idle_s", condition="user_idle")
        return
    is_idle = idle_s >= needed_s
    detail = (
        f"the device was used {short(idle_s / 60)} minutes ago, "
        f"needs {short(policy.idle_minutes)} minutes without input"
    )
    yield ConditionCheck("user_idle", not is_idle, is_idle, detail)


def foreign_cpu(policy: Policy, signals: Signals) -> Iterator[ConditionCheck]:
    """Other programs use little of the processors."""
    yield from below_limit(
        policy,
        signals,
        condition="foreign_cpu",
        limit=policy.max_foreign_cpu_percent,
        rule="foreign_cpu",
        said="other programs use {value} % of the processors, the limit is {limit} %",
    )


def pressure(policy: Policy, signals: Signals) -> Iterator[ConditionCheck]:
    """Nothing waits for processor, memory or disk."""
    limits = {
        "cpu": policy.max_cpu_pressure_percent,
        "memory": policy.max_memory_pressure_percent,
        "io": policy.max_io_pressure_percent,
    }
    for resource, limit in limits.items():
        yield from below_limit(
            policy,
            signals,
            condition=f"{resource}_pressure",
            limit=limit,
            rule="pressure",
            said=f"programs wait for {resource} {{value}} % of the time, the limit is {{limit}} %",
        )


def temperature(policy: Policy, signals: Signals) -> Iterator[ConditionCheck]:
    """The device is not hot."""
    yield from between_levels(policy, signals, rule="temperature")


def memory(policy: Policy, signals: Signals) -> Iterator[ConditionCheck]:
    """There is enough free memory."""
    yield from between_levels(policy, signals, rule="memory", clear_after_s=policy.settle_seconds)


def disk(policy: Policy, signals: Signals) -> Iterator[ConditionCheck]:
    """There is space for checkpoints."""
    yield from between_levels(policy, signals, rule="disk")


def window(policy: Policy, signals: Signals) -> Iterator[ConditionCheck]:
    """The policy allows this time of the week."""
    if not policy.windows:
        return
    local = signals.time("local_time")
    if local is None:
        yield ConditionCheck(
            "window", True, False, "the local time is unknown, so no window can be kept"
        )
        return
    is_inside = is_open(policy.windows, local)
    detail = f"it is {local:%a %H:%M}"
    if not is_inside:
        detail += f", the next window opens {next_opening(policy.windows, local):%a %H:%M}"
    yield ConditionCheck("window", not is_inside, is_inside, detail)


def processes(policy: Policy, signals: Signals) -> Iterator[ConditionCheck]:
    """None of the blocking programs is running."""
    if not policy.blocking_processes:
        return
    running = signals.names("running_processes")
    if running is None:
        yield unknown_signal(policy, signals, "running_processes", condition="processes")
        return
    some = ", ".join(running)
    detail = f"running now: {some}; must end first" if running else "no blocking process runs"
    yield ConditionCheck(
        "processes", bool(running), not running, detail, clear_after_s=policy.settle_seconds
    )


def daily_limit(policy: Policy, trained_today_s: float) -> Iterator[ConditionCheck]:
    """Today's minutes are not used up."""
    limit = policy.max_minutes_per_day
    if limit is None:
        return
    is_used_up = trained_today_s >= limit * 60
    detail = f"trained {short(trained_today_s / 60)} minutes today, the limit is {short(limit)}"
    yield ConditionCheck("daily_limit", is_used_up, not is_used_up, detail)


CONDITIONS: tuple[Condition, ...] = (
    power,
    battery,
    battery_saver,
    user_idle,
    foreign_cpu,
    pressure,
    temperature,
    memory,
    disk,
    window,
    processes,
)


def checks(policy: Policy, signals: Signals, trained_today_s: float) -> Iterator[ConditionCheck]:
    """Every condition that is switched on, in the order shown to people.

    trained_today_s: since local midnight.
    """
    for condition in CONDITIONS:
        yield from condition(policy, signals)
    yield from daily_limit(policy, trained_today_s)
