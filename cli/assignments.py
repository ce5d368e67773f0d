"""NAME=VALUE arguments, as `honed policy set` and `honed gate set` take them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import click

from cli.output import echo_fields
from storage.database.codec import dump


def parse(settings: Sequence[str]) -> dict[str, Any]:
    """The changes: a value is JSON or a plain word, `group.name=value` is nested.

    Raises UsageError for anything but an assignment, and for a name given twice.
    """
    changes: dict[str, Any] = {}
    for setting in settings:
        name, equals, text = setting.partition("=")
        if not equals:
            raise click.UsageError(f"{setting!r} is not NAME=VALUE")
        group, _, condition = name.partition(".")
        place = changes.setdefault(group, {}) if condition else changes
        key = condition or name
        if not isinstance(place, dict) or key in place:
            raise click.UsageError(f"{setting!r} sets {key} a second time")
        place[key] = _value(text)
    return changes


def echo_settings(settings: dict[str, Any]) -> None:
    """Print each setting with its value, as an assignment that can be given again."""
    echo_fields((name, shown(value)) for name, value in settings.items())


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def shown(value: Any) -> str:
    """A value as text that can be given again."""
    return value if isinstance(value, str) else dump(value)
