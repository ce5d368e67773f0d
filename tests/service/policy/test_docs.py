from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path

from service.policy import Policy, default_policy, to_dict
from service.policy.policy import Bounds

PAGE = Path(__file__).parents[3] / "docs" / "policy.md"
UNITS = ((2**50, "PiB"), (2**30, "GiB"), (2**20, "MiB"))


def size(size_bytes):
    return next((f"{size_bytes / one:g} {unit}" for one, unit in UNITS if size_bytes >= one), "0")


def shown(value, bounds):
    """A value as the page shows it."""
    if bounds.unit == "B" and value is not None:
        return size(value)
    return f"`{json.dumps(value)}`" if not isinstance(value, float) else f"{value:g}"


def span(bounds):
    if bounds.kind in ("number", "integer"):
        low, high = (
            size(limit) if bounds.unit == "B" else f"{limit:g}"
            for limit in (bounds.low, bounds.high)
        )
        return f"{low} to {high}" + (", or `null`" if bounds.optional else "")
    return {"flag": "`true`, `false`", "names": "at most 200", "windows": "at most 200"}[
        bounds.kind
    ]


def expected_rows():
    """First six columns of the page's table of settings, by setting."""
    desk = default_policy(False, processors=2)
    laptop = default_policy(True, processors=2)
    rows = {}
    for field in fields(Policy):
        bounds: Bounds = field.metadata["bounds"]
        if bounds.kind == "unknown":
            continue
        defaults = [shown(to_dict(policy)[field.name], bounds) for policy in (desk, laptop)]
        if field.name == "memory_limit_bytes":
            defaults = ["half of the memory"] * 2
        if field.name == "max_threads_idle":
            defaults = ["half of the processors"] * 2
        rules = [getattr(policy.unknown, bounds.unknown or "disk") for policy in (desk, laptop)]
        unknown = f"`unknown.{bounds.unknown}`: {' / '.join(rules)}" if bounds.unknown else "-"
        rows[field.name] = [
            f"`{field.name}`",
            bounds.unit or "-",
            *defaults,
            span(bounds),
            unknown,
        ]
    return rows


def written_rows():
    lines = PAGE.read_text(encoding="utf-8").split("## Settings")[1].split("\n## ")[0].splitlines()
    table = [line for line in lines if line.startswith("| `")]
    cells = ([cell.strip() for cell in line.strip("|").split(" | ")] for line in table)
    return {row[0].strip("`"): row for row in cells}


def test_the_page_describes_every_setting_as_it_is():
    written = written_rows()
    assert {name: row[:6] for name, row in written.items()} == expected_rows()
    assert all(len(row) == 7 and row[6] for row in written.values())


def test_the_page_names_every_condition():
    from service.policy.conditions import CONDITIONS

    page = PAGE.read_text(encoding="utf-8").split("## Conditions")[1].split("\n## ")[0]
    for condition in CONDITIONS:
        name = condition.__name__
        assert f"`{'cpu_pressure' if name == 'pressure' else name}`" in page
    assert "`paused`" in page
    assert "`snoozed`" in page
