"""`honed compare`: two versions of a model beside each other."""

from __future__ import annotations

from typing import Any

import click

from cli import completion
from cli.client import Client
from cli.commands.versions.versions import find_version
from cli.options import as_json, model_argument, version_argument
from cli.output import echo, echo_table

PER_CLASS = ("precision", "recall")
Metrics = dict[str, Any]


@click.command()
@model_argument
@version_argument
@click.argument("other", default="latest", shell_complete=completion.versions)
@as_json
@click.pass_obj
def compare(client: Client, model: str, version: str, other: str, *, as_json: bool) -> None:
    """Compare VERSION of MODEL with OTHER, numbers or aliases, by their metrics.

    If one was what the other had to beat, both were measured on the same samples. Else the figures
    are those of when each was made, on the validation samples of that time. Precision and recall of
    each class are shown if both versions tell as many classes apart.
    """
    pair = [find_version(client, model, which) for which in (version, other)]
    before, after, same_samples = measured(*pair)
    rows = [
        {"metric": name, "version": old, "other": new, "difference": _difference(old, new)}
        for name, old, new in _rows(before, after, pair[1]["classes"])
    ]
    found = {
        "model": model,
        "versions": [each["version"] for each in pair],
        "same_samples": same_samples,
        "metrics": rows,
    }
    echo(found, _echo, as_json=as_json)


def measured(version: dict[str, Any], other: dict[str, Any]) -> tuple[Metrics, Metrics, bool]:
    """The metrics of both, and whether they were measured on the same samples."""
    if other["verdict"].get("baseline_version") == version["version"]:
        return other["baseline"], other["metrics"], True
    if version["verdict"].get("baseline_version") == other["version"]:
        return version["metrics"], version["baseline"], True
    return version["metrics"], other["metrics"], version["version"] == other["version"]


def _rows(before: Metrics, after: Metrics, classes: list[str] | None) -> list[tuple[str, Any, Any]]:
    """Metric, the value of the one version, and of the other."""
    names = list(dict.fromkeys([*before, *after]))
    numbers = [
        (name, before.get(name), after.get(name))
        for name in names
        if isinstance(before.get(name, after.get(name)), int | float)
    ]
    of_classes = [
        (f"{name} of {classes[index] if classes else index}", old, new)
        for name in PER_CLASS
        if len(before.get(name) or ()) == len(after.get(name) or ())
        for index, (old, new) in enumerate(
            zip(before.get(name) or (), after.get(name) or (), strict=True)
        )
    ]
    return numbers + of_classes


def _difference(before: Any, after: Any) -> float | None:
    return None if before is None or after is None else after - before


def _echo(found: dict[str, Any]) -> None:
    headers = [f"VERSION {number}" for number in found["versions"]]
    rows = ([row[key] for key in row] for row in found["metrics"])
    echo_table(("METRIC", *headers, "DIFFERENCE"), rows)
    if found["metrics"] and not found["same_samples"]:
        click.echo("measured when each was made, on the validation samples of then", err=True)
