"""`honed service …`: the daemon as a service that starts with the system."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from cli.errors import Failure
from cli.options import Group, as_json
from cli.output import echo_fields, echo_json
from cli.systemd import Service

own = click.option(
    "--user", "is_user", is_flag=True, help="A service of your own, which runs while you do."
)
root = click.option(
    "--root",
    type=click.Path(file_okay=False, exists=True, path_type=Path),
    default="/",
    help="The system to install into, as of an image.",
)


@click.group(cls=Group)
def service() -> None:
    """Run the daemon as a service of systemd; docs/systemd.md tells what it may do."""
    if sys.platform != "linux":
        raise Failure("`honed service` knows systemd only; start `honed serve` in another way")


@service.command("install")
@own
@click.option("--tcp", is_flag=True, help="Let it listen on 127.0.0.1 too, for apps and browsers.")
@root
def install(*, is_user: bool, tcp: bool, root: Path) -> None:
    """Write the units, and start the service now and with the system."""
    for step in Service(is_user, root.resolve()).install(tcp=tcp):
        click.echo(step)


@service.command("uninstall")
@own
@root
def uninstall(*, is_user: bool, root: Path) -> None:
    """Stop the service and remove its units. Its data stay."""
    for step in Service(is_user, root.resolve()).uninstall():
        click.echo(step)


@service.command("status")
@own
@as_json
def status(*, is_user: bool, as_json: bool) -> None:
    """Show what systemd knows of the service."""
    found = Service(is_user).status()
    if as_json:
        echo_json(found)
    else:
        echo_fields(found.items())
