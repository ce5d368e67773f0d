"""Settings in the user's editor: one per line, with errors below it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import click

from cli.assignments import parse, shown
from cli.errors import Failure

HEADER = """\
# A setting a line, NAME = VALUE, as for `honed policy set`; docs/policy.md explains each.
# A line that is left out stays as it is. To give up, close the editor without a change.
"""
REFUSED = "# refused: "
"""The prefix of error lines, which are ignored on reading."""


def edited(
    known: dict[str, Any], put: Callable[[dict[str, Any]], dict[str, Any]]
) -> dict[str, Any] | None:
    """The result of `put` for the user's changes; None if there are none.

    put: if it raises Failure, the user edits again, with the errors below their lines. Raises that
    Failure if the user then changes nothing.
    """
    text = HEADER + "".join(f"{name} = {shown(value)}\n" for name, value in _flat(known))
    failure: Failure | None = None
    while (again := click.edit(text, extension=".conf")) not in (None, text):
        assert again is not None
        lines = [line for line in again.splitlines() if not line.startswith(REFUSED)]
        try:
            changes = _changes(known, _settings(lines))
            return put(changes) if changes else None
        except Failure as refused:
            failure = refused
            text = "\n".join([*_annotated(lines, refused), ""])
    if failure is not None:
        raise failure.within("nothing was changed: ")
    return None


def _flat(settings: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Names as `honed policy set` takes them: `unknown.power`."""
    for name, value in settings.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _settings(lines: list[str]) -> dict[str, Any]:
    """The settings in the lines. Raises Failure."""
    told = [line for line in lines if line.strip() and not line.startswith("#")]
    try:
        return parse([_tight(line) for line in told])
    except click.UsageError as error:
        raise Failure(error.message) from error


def _tight(line: str) -> str:
    name, equals, value = line.partition("=")
    return f"{name.strip()}{equals}{value.strip()}"


def _changes(known: dict[str, Any], wanted: dict[str, Any]) -> dict[str, Any]:
    """The differences, in the form that PUT takes."""
    changes: dict[str, Any] = {}
    for name, value in wanted.items():
        before = known.get(name)
        if isinstance(value, dict) and isinstance(before, dict):
            if below := _changes(before, value):
                changes[name] = below
        elif name not in known or value != before:
            changes[name] = value
    return changes


def _annotated(lines: list[str], refused: Failure) -> Iterator[str]:
    """The lines with each error below its line, and errors without a line at the top."""
    faults = [(_name(pointer), detail) for pointer, detail in refused.faults]
    places = {_tight(line).partition("=")[0]: number for number, line in enumerate(lines)}
    beneath: dict[int | None, list[str]] = {}
    for name, detail in faults or [("", refused.message)]:
        beneath.setdefault(_place(places, name), []).append(detail.replace("\n", " "))
    yield from (REFUSED + detail for detail in beneath.get(None, ()))
    for number, line in enumerate(lines):
        yield line
        yield from (REFUSED + detail for detail in beneath.get(number, ()))


def _name(pointer: str) -> str:
    """The setting that a JSON pointer leads to: `/unknown/power` is `unknown.power`."""
    return pointer.removeprefix("/").replace("/", ".")


def _place(places: dict[str, int], name: str) -> int | None:
    """The number of a setting's line; an error within a value belongs to its setting."""
    while name not in places and "." in name:
        name = name.rpartition(".")[0]
    return places.get(name)
