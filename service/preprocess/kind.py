"""What every kind of preprocessing is."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, ClassVar, Protocol

from storage.records.signatures import TensorSpec

TOO_LARGE = "it does not fit into memory when it is decoded; send it with fewer pixels"


class Unreadable(Exception):
    """What an app sent cannot be made into a tensor; the text says why, for people."""


class WrongDescription(Exception):
    """A description is wrong. pointer: JSON pointer within it."""

    def __init__(self, pointer: str, detail: str) -> None:
        super().__init__(detail)
        self.pointer = pointer
        self.detail = detail


class Kind(Protocol):
    """One input's preprocessing, of one kind."""

    kind: ClassVar[str]

    @classmethod
    def parse(cls, given: Mapping[str, Any], spec: TensorSpec) -> Kind:
        """From a description, for an input. Raises WrongDescription."""

    def describe(self) -> dict[str, Any]:
        """The complete description: with it alone an app can do the same."""


def refuse_unknown(given: Mapping[str, Any], known: Collection[str]) -> None:
    """Raises WrongDescription for a field that the kind has not."""
    for name in given:
        if name not in known:
            raise WrongDescription(f"/{name}", f"unknown field {name!r}; there are {sorted(known)}")


def numbers(given: Mapping[str, Any], name: str, *, count: int) -> tuple[float, ...] | None:
    """A list of `count` finite numbers, None where there is none. Raises WrongDescription."""
    value = given.get(name)
    if value is None:
        return None
    values = value if isinstance(value, list | tuple) else [value]
    if len(values) == 1:
        values = list(values) * count
    if len(values) != count or not all(_is_number(each) for each in values):
        raise WrongDescription(f"/{name}", f"{name} is a list of {count} numbers")
    return tuple(float(each) for each in values)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e30
