"""`honed base-set …`: samples of what a model must not forget."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from cli.client import Client, model_path
from cli.commands.samples import media
from cli.commands.samples.upload import add_file, add_media, echo_result
from cli.options import FILE_OR_FOLDER, Group, model_argument
from cli.output import echo, echo_fields, echo_json, echo_text, wants_json


@click.group("base-set", cls=Group)
def base_set() -> None:
    """Keep models from forgetting what they knew."""


@base_set.command("add")
@model_argument
@click.argument("files", nargs=-1, type=FILE_OR_FOLDER)
@click.option(
    "--first",
    type=click.IntRange(min=1),
    metavar="N",
    help="Take the model's first labelled samples, so many, instead of FILES.",
)
def add(client: Client, model: str, files: tuple[Path, ...], *, first: int | None) -> None:
    """Add the samples of FILES to the base set of MODEL.

    FILES are as for honed samples add, or .zip: an archive of samples, as another model exports
    them. Every sample needs a label. Jobs replay a share of the base set (honed train --replay),
    and the gate judges versions by the tenth of it that no job trains on.
    """
    if bool(files) == (first is not None):
        raise click.UsageError("give FILES, or --first")
    path = model_path(model, "base-set")
    if first is not None:
        results = [{"taken": client.post(path, {"first": first})["duplicates"]}]
    else:
        results = [{"file": str(file), **_send(client, model, path, file)} for file in files]
    now = client.get(path)
    if wants_json():
        echo_json({"results": results, **now})
        return
    for result in results:
        if first is None:
            echo_result(result)
        else:
            echo_text(f"{result['taken']:,} samples taken")
    _echo(now)


def _send(client: Client, model: str, path: str, file: Path) -> dict[str, Any]:
    if file.is_dir() or file.suffix.lower() in media.ENDINGS:
        return add_media(client, model, file, params={}, to="base-set")
    return add_file(client, path, file, params={}, archives=True)


@base_set.command("show")
@model_argument
def show(client: Client, model: str) -> None:
    """Show the base set of MODEL."""
    echo(client.get(model_path(model, "base-set")), _echo)


@base_set.command("remove")
@model_argument
def remove(client: Client, model: str) -> None:
    """Remove the base set of MODEL.

    Samples that were taken with --first are the model's own again; those that were sent as a base
    set are deleted.
    """
    removed = client.ask("DELETE", model_path(model, "base-set"))
    told = f"{removed['given_back']:,} given back, {removed['deleted']:,} deleted"
    echo(removed, lambda _: echo_text(told))


def _echo(base_set: dict[str, Any]) -> None:
    labels = {
        label["label"] if label["name"] is None else label["name"]: label["count"]
        for label in base_set["labels"]
    }
    echo_fields(
        [
            ("samples", base_set["samples"]),
            ("held out", base_set["held_out"]),
            ("labels", labels or None),
            ("changed", base_set["changed_at"]),
        ]
    )
