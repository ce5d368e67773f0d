"""Rows of tables as records: one reader for all of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import cache
from types import NoneType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from msgspec import Struct, to_builtins

from storage.database.codec import convert, dump, dump_time, load
from storage.database.connection import sqlite3

_R = TypeVar("_R", bound=Struct)
_IN_JSON = (dict, tuple, Struct)


def record(kind: type[_R], row: sqlite3.Row | Mapping[str, Any], **others: Any) -> _R:
    """The record of a row, whose columns are named as its fields.

    Fields that are containers or records are JSON; what the stored JSON lacks takes its default.
    others: fields that no column is named as, as they would be in JSON.
    """
    columns = row.keys()
    values = {
        name: load(row[name]) if is_json and row[name] is not None else row[name]
        for name, is_json in _fields(kind)
        if name in columns and name not in others
    }
    return convert(values | others, kind, strict=False)


def columns(of: Struct, names: Iterable[str]) -> dict[str, Any]:
    """Column → value, of these fields of a record."""
    in_json = dict(_fields(type(of)))
    return {name: _stored(getattr(of, name), in_json=in_json[name]) for name in names}


def matching(*conditions: tuple[str, Any]) -> tuple[str, tuple[Any, ...]]:
    """A WHERE of the conditions whose value is not None, and these values."""
    given = [(clause, value) for clause, value in conditions if value is not None]
    values = (_stored(value, in_json=False) for _, value in given)
    return " AND ".join(clause for clause, _ in given) or "1", tuple(values)


def _stored(value: Any, *, in_json: bool) -> Any:
    if isinstance(value, datetime):
        return dump_time(value)
    return dump(to_builtins(value)) if in_json and value is not None else value


@cache
def _fields(kind: type[Struct]) -> tuple[tuple[str, bool], ...]:
    """Names, and whether the column is JSON."""
    return tuple((name, _is_json(hint)) for name, hint in get_type_hints(kind).items())


def _is_json(kind: Any) -> bool:
    first = next((part for part in get_args(kind) if part is not NoneType), None)
    if NoneType in get_args(kind):
        return _is_json(first)
    origin = get_origin(kind) or kind
    return isinstance(origin, type) and issubclass(origin, _IN_JSON)
