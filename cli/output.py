"""Prints answers: JSON for scripts, columns for people."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import IO, Any

import click

from service.logs import NEWLINE, visible
from storage.database.codec import dump

Columns = Mapping[str, str | Callable[[dict[str, Any]], Any]]
"""Header → the field that it shows, or what it shows of a record."""
JSON = "honed.json"
"""Where a command's context notes that --json was given."""


def echo_text(
    text: str | None = None,
    *,
    err: bool = False,
    file: IO[Any] | None = None,
    is_line: bool = True,
) -> None:
    """Lines for people; what others have named cannot command the terminal. err: on stderr.

    is_line: whether the text ends its line.
    """
    click.echo(visible(text or "", keep=NEWLINE), err=err, file=file, nl=is_line)


def echo_json(value: Any) -> None:
    """One JSON document on stdout."""
    echo_text(dump(value, indent=2))


def wants_json() -> bool:
    """Whether the command was given --json."""
    return bool(click.get_current_context().meta.get(JSON))


def echo(value: Any, show: Callable[[Any], None]) -> None:
    """An answer as JSON if --json is given, else as `show` prints it for people."""
    if wants_json():
        echo_json(value)
    else:
        show(value)


def echo_done(told: str, **facts: Any) -> None:
    """The result of a request whose answer has no body: one line, or the facts as JSON."""
    echo(facts, lambda _: echo_text(told))


def echo_table(headers: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Left-aligned columns under their headers; a missing value is a dash.

    If there are no rows, a message on stderr says so, so that scripts read none.
    """
    cells = [list(headers), *([plain(value) for value in row] for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(headers))]
    for row in cells:
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        echo_text(line.rstrip())
    if len(cells) == 1:
        echo_text("none yet", err=True)


def echo_records(answer: Any, columns: Columns) -> None:
    """One record or several, as JSON if --json is given, else each in a row of these columns."""

    def row(record: dict[str, Any]) -> list[Any]:
        return [record[of] if isinstance(of, str) else of(record) for of in columns.values()]

    records = answer if isinstance(answer, list) else [answer]
    echo(answer, lambda _: echo_table(list(columns), map(row, records)))


def echo_fields(fields: Iterable[tuple[str, Any]]) -> None:
    """One `name  value` a line; values of None are left out."""
    known = [(name, plain(value)) for name, value in fields if value is not None]
    width = max((len(name) for name, _ in known), default=0)
    for name, text in known:
        echo_text(f"{name.ljust(width)}  {text}")


def plain(value: Any) -> str:
    """A value as text for people, in one line."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return ", ".join(f"{key}={plain(item)}" for key, item in value.items()) or "-"
    if isinstance(value, list):
        return ", ".join(plain(item) for item in value) or "-"
    return visible(str(value))
