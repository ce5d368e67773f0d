"""`honed checkpoints …`: training states from which a job can continue."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from cli import completion
from cli.client import Client, model_path
from cli.download import save
from cli.options import Group, model_argument, output_file
from cli.output import Columns, echo, echo_done, echo_fields, echo_records
from storage.errors import file_size

COLUMNS = ("id", "job_id", "role", "step", "epoch", "engine", "size", "pinned", "note")
checkpoint_argument = click.argument(
    "checkpoint_id", type=int, shell_complete=completion.checkpoints
)


@click.group(cls=Group)
def checkpoints() -> None:
    """List, show, pin, download and remove checkpoints."""


@checkpoints.command("list")
@model_argument
def list_checkpoints(client: Client, model: str) -> None:
    """List the checkpoints of MODEL, newest first."""
    columns: Columns = {
        **{column.upper().replace("_ID", ""): column for column in COLUMNS},
        "SIZE": _size,
    }
    echo_records(list(client.items(model_path(model, "checkpoints"))), columns)


@checkpoints.command("show")
@checkpoint_argument
def show(client: Client, checkpoint_id: int) -> None:
    """Show a checkpoint."""
    echo(client.get(_path(checkpoint_id)), _echo_fields)


@checkpoints.command("pin")
@checkpoint_argument
@click.option("--off", is_flag=True, help="Let retention delete it again.")
@click.option("--note", help="A line for people.")
def pin(client: Client, checkpoint_id: int, *, off: bool, note: str | None) -> None:
    """Keep a checkpoint until it is removed by hand."""
    changed = client.patch(_path(checkpoint_id), {"pinned": not off, "note": note})
    echo(changed, _echo_fields)


@checkpoints.command("download")
@checkpoint_argument
@output_file("Where to write the engine's file.")
def download(client: Client, checkpoint_id: int, *, output: Path) -> None:
    """Download a checkpoint: parameters and the optimizer's state, as its engine writes them."""
    size_bytes = save(client, f"{_path(checkpoint_id)}/content", output)
    told = f"{output}: checkpoint {checkpoint_id}, {file_size(size_bytes)}"
    echo_done(told, output=str(output), size_bytes=size_bytes)


@checkpoints.command("remove")
@checkpoint_argument
def remove(client: Client, checkpoint_id: int) -> None:
    """Remove a checkpoint. Refused while a version or an unfinished job needs it."""
    client.request("DELETE", _path(checkpoint_id))
    echo_done(f"checkpoint {checkpoint_id} is removed", removed=checkpoint_id)


def _path(checkpoint_id: int) -> str:
    return f"/v1/checkpoints/{checkpoint_id}"


def _size(checkpoint: dict[str, Any]) -> str:
    return file_size(checkpoint["size_bytes"])


def _echo_fields(checkpoint: dict[str, Any]) -> None:
    shown = {**checkpoint, "size": _size(checkpoint)}
    names = ("model", *COLUMNS, "sha256", "created_at")
    echo_fields((name.replace("_", " "), shown[name]) for name in names)
