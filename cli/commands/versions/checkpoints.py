"""`honed checkpoints …`: training states from which a job can continue."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from cli import completion
from cli.client import Client, model_path
from cli.download import save
from cli.options import Group, as_json, model_argument
from cli.output import echo, echo_done, echo_fields, echo_table, file_size

COLUMNS = ("id", "job_id", "role", "step", "epoch", "engine", "size", "pinned", "note")
checkpoint_argument = click.argument(
    "checkpoint_id", type=int, shell_complete=completion.checkpoints
)


@click.group(cls=Group)
def checkpoints() -> None:
    """List, show, pin, download and remove checkpoints."""


@checkpoints.command("list")
@model_argument
@as_json
@click.pass_obj
def list_checkpoints(client: Client, model: str, *, as_json: bool) -> None:
    """List the checkpoints of MODEL, newest first."""

    def show(found: list[dict[str, Any]]) -> None:
        headers = [column.upper().replace("_ID", "") for column in COLUMNS]
        echo_table(headers, ([_shown(each)[column] for column in COLUMNS] for each in found))

    echo(list(client.items(model_path(model, "checkpoints"))), show, as_json=as_json)


@checkpoints.command("show")
@checkpoint_argument
@as_json
@click.pass_obj
def show(client: Client, checkpoint_id: int, *, as_json: bool) -> None:
    """Show a checkpoint."""
    echo(client.get(_path(checkpoint_id)), _echo_fields, as_json=as_json)


@checkpoints.command("pin")
@checkpoint_argument
@click.option("--off", is_flag=True, help="Let retention delete it again.")
@click.option("--note", help="A line for people.")
@as_json
@click.pass_obj
def pin(client: Client, checkpoint_id: int, *, off: bool, note: str | None, as_json: bool) -> None:
    """Keep a checkpoint until it is removed by hand."""
    changes = {"pinned": not off, "note": note}
    changed = client.request("PATCH", _path(checkpoint_id), json=changes).json()
    echo(changed, _echo_fields, as_json=as_json)


@checkpoints.command("download")
@checkpoint_argument
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where to write the engine's file.",
)
@as_json
@click.pass_obj
def download(client: Client, checkpoint_id: int, *, output: Path, as_json: bool) -> None:
    """Download a checkpoint: parameters and the optimizer's state, as its engine writes them."""
    size_bytes = save(client, f"{_path(checkpoint_id)}/content", output)
    told = f"{output}: checkpoint {checkpoint_id}, {file_size(size_bytes)}"
    echo_done(told, output=str(output), size_bytes=size_bytes, as_json=as_json)


@checkpoints.command("remove")
@checkpoint_argument
@as_json
@click.pass_obj
def remove(client: Client, checkpoint_id: int, *, as_json: bool) -> None:
    """Remove a checkpoint. Refused while a version or an unfinished job needs it."""
    client.request("DELETE", _path(checkpoint_id))
    told = f"checkpoint {checkpoint_id} is removed"
    echo_done(told, removed=checkpoint_id, as_json=as_json)


def _path(checkpoint_id: int) -> str:
    return f"/v1/checkpoints/{checkpoint_id}"


def _shown(checkpoint: dict[str, Any]) -> dict[str, Any]:
    return {**checkpoint, "size": file_size(checkpoint["size_bytes"])}


def _echo_fields(checkpoint: dict[str, Any]) -> None:
    shown = _shown(checkpoint)
    names = ("model", *COLUMNS, "sha256", "created_at")
    echo_fields((name.replace("_", " "), shown[name]) for name in names)
