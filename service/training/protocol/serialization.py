"""Frozen dataclasses from JSON, checked against their annotations.

Uses only the standard library: importing pydantic and building its validators took a training child
150 ms of the 450 ms that it needs to its first step.
"""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

SCALARS = (str, int, float, bool, type(None))


def build(hint: Any, value: Any, place: str = "") -> Any:
    """The object that a JSON value represents. Raises ValueError with the place of the error.

    hint: a dataclass, a scalar, Literal, Any, a union, tuple[X, ...], tuple[X, Y], dict[str, X].
    """
    origin = get_origin(hint)
    if hint is Any or (origin is Literal and value in get_args(hint)):
        return value
    if is_dataclass(hint):
        return _dataclass(hint, value, place)
    if origin in {Union, types.UnionType}:
        return _first_that_fits(get_args(hint), value, place)
    if origin is tuple and isinstance(value, list):
        return _tuple(get_args(hint), value, place)
    if origin is dict and isinstance(value, dict):
        (_, inner) = get_args(hint)
        return {key: build(inner, each, f"{place}/{key}") for key, each in value.items()}
    return _scalar(hint, value, place)


def _dataclass(kind: Any, value: Any, place: str) -> Any:
    if not isinstance(value, Mapping):
        raise ValueError(f"{place}: {value!r} is not a {kind.__name__}")
    hints, needed = _shape(kind)
    unknown, missing = value.keys() - hints.keys(), needed - value.keys()
    if unknown or missing:
        raise ValueError(
            f"{place}: not a {kind.__name__}: {sorted(unknown)} are unknown, {sorted(missing)} miss"
        )
    return kind(**{name: build(hints[name], v, f"{place}/{name}") for name, v in value.items()})


@cache
def _shape(kind: Any) -> tuple[dict[str, Any], frozenset[str]]:
    """Annotations of the fields, and the names of those without a default."""
    hints = get_type_hints(kind)
    known = {field.name: hints[field.name] for field in fields(kind)}
    needed = (
        field.name
        for field in fields(kind)
        if field.default is MISSING and field.default_factory is MISSING
    )
    return known, frozenset(needed)


def _first_that_fits(hints: tuple[Any, ...], value: Any, place: str) -> Any:
    faults = []
    for hint in hints:
        try:
            return build(hint, value, place)
        except ValueError as fault:
            faults.append(str(fault))
    raise ValueError("; ".join(faults))


def _tuple(hints: tuple[Any, ...], value: list[Any], place: str) -> tuple[Any, ...]:
    if hints[-1] is Ellipsis:
        hints = hints[:1] * len(value)
    if len(hints) != len(value):
        raise ValueError(f"{place}: {len(value)} items, {len(hints)} are expected")
    pairs = enumerate(zip(hints, value, strict=True))
    return tuple(build(hint, each, f"{place}/{index}") for index, (hint, each) in pairs)


def _scalar(kind: Any, value: Any, place: str) -> Any:
    if kind is float and type(value) is int:
        return float(value)
    if kind not in SCALARS or type(value) is not kind:
        raise ValueError(f"{place}: {value!r} is not {kind}")
    return value
