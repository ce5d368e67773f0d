"""`honed fetch`: downloads a version's file, complete and verified."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import click

from cli import completion
from cli.client import Client, model_path
from cli.commands.versions.versions import find_version
from cli.download import save
from cli.options import ClientCommand, model_argument, output_file
from cli.output import echo_done, wants_json
from storage.disk.digest import sha256_of
from storage.errors import file_size
from storage.records.versions import VariantName

LONGEST_WAIT_S = 300
"""The longest time that the daemon holds an answer."""


@click.command(cls=ClientCommand)
@model_argument
@output_file("Where to write the model.")
@click.option(
    "--version",
    "which",
    default="latest",
    shell_complete=completion.versions,
    help="A version's number, or an alias.",
)
@click.option(
    "--variant",
    type=click.Choice(get_args(VariantName)),
    help="Another form of the version; made when it is first asked for.",
)
@click.option(
    "--wait",
    "wait_s",
    type=click.IntRange(0, LONGEST_WAIT_S),
    default=0,
    metavar="SECONDS",
    help="Wait so long for a newer version if the file is the newest already.",
)
def fetch(
    client: Client,
    model: str,
    *,
    output: Path,
    which: str,
    variant: str | None,
    wait_s: int,
) -> None:
    """Fetch the newest inference model of MODEL, or one version.

    The file appears whole or not at all, its SHA-256 checked. A file that is the newest already is
    left alone.
    """
    if wait_s and (which != "latest" or variant):
        raise click.UsageError("--wait is for the newest version itself: no other changes")
    version = find_version(client, model, which)
    if wait_s and _has(output, version["sha256"]):
        version = _newer(client, version, wait_s)
    fetched = variant is not None or not _has(output, version["sha256"])
    if fetched:
        download(client, version, output, variant=variant, show=not wants_json())
    _echo(version, output, fetched=fetched)


def _newer(client: Client, known: dict[str, Any], wait_s: int) -> dict[str, Any]:
    """The version that `latest` names once its file is a new one, or at the timeout."""
    path = model_path(known["model"], "latest", "model.onnx")
    asked = {"If-None-Match": f'"{known["sha256"]}"'}
    answer = client.request("HEAD", path, params={"wait": wait_s}, headers=asked)
    return known if answer.status_code == 304 else find_version(client, known["model"], "latest")


def _has(output: Path, sha256: str) -> bool:
    return output.is_file() and sha256_of(output) == sha256


def _echo(version: dict[str, Any], output: Path, *, fetched: bool) -> None:
    what = f"version {version['version']} of {version['model']}"
    size = file_size(output.stat().st_size)
    told = f"{output}: {what}, {size}" if fetched else f"{output} is {what} already"
    echo_done(told, **version, output=str(output), fetched=fetched)


def download(
    client: Client,
    version: dict[str, Any],
    output: Path,
    *,
    variant: str | None = None,
    show: bool = True,
) -> None:
    """Write a version's model to `output` atomically, with its SHA-256 checked.

    show: whether to show a progress bar.
    """
    path = model_path(version["model"], "versions", version["version"], "model.onnx")
    if variant is None:
        save(client, path, output, sha256=version["sha256"], show=show)
    else:
        save(client, path, output, params={"variant": variant}, show=show)
