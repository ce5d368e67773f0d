"""What every body is made of."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    create_model,
)
from pydantic.warnings import UnsupportedFieldAttributeWarning
from pydantic_core import PydanticCustomError

from service.logs import hidden_in

# FastAPI names a route's body by an alias and ignores this warning about it, but not where the
# validator is built later, as here.
warnings.filterwarnings("ignore", category=UnsupportedFieldAttributeWarning)


def _written(value: Any) -> Any:
    """Refuse a number, which pydantic takes for seconds since 1970."""
    if not isinstance(value, str) or ":" not in value:
        told = "Input should be a valid datetime, such as 2026-11-22T14:30:00Z"
        raise PydanticCustomError("time", told)
    return value


def _in_utc(value: datetime) -> datetime:
    """Refuse a time whose year is from 1 to 9999 only where it was written."""
    try:
        return value.astimezone(timezone.utc)
    except OverflowError:
        told = "Input should be from the year 1 to 9999 in UTC"
        raise PydanticCustomError("time", told) from None


Time = Annotated[
    AwareDatetime, Field(strict=False), BeforeValidator(_written), AfterValidator(_in_utc)
]
"""A time that is sent, with its offset from UTC."""
T = TypeVar("T")
B = TypeVar("B", bound="Body")


class Body(BaseModel):
    """The base of every body. Its validator is built when first needed, which saves memory."""

    model_config = ConfigDict(defer_build=True)


class Request(Body):
    """A body that apps send. Unknown fields are refused, because they are probably mistyped.

    Numbers must be JSON numbers: neither "3" nor true is accepted.
    """

    model_config = ConfigDict(extra="forbid", strict=True)


def with_fields(fields: Mapping[str, tuple[Any, Any]]) -> Callable[[type[B]], type[B]]:
    """Give a body fields that are declared elsewhere: name → (type, default or `Field`)."""

    def extend(base: type[B]) -> type[B]:
        declared: dict[str, Any] = dict(fields)
        return create_model(
            base.__name__,
            __base__=base,
            __doc__=base.__doc__,
            __module__=base.__module__,
            **declared,
        )

    return extend


class Page(Body, Generic[T]):
    """One page of a list. next: the cursor of the following page, null on the last."""

    items: list[T]
    next: str | None


class FaultBody(Body):
    """One error: where it is (an RFC 6901 JSON pointer), and what would be right."""

    pointer: str
    detail: str


class ProblemBody(Body):
    """RFC 9457 problem document."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    errors: list[FaultBody] | None = None


class Health(Body):
    """The daemon is alive, or ready."""

    status: Literal["ok"]
    version: str


class RestoredBody(Body):
    """A damaged database was replaced by a backup. backup_from: newer data are lost."""

    restored_at: datetime
    backup_from: datetime


class DamageBody(Body):
    """Bytes that are not those that were stored. samples: how many are set aside, by model.

    files: SHA-256 → the versions, variants, checkpoints and artifacts that they are.
    """

    samples: dict[str, int]
    files: dict[str, list[str]]


class VerificationBody(Body):
    """How far all that is kept was read. total_bytes: null until that is known.

    error: what ended the last reading too early. verified_at: when all was read last. damaged: what
    is known to be.
    """

    running: bool
    read_bytes: int
    total_bytes: int | None
    error: str | None
    verified_at: datetime | None
    damaged: DamageBody | None


class EventBody(Body):
    """Something that has happened. docs/events.md lists the types."""

    id: int
    type: str
    model: str | None
    created_at: datetime
    data: dict[str, Any]


class Readiness(Health):
    """The daemon takes work. database_restored: until its note below `broken` is removed.

    damaged: what was found damaged and set aside; the rest works. storage_full: why uploads are
    refused, null if there is room; reads and deletions work.
    """

    database_restored: RestoredBody | None = None
    damaged: DamageBody | None = None
    storage_full: str | None = None


Text = Annotated[str, StringConstraints(min_length=1, max_length=256)]


def _in_plain_sight(text: str) -> str:
    if (hidden := hidden_in(text)) is not None:
        told = f"leave out U+{ord(hidden):04X}: names have no line breaks or control characters"
        raise PydanticCustomError("name", told)
    return text


Name = Annotated[Text, AfterValidator(_in_plain_sight)]
"""What people see in lists and logs."""
