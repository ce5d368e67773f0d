"""Values that go through JSON, between processes and into files, checked against their annotations.

With msgspec: importing pydantic and building its validators took a training child 150 of the 450
ms that it needed to its first step.
"""

from __future__ import annotations

import json
from collections.abc import Container
from typing import Any, TypeVar

import msgspec

from storage.database.codec import convert

_Value = TypeVar("_Value")


class Serialized(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A value that goes through JSON."""


class Line(Serialized, frozen=True, tag_field="kind", tag=str.lower):
    """A value that is a line of its own, told from others by the name of its class."""

    @property
    def kind(self) -> str:
        """As the line has it."""
        return type(self).__name__.lower()


def plain(value: Any) -> Any:
    """What JSON can hold of a value: structs as dicts, and numpy's floats as Python's.

    Raises TypeError for anything else.
    """
    return msgspec.to_builtins(value, enc_hook=_number)


def build(kind: type[_Value], value: Any) -> _Value:
    """The value that this JSON represents. Raises ValueError with the place of the error.

    Types are not converted, except a whole number where a float is expected.
    """
    try:
        return convert(value, kind)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from error


def read(line: bytes, known: Container[str], what: str) -> tuple[str, Any]:
    """The kind of a line, and its JSON. Raises ValueError if the kind is not known."""
    value = json.loads(line)
    kind = str(value.get("kind")) if isinstance(value, dict) else ""
    if kind not in known:
        raise ValueError(f"this is not {what}: {line[:200]!r}")
    return kind, value


def _number(value: Any) -> float:
    if isinstance(value, float):
        return float(value)
    raise TypeError(f"{value!r} is no value of JSON")
