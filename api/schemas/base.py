"""What every body is made of."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Mapping
from datetime import datetime, timezone
from enum import Enum
from functools import reduce
from operator import or_
from types import UnionType
from typing import Annotated, Any, Generic, Literal, TypeVar, get_args, get_origin, get_type_hints

from msgspec import Struct
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
from pydantic_core import PydanticCustomError
from typing_extensions import Self

from service.backup.verification import VerificationProgress
from service.logs import hidden_in
from storage.database.transaction import Event
from storage.records.models import FileRecord

# FastAPI names a route's body by an alias and ignores this warning about it, but not where the
# validator is built later, as here. Only pydantic 2.12 has a class for it.
warnings.filterwarnings("ignore", message="The 'alias' attribute with value")


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

    model_config = ConfigDict(defer_build=True, from_attributes=True)

    @classmethod
    def of(cls, record: Struct | BaseModel, **others: Any) -> Self:
        """The body that shows a record. others: fields with other values than the record's."""
        for name in cls.model_fields.keys() - others.keys():
            if hasattr(record, name):
                others[name] = getattr(record, name)
            elif name in _OF_FILES:
                others[name] = getattr(record.file, name, None)  # type: ignore[union-attr]
        return cls.model_validate(others)


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


def shows(
    record: type[Struct], *, without: Collection[str] = (), **others: Any
) -> Callable[[type[B]], type[B]]:
    """Give a body the fields of a record, in their order, with lists for tuples.

    without: fields that it leaves out. others: types of fields that differ from the record's, or
    (type, default); one that the record lacks stands behind the one named before it. A record's
    file is shown as its digest and size.
    """
    kinds: dict[str, Any] = {}
    for name, kind in get_type_hints(record, include_extras=True).items():
        if name == "file":
            kinds |= {field: _or_none(each_kind, kind) for field, each_kind in _OF_FILES.items()}
        elif name not in without:
            kinds[name] = in_json(kind)
    before: str | None = None
    for name, kind in others.items():
        if name not in kinds:
            kinds = _inserted(kinds, name, behind=before)
        kinds[name], before = kind, name
    return with_fields(
        {name: kind if isinstance(kind, tuple) else (kind, ...) for name, kind in kinds.items()}
    )


_OF_FILES = get_type_hints(FileRecord)


def _or_none(kind: Any, other: Any) -> Any:
    return kind | None if type(None) in get_args(other) else kind


def _inserted(kinds: dict[str, Any], name: str, *, behind: str | None) -> dict[str, Any]:
    """With a place for a name behind another, by default before all."""
    at = [*kinds].index(behind) + 1 if behind else 0
    items = [*kinds.items()]
    return dict([*items[:at], (name, None), *items[at:]])


def in_json(kind: Any) -> Any:
    """A type as JSON has it: with lists for tuples, and texts for an enumeration."""
    if isinstance(kind, UnionType):
        return reduce(or_, map(in_json, get_args(kind)))
    if get_origin(kind) is tuple:
        return list[in_json(get_args(kind)[0])]  # type: ignore[misc]
    if isinstance(kind, type) and issubclass(kind, Enum):
        return Literal[tuple(member.value for member in kind)]
    return kind


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


@shows(
    VerificationProgress,
    error=str | None,
    verified_at=datetime | None,
    damaged=DamageBody | None,
)
class VerificationBody(Body):
    """How far all that is kept was read. total_bytes: null until that is known.

    error: what ended the last reading too early. verified_at: when all was read last. damaged: what
    is known to be.
    """


@shows(Event)
class EventBody(Body):
    """Something that has happened. docs/events.md lists the types."""


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
