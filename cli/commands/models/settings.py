"""`honed gate`, `honed quota`, `honed retention`: what apps get of a model, and what is kept."""

from __future__ import annotations

import click

from cli import assignments
from cli.client import Client, model_path
from cli.options import as_json, model_argument
from cli.output import echo

settings_argument = click.argument("settings", nargs=-1, metavar="[NAME=VALUE]...")


@click.command()
@model_argument
@settings_argument
@as_json
@click.pass_obj
def gate(client: Client, model: str, settings: tuple[str, ...], *, as_json: bool) -> None:
    """Show or change when a new version of MODEL becomes what apps get.

    honed gate digits mode=if_not_worse metric=loss margin=0.05
    mode: if_not_worse, always or manual. docs/promotion.md explains each setting.
    """
    _show_or_change(client, model, "gate", settings, as_json=as_json)


@click.command()
@model_argument
@settings_argument
@as_json
@click.pass_obj
def quota(client: Client, model: str, settings: tuple[str, ...], *, as_json: bool) -> None:
    """Show or change how many samples MODEL keeps, and which of them go first.

    honed quota digits max_samples=10000 when_full=oldest
    null is no limit. docs/samples.md explains each setting.
    """
    _show_or_change(client, model, "quota", settings, as_json=as_json)


@click.command()
@model_argument
@settings_argument
@as_json
@click.pass_obj
def retention(client: Client, model: str, settings: tuple[str, ...], *, as_json: bool) -> None:
    """Show or change how many versions of MODEL are kept, and how long.

    honed retention digits max_versions=10 max_age_days=90
    null is no limit. docs/promotion.md explains each setting.
    """
    _show_or_change(client, model, "retention", settings, as_json=as_json)


def _show_or_change(
    client: Client, model: str, name: str, settings: tuple[str, ...], *, as_json: bool
) -> None:
    path = model_path(model)
    if settings:
        changes = {name: assignments.parse(settings)}
        found = client.request("PATCH", path, json=changes).json()
    else:
        found = client.get(path)
    echo(found[name], assignments.echo_settings, as_json=as_json)
