"""Prints a benchmark's results."""

from __future__ import annotations

from typing import Any

Row = dict[str, Any]


def show(title: str, rows: list[Row]) -> None:
    """Print a table: one line per row, columns as wide as necessary."""
    columns = list(dict.fromkeys(column for row in rows for column in row))
    cells = [[text(row.get(column, "")) for column in columns] for row in rows]
    widths = [
        max(len(column), *(len(line[i]) for line in cells)) for i, column in enumerate(columns)
    ]
    print(f"\n{title}")
    for line in [columns, *cells]:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)))


def text(value: object) -> str:
    """A cell: three digits of a small number, whole thousands of a large one."""
    return (
        f"{value:,.3g}"
        if isinstance(value, float) and value < 100
        else (f"{value:,.0f}" if isinstance(value, float) else str(value))
    )
