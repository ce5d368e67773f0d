"""`honed federation`: a model's consent to federated training, and the privacy that was spent."""

from __future__ import annotations

from typing import Any

import click

from cli import assignments
from cli.client import Client, model_path
from cli.commands.models.settings import settings_argument
from cli.options import as_json, model_argument
from cli.output import echo, echo_fields


@click.command()
@model_argument
@settings_argument
@as_json
@click.pass_obj
def federation(client: Client, model: str, settings: tuple[str, ...], *, as_json: bool) -> None:
    """Show or change the consent of MODEL to federated training, and show what was spent.

    honed federation digits allowed=true superlink=fl.example:9092 epsilon=8
    null takes a setting back to its default. docs/federated.md explains each.
    """
    if settings:
        changes = {"federation": assignments.parse(settings)}
        client.request("PATCH", model_path(model), json=changes)
    echo(client.get(model_path(model, "federation")), _echo, as_json=as_json)


def _echo(found: dict[str, Any]) -> None:
    spent = found.pop("spent")
    today = found.pop("rounds_today")
    fields = {name: assignments.shown(value) for name, value in found.items()}
    epsilon, unnoised = spent["epsilon"], spent["rounds_without_noise"]
    fields["spent"] = "without bound" if epsilon is None else f"epsilon {epsilon:.3g}"
    fields["spent"] += f" by {spent['rounds']} rounds with noise"
    if unnoised:
        fields["spent"] += f"; {unnoised} rounds had none"
    echo_fields([*fields.items(), ("rounds today", today)])
