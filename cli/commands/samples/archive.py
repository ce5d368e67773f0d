"""`honed archive …`: all samples of a model as one file, for another device."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import click

from cli.client import Client, model_path
from cli.commands.samples.upload import add_file, allow_duplicates_option, echo_result
from cli.download import save
from cli.options import FILE, Group, model_argument, output_file
from cli.output import echo, echo_done, wants_json
from storage.errors import file_size


@click.group(cls=Group)
def archive() -> None:
    """Export and import all samples of a model as one zip."""


@archive.command("export")
@model_argument
@output_file("File to write. Default: MODEL-samples.zip in the current folder.", required=False)
def export(client: Client, model: str, *, output: Path | None) -> None:
    """Write the samples of MODEL, with key, label, split and pin, to a zip."""
    output = output or Path(f"{model}-samples.zip")
    path = model_path(model, "samples", "archive")
    size_bytes = save(client, path, output, show=not wants_json(), private=True)
    damaged = _damaged_in(output)
    told = f"{output}: samples of {model}, {file_size(size_bytes)}"
    if damaged:
        told += f"; without {damaged:,} that are damaged, see damaged/ in it"
    echo_done(told, output=str(output), size_bytes=size_bytes, damaged=damaged)


@archive.command("import")
@model_argument
@click.argument("file", type=FILE)
@allow_duplicates_option
def import_archive(client: Client, model: str, file: Path, *, allow_duplicates: bool) -> None:
    """Add the samples of FILE, which `honed archive export` wrote, to MODEL: all or none."""
    params = {"allow_duplicates": "true"} if allow_duplicates else {}
    path = model_path(model, "samples", "archive")
    result = add_file(client, path, file, params=params, archives=True)
    echo({"file": str(file), **result}, echo_result)


def _damaged_in(archive: Path) -> int:
    """How many samples the daemon has left out."""
    with zipfile.ZipFile(archive) as opened:
        return int(json.loads(opened.read("end.json"))["damaged"])
