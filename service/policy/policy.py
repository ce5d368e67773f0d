"""The policy: when a job may run and what it may take. docs/policy.md explains each setting."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from service.policy.windows import Window

Rule = Literal["allow", "block"]
RULES = ("allow", "block")
MIN_MEMORY_LIMIT_BYTES = 128 * 2**20


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a setting takes. kind: see the checks of `service.policy.validation`.

    optional: None switches the condition off. unknown: the field of `Unknown` that says what
    happens when the signal is not known.
    """

    kind: Literal["flag", "number", "integer", "names", "windows", "unknown", "rule"]
    unit: str = ""
    low: float | None = None
    high: float | None = None
    optional: bool = False
    unknown: str = ""


def _setting(default: Any, bounds: Bounds) -> Any:
    return field(default=default, metadata={"bounds": bounds})


def _percent(default: float | None, *, unknown: str) -> Any:
    bounds = Bounds("number", "%", low=0, high=100, optional=True, unknown=unknown)
    return _setting(default, bounds)


def _celsius(default: float | None) -> Any:
    bounds = Bounds("number", "°C", low=20, high=120, optional=True, unknown="temperature")
    return _setting(default, bounds)


def _bytes(default: int | None, *, unknown: str = "", low: int = 0) -> Any:
    bounds = Bounds("integer", "B", low=low, high=2**50, optional=True, unknown=unknown)
    return _setting(default, bounds)


def _seconds(default: float) -> Any:
    return _setting(default, Bounds("number", "s", low=0, high=3600))


def _threads(default: int) -> Any:
    return _setting(default, Bounds("integer", "threads", low=1, high=256))


RULE = {"bounds": Bounds("rule")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """What a signal that is not known means for its condition."""

    power: Rule = field(default="allow", metadata=RULE)
    battery: Rule = field(default="allow", metadata=RULE)
    battery_saver: Rule = field(default="allow", metadata=RULE)
    user_idle: Rule = field(default="block", metadata=RULE)
    foreign_cpu: Rule = field(default="allow", metadata=RULE)
    pressure: Rule = field(default="allow", metadata=RULE)
    temperature: Rule = field(default="allow", metadata=RULE)
    memory: Rule = field(default="block", metadata=RULE)
    disk: Rule = field(default="block", metadata=RULE)
    processes: Rule = field(default="block", metadata=RULE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """When a job may run and what it may take. The defaults are for a device without a battery."""

    require_ac_power: bool = _setting(True, Bounds("flag", unknown="power"))
    min_battery_percent: float | None = _percent(None, unknown="battery")
    resume_battery_percent: float | None = _percent(None, unknown="battery")
    obey_battery_saver: bool = _setting(True, Bounds("flag", unknown="battery_saver"))
    require_idle: bool = _setting(False, Bounds("flag", unknown="user_idle"))
    idle_minutes: float = _setting(
        5.0, Bounds("number", "min", low=0, high=1440, unknown="user_idle")
    )
    max_foreign_cpu_percent: float | None = _percent(None, unknown="foreign_cpu")
    max_cpu_pressure_percent: float | None = _percent(None, unknown="pressure")
    max_memory_pressure_percent: float | None = _percent(25.0, unknown="pressure")
    max_io_pressure_percent: float | None = _percent(None, unknown="pressure")
    grace_seconds: float = _seconds(10.0)
    settle_seconds: float = _seconds(5.0)
    suspend_in_memory_seconds: float = _seconds(0.0)
    max_temperature_c: float | None = _celsius(95.0)
    resume_temperature_c: float | None = _celsius(85.0)
    min_free_memory_bytes: int | None = _bytes(128 * 2**20, unknown="memory")
    resume_free_memory_bytes: int | None = _bytes(256 * 2**20, unknown="memory")
    min_free_disk_bytes: int | None = _bytes(64 * 2**20, unknown="disk")
    resume_free_disk_bytes: int | None = _bytes(128 * 2**20, unknown="disk")
    windows: tuple[Window, ...] = _setting((), Bounds("windows"))
    blocking_processes: tuple[str, ...] = _setting((), Bounds("names", unknown="processes"))
    max_minutes_per_day: float | None = _setting(
        None, Bounds("number", "min", low=0, high=1440, optional=True)
    )
    max_threads_busy: int = _threads(1)
    max_threads_idle: int = _threads(1)
    nice: int = _setting(10, Bounds("integer", "niceness", low=0, high=19))
    memory_limit_bytes: int | None = _bytes(None, low=MIN_MEMORY_LIMIT_BYTES)
    unknown: Unknown = field(default_factory=Unknown, metadata={"bounds": Bounds("unknown")})


@dataclass(frozen=True, slots=True)
class Given:
    """What the operator's settings say of the child; None leaves it to the device."""

    threads: int | None = None
    nice: int | None = None
    memory_bytes: int | None = None


def default_memory_cap(usable_memory_bytes: int | None) -> int | None:
    """What child processes may take together: half, the other half is for other programs."""
    if usable_memory_bytes is None:
        return None
    return max(MIN_MEMORY_LIMIT_BYTES, usable_memory_bytes // 2)


def default_policy(
    has_battery: bool,
    *,
    processors: int | None = None,
    usable_memory_bytes: int | None = None,
    given: Given = Given(),
) -> Policy:
    """What suits the device until its person says otherwise.

    processors: None to count them. usable_memory_bytes: of the machine or its cgroup, half of which
    is for child processes; None if it cannot be told.

    Niceness 10 is a tenth of a processor where every processor has other work, so that of two or
    more none of the others loses 5 %; a device with only one needs 19.
    """
    processors = processors or os.cpu_count() or 1
    policy = Policy(
        max_threads_busy=given.threads or 1,
        max_threads_idle=given.threads or max(1, processors // 2),
        nice=(10 if processors > 1 else 19) if given.nice is None else given.nice,
        memory_limit_bytes=given.memory_bytes or default_memory_cap(usable_memory_bytes),
    )
    if not has_battery:
        return policy
    return replace(
        policy,
        min_battery_percent=30.0,
        resume_battery_percent=50.0,
        max_temperature_c=90.0,
        resume_temperature_c=80.0,
        unknown=Unknown(power="block", battery="block"),
    )
