"""A policy from JSON and back, with all its errors reported at once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from types import NoneType
from typing import Any, get_args

from pydantic import TypeAdapter, ValidationError

from service.errors import InvalidInput
from service.policy.policy import LEVELS, MAX_ENTRIES, SETTINGS, Policy, Unknown
from service.policy.time_windows import DAYS
from storage.database.codec import dump
from storage.errors import Problem, pointer

Place = tuple[str | int, ...]
SAID_UNITS = frozenset({"%", "°C", "B", "s", "min"})
EXPECTED: dict[tuple[str, ...], str] = {
    ("windows",): f"a list of at most {MAX_ENTRIES} windows",
    ("windows", "#"): "an object of days, start and end",
    ("windows", "#", "days"): f"a list of some of {', '.join(DAYS)}",
    ("windows", "#", "start"): "a time such as 22:30",
    ("windows", "#", "end"): "a time such as 22:30",
    ("blocking_processes",): f"a list of at most {MAX_ENTRIES} process names",
    ("blocking_processes", "#"): "a process's name without its folder",
    ("unknown",): "an object of condition and allow or block",
    **{("unknown", rule.name): "allow or block" for rule in fields(Unknown)},
}
"""The valid values at a place; # is any index. For numbers and flags the declaration says it."""
LISTS = ("windows", "blocking_processes")
NOT_VALID = "the policy is not valid; nothing was changed"


def to_dict(policy: Policy) -> dict[str, Any]:
    """The policy as JSON shows it; `from_dict` reads it back."""
    plain: dict[str, Any] = TypeAdapter(Policy).dump_python(policy, mode="json")
    return plain


def from_dict(data: Mapping[str, Any], *, base: Policy) -> Policy:
    """The policy that `data` describes; omitted settings are as in `base`.

    Raises InvalidInput with every problem.
    """
    unknown = ((name,) for name in data if name not in SETTINGS)
    texts: dict[Place, str] = dict.fromkeys(unknown, _no_such_setting(Policy))
    _require_short_lists(data)
    problems: list[Problem] = []
    try:
        policy = Policy(**_completed(data, base))
    except ValidationError as error:
        texts |= _faults(error, data)
    else:
        problems += _check_levels(policy)
        if not texts and not problems:
            return policy
    order = {name: at for at, name in enumerate(data)}
    places = sorted(texts, key=lambda place: order[str(place[0])])
    problems = [Problem(pointer(*place), texts[place]) for place in places] or problems
    raise InvalidInput(NOT_VALID, problems=problems)


def _require_short_lists(data: Mapping[str, Any]) -> None:
    """Raises InvalidInput; pydantic would look for errors in every entry first."""
    for name in LISTS:
        entries = data.get(name)
        if isinstance(entries, list) and len(entries) > MAX_ENTRIES:
            detail = f"must be {EXPECTED[name,]}, not of {len(entries)}"
            raise InvalidInput.at(f"/{name}", detail, title=NOT_VALID)


def _completed(data: Mapping[str, Any], base: Policy) -> dict[str, Any]:
    """Values of all settings. Other names are left out: pydantic may refuse their text."""
    whole = to_dict(base)
    rules = data.get("unknown", {})
    unknown = {**whole["unknown"], **rules} if isinstance(rules, Mapping) else rules
    known = {name: value for name, value in data.items() if name in SETTINGS}
    return {**whole, **known, "unknown": unknown}


def _faults(error: ValidationError, data: Mapping[str, Any]) -> dict[Place, str]:
    """The valid values at each invalid place."""
    texts: dict[Place, str] = {}
    for fault in error.errors(include_url=False, include_context=False):
        place: Place = fault["loc"]
        if fault["type"] == "unexpected_keyword_argument" and place[0] == "unknown":
            texts[place] = _no_such_setting(Unknown)
        elif fault["type"] == "value_error":
            texts[place] = fault["msg"].removeprefix("Value error, ")
        else:
            if fault["type"] in {"missing", "unexpected_keyword_argument"}:
                place = place[:-1]
            place = _settled(place)
            texts[place] = f"must be {_expected(place)}{_given(data, place)}"
    return texts


def _no_such_setting(kind: type[Policy] | type[Unknown]) -> str:
    return f"there is no such setting; there are {', '.join(field.name for field in fields(kind))}"


def _settled(place: Place) -> Place:
    """The innermost enclosing place with a description of its valid values."""
    while len(place) > 1 and _shape(place) not in EXPECTED:
        place = place[:-1]
    return place


def _shape(place: Place) -> tuple[str, ...]:
    return tuple("#" if isinstance(part, int) else part for part in place)


def _expected(place: Place) -> str:
    shape = _shape(place)
    return EXPECTED[shape] if shape in EXPECTED else _expected_value(str(place[0]))


def _expected_value(name: str) -> str:
    setting = SETTINGS[name]
    kinds = get_args(setting.annotation) or (setting.annotation,)
    if bool in kinds:
        return "true or false"
    (low,) = (bound.ge for bound in setting.metadata if hasattr(bound, "ge"))
    (high,) = (bound.le for bound in setting.metadata if hasattr(bound, "le"))
    whole = "a whole number" if int in kinds else "a number"
    unit = f" {setting.description}" if setting.description in SAID_UNITS else ""
    null = ", or null" if NoneType in kinds else ""
    return f"{whole} from {_exact(low)} to {_exact(high)}{unit}{null}"


def _given(data: Any, place: Place) -> str:
    """The invalid value, if it is short enough to show."""
    for part in place:
        data = data[part]
    if isinstance(data, list | Mapping):
        return ""
    return f", not {repr(data) if isinstance(data, str | float) else dump(data)}"


def _check_levels(policy: Policy) -> Iterator[Problem]:
    for levels in LEVELS:
        stops_at, resumes_at = getattr(policy, levels.stop), getattr(policy, levels.resume)
        if stops_at is None or _lies(resumes_at, levels.side, stops_at):
            continue
        level, shown = _exact(stops_at), "null" if resumes_at is None else _exact(resumes_at)
        yield Problem(
            f"/{levels.resume}",
            f"must be {level} or {levels.side}, not {shown}, since {levels.stop} is {level}; "
            "set both",
        )


def _lies(level: float | None, side: str, other: float) -> bool:
    if level is None:
        return False
    return level >= other if side == "above" else level <= other


def _exact(number: float) -> str:
    """Without an exponent, up to petabytes, the policy's largest values."""
    return f"{number:.16g}"
