"""`honed models …`: the models that the daemon trains."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from cli import assignments
from cli.client import Client, model_path
from cli.commands.models.diagnosis import parameter_counts
from cli.commands.models.following import follow, unfollow
from cli.commands.models.registration import add, check
from cli.commands.models.upgrade import drop_upgrade, show_base, upgrade
from cli.download import save
from cli.options import Group, model_argument, output_file, yes_option
from cli.output import Columns, echo, echo_done, echo_fields, echo_records
from storage.errors import file_size


@click.group(cls=Group)
def models() -> None:
    """Check, register, list, show, change and remove models; follow a source of new ones."""


for command in (add, check, upgrade, show_base, drop_upgrade, follow, unfollow):
    models.add_command(command)


@models.command("list")
def list_models(client: Client) -> None:
    """List the models, their samples and their newest version."""
    columns: Columns = {
        "NAME": "name",
        "LOSS": _loss,
        "TRAIN": lambda model: model["samples"]["train"],
        "VALIDATION": lambda model: model["samples"]["validation"],
        "UNLABELLED": lambda model: model["samples"]["unlabelled"],
        "LATEST": "latest_version",
    }
    echo_records(list(client.items("/v1/models")), columns)


@models.command("show")
@model_argument
def show(client: Client, model: str) -> None:
    """Show one model."""
    echo(client.get(model_path(model)), _echo_model)


@models.command("tokenizer")
@model_argument
@output_file("Where to write tokenizer.json.")
def tokenizer(client: Client, model: str, *, output: Path) -> None:
    """Fetch the tokenizer of MODEL, which texts feed."""
    size_bytes = save(client, model_path(model, "tokenizer.json"), output)
    told = f"{output}: the tokenizer of {model}, {file_size(size_bytes)}"
    echo_done(told, output=str(output), size_bytes=size_bytes)


@models.command("set")
@model_argument
@click.argument("settings", nargs=-1, required=True, metavar="NAME=VALUE...")
def set_fields(client: Client, model: str, settings: tuple[str, ...]) -> None:
    """Change MODEL: honed models set digits hyperparameters.epochs=10 duplicates=keep.

    hyperparameters are the defaults of its jobs; null removes one. See also honed gate, honed quota
    and honed retention.
    """
    echo(client.patch(model_path(model), assignments.parse(settings)), _echo_model)


@models.command("remove")
@model_argument
@yes_option
def remove(client: Client, model: str, *, yes: bool) -> None:
    """Remove a model with its samples, jobs and versions."""
    if not yes:
        click.confirm(f"Remove {model} with its samples, jobs and versions?", abort=True, err=True)
    client.request("DELETE", model_path(model))
    echo_done(f"{model} is removed", removed=model)


def _echo_model(model: dict[str, Any]) -> None:
    echo_fields(
        [
            ("name", model["name"]),
            ("created", model["created_at"]),
            *(("input", _tensor(tensor)) for tensor in model["inputs"]),
            ("target", "none" if 0 in model["target"]["shape"] else _tensor(model["target"])),
            ("loss", _loss(model)),
            ("optimizer", model["optimizer"]),
            ("parameters", parameter_counts(model)),
            ("hyperparameters", model["hyperparameters"]),
            ("samples", model["samples"]),
            ("latest version", model["latest_version"]),
        ]
    )


def _loss(model: dict[str, Any]) -> str:
    loss = model["loss"]
    return loss if isinstance(loss, str) else f"its output {loss['output']}"


def _tensor(tensor: dict[str, Any]) -> str:
    classes = tensor.get("classes")
    names = f", classes {', '.join(classes)}" if classes else ""
    return f"{tensor['name']}: {tensor['dtype']} {tensor['shape']}{names}"
