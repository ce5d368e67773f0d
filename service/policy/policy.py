"""The policy: when a job may run and what it may take. docs/policy.md explains each setting."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import AfterValidator, ConfigDict, Field
from pydantic.dataclasses import dataclass
from pydantic.fields import FieldInfo

from service.policy.time_windows import Window

Effect = Literal["allow", "block"]
MIN_MEMORY_LIMIT_BYTES = 128 * 2**20
MAX_ENTRIES = 200
CLOSED = ConfigDict(extra="forbid")
ProcessName = Annotated[str, Field(pattern=r"^[^/\x00]*[^/\x00\s][^/\x00]*$")]
ProcessNames = Annotated[
    tuple[ProcessName, ...],
    Field(max_length=MAX_ENTRIES),
    AfterValidator(lambda names: tuple(dict.fromkeys(names))),
]
Flag = Annotated[bool, Field(strict=True)]


class RuledBy(NamedTuple):
    """The field of `Unknown` that decides while a setting's signal is unknown."""

    rule: str


def _number(default: float | None, low: float, high: float, unit: str) -> Any:
    return Field(
        default, ge=low, le=high, strict=True, allow_inf_nan=False, description=unit, kw_only=True
    )


MAX_THREADS = 256


def _integer(default: int | None, low: int, high: int, unit: str) -> Any:
    return Field(default, ge=low, le=high, strict=True, description=unit, kw_only=True)


def _percent(default: float | None) -> Any:
    return _number(default, 0, 100, "%")


def _celsius(default: float | None) -> Any:
    return _number(default, 20, 120, "°C")


def _seconds(default: float) -> Any:
    return _number(default, 0, 3600, "s")


def _bytes(default: int | None, *, low: int = 0) -> Any:
    return _integer(default, low, 2**50, "B")


@dataclass(frozen=True, slots=True, kw_only=True, config=CLOSED)
class Unknown:
    """What an unknown signal means for its condition."""

    power: Effect = "allow"
    battery: Effect = "allow"
    battery_saver: Effect = "allow"
    user_idle: Effect = "block"
    foreign_cpu: Effect = "allow"
    pressure: Effect = "allow"
    temperature: Effect = "allow"
    memory: Effect = "block"
    disk: Effect = "block"
    processes: Effect = "block"


@dataclass(frozen=True, slots=True, kw_only=True, config=CLOSED)
class Policy:
    """When a job may run and what it may take. The defaults are for a device without a battery.

    None switches a condition off. A field that is added here is checked and stored, and belongs
    to the body of `GET` and `PUT /v1/policy`.
    """

    require_ac_power: Annotated[Flag, RuledBy("power")] = True
    min_battery_percent: Annotated[float | None, RuledBy("battery")] = _percent(None)
    resume_battery_percent: Annotated[float | None, RuledBy("battery")] = _percent(None)
    obey_battery_saver: Annotated[Flag, RuledBy("battery_saver")] = True
    require_idle: Annotated[Flag, RuledBy("user_idle")] = False
    idle_minutes: Annotated[float, RuledBy("user_idle")] = _number(5.0, 0, 1440, "min")
    max_foreign_cpu_percent: Annotated[float | None, RuledBy("foreign_cpu")] = _percent(None)
    max_cpu_pressure_percent: Annotated[float | None, RuledBy("pressure")] = _percent(None)
    max_memory_pressure_percent: Annotated[float | None, RuledBy("pressure")] = _percent(25.0)
    max_io_pressure_percent: Annotated[float | None, RuledBy("pressure")] = _percent(None)
    grace_seconds: float = _seconds(10.0)
    settle_seconds: float = _seconds(5.0)
    suspend_in_memory_seconds: float = _seconds(0.0)
    max_temperature_c: Annotated[float | None, RuledBy("temperature")] = _celsius(95.0)
    resume_temperature_c: Annotated[float | None, RuledBy("temperature")] = _celsius(85.0)
    min_free_memory_bytes: Annotated[int | None, RuledBy("memory")] = _bytes(128 * 2**20)
    resume_free_memory_bytes: Annotated[int | None, RuledBy("memory")] = _bytes(256 * 2**20)
    min_free_disk_bytes: Annotated[int | None, RuledBy("disk")] = _bytes(64 * 2**20)
    resume_free_disk_bytes: Annotated[int | None, RuledBy("disk")] = _bytes(128 * 2**20)
    windows: Annotated[tuple[Window, ...], Field(max_length=MAX_ENTRIES)] = ()
    blocking_processes: Annotated[ProcessNames, RuledBy("processes")] = ()
    max_minutes_per_day: float | None = _number(None, 0, 1440, "min")
    max_threads_busy: int = _integer(1, 1, MAX_THREADS, "threads")
    max_threads_idle: int = _integer(1, 1, MAX_THREADS, "threads")
    nice: int = _integer(10, 0, 19, "niceness")
    memory_limit_bytes: int | None = _bytes(None, low=MIN_MEMORY_LIMIT_BYTES)
    download_on_metered: Flag = False
    unknown: Unknown = Unknown()


SETTINGS: dict[str, FieldInfo] = Policy.__pydantic_fields__  # type: ignore[attr-defined]
"""How each setting of the policy is declared."""


class Levels(NamedTuple):
    """A condition with one level that stops jobs and another at which they resume.

    stop, resume: settings of the policy; side: whether the second is above or below the first.
    rule: a field of `Unknown`. said: the value in words, such as "battery at {}".
    """

    condition: str
    signal: str
    stop: str
    resume: str
    side: Literal["above", "below"]
    rule: str
    said: str


LEVELS = (
    Levels(
        "battery",
        "battery_percent",
        "min_battery_percent",
        "resume_battery_percent",
        side="above",
        rule="battery",
        said="battery at {}",
    ),
    Levels(
        "temperature",
        "temperature_c",
        "max_temperature_c",
        "resume_temperature_c",
        side="below",
        rule="temperature",
        said="hottest sensor at {}",
    ),
    Levels(
        "memory",
        "available_memory_bytes",
        "min_free_memory_bytes",
        "resume_free_memory_bytes",
        side="above",
        rule="memory",
        said="{} memory available",
    ),
    Levels(
        "disk",
        "free_disk_bytes",
        "min_free_disk_bytes",
        "resume_free_disk_bytes",
        side="above",
        rule="disk",
        said="{} free where the data lies",
    ),
)


def default_policy(
    has_battery: bool,
    *,
    processors: int,
    usable_memory_bytes: int | None = None,
    threads: int | None = None,
    nice: int | None = None,
    memory_bytes: int | None = None,
) -> Policy:
    """The defaults for the device, until its owner changes them.

    processors: of the machine or its cgroup. usable_memory_bytes: likewise, half of which is for
    all child processes together; None if unknown. threads, nice, memory_bytes: as the
    operator has set them, None leaves the choice to the device. Niceness 10 is a tenth of a
    processor if every processor has other work, so that with two or more no other program loses
    5 %, whatever the threads; a device with only one needs 19.
    """
    if memory_bytes is None and usable_memory_bytes is not None:
        memory_bytes = max(MIN_MEMORY_LIMIT_BYTES, usable_memory_bytes // 2)
    policy = Policy(
        max_threads_busy=threads or 1,
        max_threads_idle=threads or min(processors, MAX_THREADS),
        nice=(10 if processors > 1 else 19) if nice is None else nice,
        memory_limit_bytes=memory_bytes,
        min_free_memory_bytes=min(128 * 2**20, (usable_memory_bytes or 2**30) // 8),
        resume_free_memory_bytes=min(256 * 2**20, (usable_memory_bytes or 2**30) // 4),
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
