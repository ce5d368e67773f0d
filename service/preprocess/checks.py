"""How a description of preprocessing is checked, field by field."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any


class WrongDescription(Exception):
    """A description is invalid. pointer: JSON pointer within it."""

    def __init__(self, pointer: str, detail: str) -> None:
        super().__init__(detail)
        self.pointer = pointer
        self.detail = detail


def refuse_unknown(description: Mapping[str, Any], known: Collection[str]) -> None:
    """Raises WrongDescription for a field that this kind does not have."""
    for name in description:
        if name not in known:
            raise WrongDescription(f"/{name}", f"unknown field {name!r}; there are {sorted(known)}")


def chosen(
    description: Mapping[str, Any],
    known: Collection[str],
    choices: Mapping[str, Sequence[Any]],
    **others: Any,
) -> dict[str, Any]:
    """The fields, with the defaults of those that are absent: of each choice the first, which may
    be the only one.

    others: further defaults. Raises WrongDescription for unknown fields and choices.
    """
    refuse_unknown(description, known)
    defaults = {name: allowed[0] for name, allowed in choices.items()} | others
    fields = defaults | {name: value for name, value in description.items() if value is not None}
    for name, allowed in choices.items():
        if fields[name] not in allowed:
            what = f"one of {', '.join(allowed)}" if len(allowed) > 1 else f"always {allowed[0]}"
            raise WrongDescription(f"/{name}", f"{name} is {what}")
    return fields


def numbers(description: Mapping[str, Any], name: str, *, count: int) -> tuple[float, ...] | None:
    """A list of `count` finite numbers; None if the field is absent. Raises WrongDescription."""
    value = description.get(name)
    if value is None:
        return None
    values = value if isinstance(value, list | tuple) else [value]
    if len(values) == 1:
        values = list(values) * count
    if len(values) != count or not all(is_number(number) for number in values):
        raise WrongDescription(f"/{name}", f"{name} is a list of {count} numbers")
    return tuple(float(number) for number in values)


def is_number(value: Any) -> bool:
    """Whether it is a number that fits float32."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e30
