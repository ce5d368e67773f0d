"""Encodes values that have no column of their own."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timezone
from threading import Lock
from types import UnionType
from typing import Any, TypeVar

import msgspec

_T = TypeVar("_T")
Clock = Callable[[], datetime]
_learning = Lock()
_learned: set[object] = set()


def utc_now() -> datetime:
    """The time now, in UTC."""
    return datetime.now(timezone.utc)


def dump(
    value: object,
    *,
    indent: int | None = None,
    sort_keys: bool = False,
    ensure_ascii: bool = False,
    default: Callable[[Any], object] | None = None,
) -> str:
    """JSON, without spaces unless indented; whatever is stored or sent is encoded here.

    ensure_ascii: for text with lone surrogates, which UTF-8 lacks. default: encodes other types.
    Raises ValueError for NaN and infinity, which JSON lacks.
    """
    return json.dumps(
        value,
        indent=indent,
        sort_keys=sort_keys,
        ensure_ascii=ensure_ascii,
        default=default,
        allow_nan=False,
        separators=(",", ":") if indent is None else (",", ": "),
    )


def encode(value: object) -> bytes:
    """JSON of many numbers, in a tenth of the time; those that JSON lacks become null."""
    return msgspec.json.encode(value)


def load(text: str) -> Any:
    """The value of a JSON text."""
    return json.loads(text)


def convert(value: Any, kind: type[_T] | UnionType, *, strict: bool = True) -> _T:
    """The value that JSON's values stand for. Raises msgspec.ValidationError.

    strict: types are not converted, except a whole number where a float is expected.
    """
    _learn(kind)
    return msgspec.convert(value, kind, strict=strict)


def decode(text: str | bytes, kind: type[_T] | UnionType) -> _T:
    """The value that a JSON text stands for. Raises msgspec.DecodeError."""
    _learn(kind)
    return msgspec.json.decode(text, type=kind)


def _learn(kind: Any) -> None:
    """Let one thread at a time learn types, before any value is made of them.

    msgspec 0.22 shows other threads a struct whose fields it is still reading, and the process
    crashes at the first of them (StructInfo_Convert in its _core.c).
    """
    if kind not in _learned:
        with _learning:
            msgspec.json.Decoder(kind)
            _learned.add(kind)


def dump_time(moment: datetime) -> str:
    """RFC 3339 in UTC with microseconds, so that text order is time order."""
    return moment.astimezone(timezone.utc).isoformat(timespec="microseconds")


def load_time(text: str) -> datetime:
    """Parse a time written by `dump_time`."""
    return datetime.fromisoformat(text)
