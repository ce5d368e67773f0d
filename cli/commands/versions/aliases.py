"""`honed aliases …`, `promote`, `rollback`, `release`: which version apps get."""

from __future__ import annotations

from typing import Any

import click

from cli import completion
from cli.client import Client, model_path
from cli.commands.versions.versions import find_version
from cli.options import ClientCommand, Group, model_argument, version_argument
from cli.output import echo, echo_done, echo_records, echo_text

alias_argument = click.argument("alias", shell_complete=completion.aliases)
COLUMNS = {"ALIAS": "alias", "VERSION": "version"}


@click.group(cls=Group)
def aliases() -> None:
    """Names of versions that can be moved; apps fetch `latest`."""


@aliases.command("list")
@model_argument
def list_aliases(client: Client, model: str) -> None:
    """List the aliases of MODEL."""
    echo_records(list(client.items(model_path(model, "aliases"))), COLUMNS)


@aliases.command("show")
@model_argument
@alias_argument
def show(client: Client, model: str, alias: str) -> None:
    """Show which version ALIAS of MODEL names."""
    echo_records(client.get(model_path(model, "aliases", alias)), COLUMNS)


@aliases.command("set")
@model_argument
@alias_argument
@version_argument
def set_alias(client: Client, model: str, alias: str, version: str) -> None:
    """Have ALIAS, a new one or not, name VERSION of MODEL, its number or another alias."""
    echo_records(_move(client, model, alias, version), COLUMNS)


@aliases.command("remove")
@model_argument
@alias_argument
def remove(client: Client, model: str, alias: str) -> None:
    """Remove ALIAS of MODEL; the version stays. `latest` cannot be removed."""
    client.request("DELETE", model_path(model, "aliases", alias))
    echo_done(f"alias {alias} of {model} is removed", model=model, removed=alias)


@click.command(cls=ClientCommand)
@model_argument
@version_argument
def promote(client: Client, model: str, version: str) -> None:
    """Have apps get VERSION of MODEL, its number or an alias, whatever the gate decided."""
    moved = _move(client, model, "latest", version)
    told = f"apps fetch version {moved['version']} of {model}"
    echo(moved, lambda _: echo_text(told))


@click.command(cls=ClientCommand)
@model_argument
def rollback(client: Client, model: str) -> None:
    """Give apps the version of MODEL before the newest, and hold it until `honed release`."""
    version = client.post(model_path(model, "rollback"))
    told = (
        f"apps fetch version {version['version']} of {model}; "
        f"no job moves that until: honed release {model}"
    )
    echo(version, lambda _: echo_text(told))


@click.command(cls=ClientCommand)
@model_argument
def release(client: Client, model: str) -> None:
    """End the hold of a rollback: the next version that passes the gate is what apps get."""
    answer = client.post(model_path(model, "release"))
    told = f"jobs may promote versions of {model}; apps fetch version {answer['latest_version']}"
    echo(answer, lambda _: echo_text(told))


def _move(client: Client, model: str, alias: str, version: str) -> dict[str, Any]:
    named = version if version.isdecimal() else find_version(client, model, version)["version"]
    path = model_path(model, "aliases", alias)
    return client.put(path, {"version": int(named)})
