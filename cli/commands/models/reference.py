"""`honed reference …`: validation samples frozen for the gate."""

from __future__ import annotations

from typing import Any

import click

from cli.client import Client, model_path
from cli.options import Group, model_argument
from cli.output import echo, echo_done, echo_fields


@click.group(cls=Group)
def reference() -> None:
    """Freeze the validation samples that the gate also uses; docs/promotion.md explains it."""


@reference.command("show")
@model_argument
def show(client: Client, model: str) -> None:
    """Show how many samples the reference set of MODEL has, and since when."""
    echo(client.get(_path(model)), _echo)


@reference.command("freeze")
@model_argument
def freeze(client: Client, model: str) -> None:
    """Make the labelled validation samples of MODEL, as they are now, its reference set."""
    echo(client.put(_path(model)), _echo)


@reference.command("remove")
@model_argument
def remove(client: Client, model: str) -> None:
    """Have the gate of MODEL use the validation samples only; the samples stay."""
    client.request("DELETE", _path(model))
    echo_done(f"the reference set of {model} is removed", removed=model)


def _path(model: str) -> str:
    return model_path(model, "reference")


def _echo(base_set: dict[str, Any]) -> None:
    echo_fields([("samples", base_set["samples"]), ("frozen", base_set["frozen_at"] or "never")])
