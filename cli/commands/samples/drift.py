"""`honed drift`: whether recent samples look like those that `latest` was trained on."""

from __future__ import annotations

from typing import Any

import click

from cli.client import Client, model_path
from cli.options import ClientCommand, model_argument
from cli.output import echo, echo_table, echo_text
from storage.errors import counted


@click.command(cls=ClientCommand)
@model_argument
def drift(client: Client, model: str) -> None:
    """Compare the recent samples of MODEL with those that `latest` was trained on.

    PSI is the population stability index of a feature; above its limit the feature has drifted.
    """
    echo(client.get(model_path(model, "drift")), _echo)


def _echo(report: dict[str, Any]) -> None:
    said = {True: "drifted", False: "no drift", None: "too few samples to tell"}
    echo_text(
        f"{said[report['drifted']]}: {counted(report['recent_samples'], 'recent sample')} beside "
        f"{report['training_samples']:,} of version {report['version']}"
    )
    if report["features"]:
        echo_table(
            ["FEATURE", "PSI", "LIMIT", "MEAN THEN", "MEAN NOW"], map(_row, report["features"])
        )


def _row(feature: dict[str, Any]) -> list[Any]:
    name = feature["name"] or feature["feature"]
    numbers = (feature[figure] for figure in ("psi", "limit", "training_mean", "recent_mean"))
    return [f"{feature['input']} {name}", *(f"{number:.4g}" for number in numbers)]
