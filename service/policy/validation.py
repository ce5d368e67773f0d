"""A policy from JSON and back, with everything that is wrong with it said at once."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import Field, fields
from typing import Any

from service.errors import InvalidInput
from service.policy.policy import RULES, Bounds, Policy, Unknown
from service.policy.windows import DAYS, MINUTES_PER_DAY, Window, clock_time
from storage.errors import Problem

MAX_ENTRIES = 200
CLOCK_TIME = re.compile(r"([01]\d|2[0-3]):([0-5]\d)|24:00")

HYSTERESIS = (
    ("min_battery_percent", "resume_battery_percent", "above"),
    ("max_temperature_c", "resume_temperature_c", "below"),
    ("min_free_memory_bytes", "resume_free_memory_bytes", "above"),
    ("min_free_disk_bytes", "resume_free_disk_bytes", "above"),
)
"""Stop level, resume level, and on which side of the first the second lies."""


def to_dict(policy: Policy) -> dict[str, Any]:
    """The policy as JSON shows it; `from_dict` reads it back."""
    plain = {field.name: getattr(policy, field.name) for field in fields(policy)}
    plain["unknown"] = {
        field.name: getattr(policy.unknown, field.name) for field in fields(policy.unknown)
    }
    plain["blocking_processes"] = list(policy.blocking_processes)
    plain["windows"] = [
        {
            "days": list(window.days),
            "start": clock_time(window.start_minute),
            "end": clock_time(window.end_minute),
        }
        for window in policy.windows
    ]
    return plain


def from_dict(data: Mapping[str, Any], *, base: Policy) -> Policy:
    """The policy that `data` describes; what it leaves out is as in `base`.

    Raises InvalidInput with every problem.
    """
    problems = validate(data, base=base)
    if problems:
        raise InvalidInput("the policy is not valid; nothing was changed", problems=problems)
    whole = _completed(data, base)
    whole["unknown"] = Unknown(**whole["unknown"])
    whole["blocking_processes"] = tuple(dict.fromkeys(whole["blocking_processes"]))
    whole["windows"] = tuple(map(_window, whole["windows"]))
    return Policy(**whole)


def validate(data: Mapping[str, Any], *, base: Policy) -> tuple[Problem, ...]:
    """Everything that is wrong with `data`, each with its JSON pointer; empty if nothing is."""
    problems = [*_check_fields(Policy, data, "")]
    if not problems:
        problems += _check_levels(_completed(data, base))
    return tuple(problems)


def _completed(data: Mapping[str, Any], base: Policy) -> dict[str, Any]:
    whole = to_dict(base)
    unknown = {**whole["unknown"], **data.get("unknown", {})}
    return {**whole, **data, "unknown": unknown}


def _check_fields(
    kind: type[Policy] | type[Unknown], data: Mapping[str, Any], pointer: str
) -> Iterator[Problem]:
    known: dict[str, Field[Any]] = {field.name: field for field in fields(kind)}
    for name, value in data.items():
        place = f"{pointer}/{_escaped(str(name))}"
        if name not in known:
            yield Problem(place, f"there is no such setting; there are {', '.join(known)}")
            continue
        bounds: Bounds = known[name].metadata["bounds"]
        if not (value is None and bounds.optional):
            yield from CHECKS[bounds.kind](value, bounds, place)


def _check_flag(value: object, _: Bounds, place: str) -> Iterator[Problem]:
    if not isinstance(value, bool):
        yield Problem(place, f"must be true or false, not {value!r}")


def _check_number(value: object, bounds: Bounds, place: str) -> Iterator[Problem]:
    whole = "a whole number" if bounds.kind == "integer" else "a number"
    span = f"{whole} from {bounds.low:g} to {bounds.high:g}{_in_unit(bounds)}"
    null = ", or null" if bounds.optional else ""
    allowed = int if bounds.kind == "integer" else (int, float)
    if isinstance(value, bool) or not isinstance(value, allowed) or not _is_within(value, bounds):
        yield Problem(place, f"must be {span}{null}, not {value!r}")


def _is_within(value: float, bounds: Bounds) -> bool:
    low = -math.inf if bounds.low is None else bounds.low
    high = math.inf if bounds.high is None else bounds.high
    return low <= value <= high


def _check_rule(value: object, _: Bounds, place: str) -> Iterator[Problem]:
    if value not in RULES:
        yield Problem(place, f"must be {' or '.join(RULES)}, not {value!r}")


def _check_unknown(value: object, _: Bounds, place: str) -> Iterator[Problem]:
    if isinstance(value, Mapping):
        yield from _check_fields(Unknown, value, place)
    else:
        yield Problem(place, f"must be an object of condition and allow or block, not {value!r}")


def _check_names(value: object, _: Bounds, place: str) -> Iterator[Problem]:
    if not isinstance(value, list) or len(value) > MAX_ENTRIES:
        yield Problem(place, f"must be a list of at most {MAX_ENTRIES} process names")
        return
    for index, name in enumerate(value):
        if not isinstance(name, str) or not name.strip() or "/" in name or "\0" in name:
            yield Problem(
                f"{place}/{index}", f"must be a process's name without its folder, not {name!r}"
            )


def _check_windows(value: object, _: Bounds, place: str) -> Iterator[Problem]:
    if not isinstance(value, list) or len(value) > MAX_ENTRIES:
        yield Problem(place, f"must be a list of at most {MAX_ENTRIES} windows")
        return
    for index, window in enumerate(value):
        yield from _check_window(window, f"{place}/{index}")


def _check_window(value: object, place: str) -> Iterator[Problem]:
    if not isinstance(value, Mapping) or set(value) != {"days", "start", "end"}:
        yield Problem(place, "must be an object of days, start and end")
        return
    days = value["days"]
    if not isinstance(days, list) or not days or not all(day in DAYS for day in days):
        yield Problem(f"{place}/days", f"must be a list of some of {', '.join(DAYS)}")
    wrong = [end for end in ("start", "end") if not _is_clock_time(value[end])]
    for end in wrong:
        yield Problem(f"{place}/{end}", f"must be a time such as 22:30, not {value[end]!r}")
    if not wrong and value["start"] == "24:00":
        yield Problem(f"{place}/start", "must be before 24:00")
    elif not wrong and _minute(value["start"]) == _minute(value["end"]):
        yield Problem(place, "has no length; a whole day is 00:00 to 24:00")


def _check_levels(whole: Mapping[str, Any]) -> Iterator[Problem]:
    for stop, resume, side in HYSTERESIS:
        stops_at, resumes_at = whole[stop], whole[resume]
        if stops_at is None or _lies(resumes_at, side, stops_at):
            continue
        level, given = _exact(stops_at), "null" if resumes_at is None else _exact(resumes_at)
        yield Problem(
            f"/{resume}",
            f"must be {level} or {side}, not {given}, since {stop} is {level}; set both",
        )


def _lies(level: float | None, side: str, other: float) -> bool:
    if level is None:
        return False
    return level >= other if side == "above" else level <= other


def _exact(number: float) -> str:
    """Without an exponent, up to the petabytes that the policy knows."""
    return f"{number:.16g}"


CHECKS: Mapping[str, Callable[[Any, Bounds, str], Iterator[Problem]]] = {
    "flag": _check_flag,
    "number": _check_number,
    "integer": _check_number,
    "rule": _check_rule,
    "unknown": _check_unknown,
    "names": _check_names,
    "windows": _check_windows,
}


def _window(data: Mapping[str, Any]) -> Window:
    days = tuple(day for day in DAYS if day in data["days"])
    end_minute = _minute(data["end"]) or MINUTES_PER_DAY
    return Window(days=days, start_minute=_minute(data["start"]), end_minute=end_minute)


def _is_clock_time(value: object) -> bool:
    return isinstance(value, str) and CLOCK_TIME.fullmatch(value) is not None


def _minute(clock: str) -> int:
    hours, minutes = clock.split(":")
    return int(hours) * 60 + int(minutes)


def _in_unit(bounds: Bounds) -> str:
    return f" {bounds.unit}" if bounds.unit in ("%", "°C", "B", "s", "min") else ""


def _escaped(name: str) -> str:
    """RFC 6901: `~` and `/` have escapes of their own."""
    return name.replace("~", "~0").replace("/", "~1")
