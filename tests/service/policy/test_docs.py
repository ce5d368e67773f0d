from __future__ import annotations

import json
from pathlib import Path
from types import NoneType
from typing import get_args

from service.policy.policy import SETTINGS, RuledBy, default_policy
from service.policy.validation import to_dict

PAGE = Path(__file__).parents[3] / "docs" / "policy.md"
UNITS = ((2**50, "PiB"), (2**30, "GiB"), (2**20, "MiB"))


def size(size_bytes):
    return next((f"{size_bytes / one:g} {unit}" for one, unit in UNITS if size_bytes >= one), "0")


def shown(value, unit):
    """A value as the page shows it."""
    if unit == "B" and value is not None:
        return size(value)
    return f"`{json.dumps(value)}`" if not isinstance(value, float) else f"{value:g}"


def span(setting):
    kinds = get_args(setting.annotation) or (setting.annotation,)
    if bool in kinds:
        return "`true`, `false`"
    limits = [
        getattr(each, end)
        for end in ("ge", "le")
        for each in setting.metadata
        if hasattr(each, end)
    ]
    if not limits:
        return "at most 200"
    low, high = (size(limit) if setting.description == "B" else f"{limit:g}" for limit in limits)
    return f"{low} to {high}" + (", or `null`" if NoneType in kinds else "")


def expected_rows():
    """First six columns of the page's table of settings, by setting."""
    desk = default_policy(False, processors=2)
    laptop = default_policy(True, processors=2)
    rows = {}
    for name, setting in SETTINGS.items():
        if name == "unknown":
            continue
        defaults = [shown(to_dict(policy)[name], setting.description) for policy in (desk, laptop)]
        if name == "memory_limit_bytes":
            defaults = ["half of the memory"] * 2
        if name == "max_threads_idle":
            defaults = ["the number of processors"] * 2
        rule = next((each.rule for each in setting.metadata if type(each) is RuledBy), None)
        rules = [getattr(policy.unknown, rule or "disk") for policy in (desk, laptop)]
        unknown = f"`unknown.{rule}`: {' / '.join(rules)}" if rule else "-"
        rows[name] = [f"`{name}`", setting.description or "-", *defaults, span(setting), unknown]
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
    from service.policy.conditions import CONDITIONS, daily_limit

    page = PAGE.read_text(encoding="utf-8").split("## Conditions")[1].split("\n## ")[0]
    for condition in (*CONDITIONS, daily_limit):
        name = condition.__name__
        assert f"`{'cpu_pressure' if name == 'pressure' else name}`" in page
    assert "`paused`" in page
    assert "`snoozed`" in page
