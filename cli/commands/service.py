"""`honed service …`: the daemon as a service that starts with the system, or with one's session."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from cli.errors import Failure
from cli.launchd import Agent
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
    """Run the daemon as a service of systemd, or of launchd on macOS; see docs/systemd.md."""
    if sys.platform not in {"linux", "darwin"}:
        raise Failure("`honed service` knows systemd and launchd; start `honed serve` otherwise")


def found(is_user: bool, root: Path = Path("/")) -> Service | Agent:
    """The service of this system. Raises Failure."""
    if sys.platform != "darwin":
        return Service(is_user, root.resolve())
    if not is_user or root != Path("/"):
        raise Failure("on macOS Hone runs as a service of your own: give --user, and no --root")
    return Agent()


@service.command("install")
@own
@click.option("--tcp", is_flag=True, help="Let it listen on 127.0.0.1 too, for apps and browsers.")
@root
def install(*, is_user: bool, tcp: bool, root: Path) -> None:
    """Write the units, and start the service now and with the system, or with your session."""
    service = found(is_user, root)
    steps = service.install(tcp=tcp) if isinstance(service, Service) else service.install()
    for step in steps:
        click.echo(step)


@service.command("uninstall")
@own
@root
def uninstall(*, is_user: bool, root: Path) -> None:
    """Stop the service and remove its units. Its data stay."""
    for step in found(is_user, root).uninstall():
        click.echo(step)


@service.command("status")
@own
@as_json
def status(*, is_user: bool, as_json: bool) -> None:
    """Show what systemd, or launchd, knows of the service."""
    states = found(is_user).status()
    if as_json:
        echo_json(states)
    else:
        echo_fields(states.items())
