"""`honed compare`: two versions of a model side by side."""

from __future__ import annotations

from typing import Any

import click

from cli import completion
from cli.client import Client, model_path
from cli.commands.versions.versions import find_version
from cli.options import ClientCommand, model_argument, version_argument
from cli.output import echo, echo_table, echo_text

MATRIX = "confusion_matrix"
SIDES = {
    "class": ("became wrong", "became right"),
    "share": ("are wrong in more places", "are wrong in fewer places"),
    "absolute": ("have a larger error", "have a smaller error"),
    "loss": ("have a larger loss", "have a smaller loss"),
}
"""How samples are described that got worse or better."""


@click.command(cls=ClientCommand)
@model_argument
@version_argument
@click.argument("other", default="latest", shell_complete=completion.versions)
@click.option("--samples", default=10, help="Maximum number of samples to list of each side.")
def compare(client: Client, model: str, version: str, other: str, *, samples: int) -> None:
    """Compare VERSION of MODEL with OTHER, numbers or aliases, on today's validation samples.

    Shows the metrics of both, precision and recall of each class, and the samples that changed
    sides. What each reached when it was made, `honed versions show` tells.
    """
    pair = [find_version(client, model, which)["version"] for which in (version, other)]
    path = model_path(model, "versions", pair[0], "comparison", pair[1])
    echo(client.get(path, limit=samples), _echo)


def _echo(comparison: dict[str, Any]) -> None:
    headers = [f"VERSION {number}" for number in comparison["versions"]]
    rows = _rows(comparison["before"], comparison["after"], comparison["classes"])
    echo_table(
        ("METRIC", *headers, "DIFFERENCE"),
        ((name, old, new, _difference(old, new)) for name, old, new in rows),
    )
    for side, what in zip(("worse", "better"), SIDES[comparison["by"]], strict=True):
        changed = comparison[side]
        echo_text(f"\n{changed['total']:,} of {comparison['samples']:,} samples {what}")
        if changed["items"]:
            echo_table(
                ("SAMPLE", "LABEL", *headers, "ERROR BEFORE", "AFTER"),
                (_changed(sample, comparison["classes"]) for sample in changed["items"]),
            )
    if left_out := comparison["left_out"]:
        echo_text(f"{left_out:,} of classes that one does not know are left out", err=True)


def _changed(sample: dict[str, Any], classes: list[str] | None) -> list[Any]:
    answers = [
        classes[value] if classes and isinstance(value, int) else value
        for value in (sample["label"], sample["before"], sample["after"])
    ]
    return [sample["id"], *answers, sample["before_error"], sample["after_error"]]


def _rows(
    before: dict[str, Any], after: dict[str, Any], classes: list[str] | None
) -> list[tuple[str, Any, Any]]:
    """(metric, its value before, its value after)."""
    names = list(dict.fromkeys([*before, *after]))
    numbers = [
        (name, before.get(name), after.get(name))
        for name in names
        if isinstance(before.get(name, after.get(name)), int | float)
    ]
    quantiles = [
        (f"error within {float(share):.0%}", old, (after.get("error_quantiles") or {}).get(share))
        for share, old in (before.get("error_quantiles") or {}).items()
    ]
    of_classes = [
        (f"{name.removesuffix('_by_label')} of {classes[index] if classes else index}", old, new)
        for name in names
        if isinstance(before.get(name) or after.get(name), list) and name != MATRIX
        for index, (old, new) in enumerate(
            zip(before.get(name) or (), after.get(name) or (), strict=True)
        )
    ]
    return numbers + quantiles + of_classes


def _difference(before: Any, after: Any) -> float | None:
    return None if before is None or after is None else after - before
