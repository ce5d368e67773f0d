"""`honed service …`: the daemon as a service that starts with the system or the user's session."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from cli.errors import Failure
from cli.options import FOLDER, Group, as_json
from cli.output import echo, echo_fields, echo_text
from cli.services.launchd import Agent
from cli.services.systemd import Service
from cli.services.windows import WindowsService

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
    """Run the daemon as a service: of systemd, of launchd on macOS, or of Windows.

    See docs/systemd.md, docs/macos.md and docs/windows.md.
    """
    if sys.platform not in {"linux", "darwin", "win32"}:
        raise Failure(
            "`honed service` knows systemd, launchd and Windows; start `honed serve` otherwise"
        )


def found(is_user: bool, root: Path = Path("/")) -> Service | Agent | WindowsService:
    """The service of this system. Raises Failure."""
    is_foreign = root.resolve() != Path("/")
    if sys.platform == "linux":
        if is_user and is_foreign:
            raise Failure("a service of your own is in your home: give --user or --root, not both")
        return Service(is_user, root.resolve())
    if sys.platform == "win32":
        if is_user or is_foreign:
            raise Failure(
                "on Windows Hone runs as a service of the machine: give no --user, no --root"
            )
        return WindowsService()
    if not is_user or is_foreign:
        raise Failure("on macOS Hone runs as a service of your own: give --user, and no --root")
    return Agent()


@service.command("install", cls=click.Command)
@own
@click.option("--tcp", is_flag=True, help="Let it listen on 127.0.0.1 too, for apps and browsers.")
@root
def install(*, is_user: bool, tcp: bool, root: Path) -> None:
    """Start the daemon as a service, now and with the system, or with your session."""
    service = found(is_user, root)
    steps = service.install(tcp=tcp) if isinstance(service, Service) else service.install()
    for step in steps:
        echo_text(step)


@service.command("uninstall", cls=click.Command)
@own
@root
def uninstall(*, is_user: bool, root: Path) -> None:
    """Stop the service and remove it. Its data stay."""
    for step in found(is_user, root).uninstall():
        echo_text(step)


@service.command("status", cls=click.Command)
@own
@as_json
def status(*, is_user: bool) -> None:
    """Show what systemd, launchd or Windows knows of the service."""
    echo(found(is_user).status(), lambda states: echo_fields(states.items()))


@service.command("run", hidden=True, cls=click.Command)
@click.option("--data-dir", type=FOLDER, required=True)
def run(*, data_dir: Path) -> None:
    """Be the process of the service, which Windows starts."""
    if sys.platform != "win32":
        raise Failure("Windows alone starts services so; `honed serve` runs the daemon")
    from cli.commands.serve import run_daemon
    from cli.services import control_manager
    from cli.services.windows_host import HostedDaemon, log_to
    from service.settings import load_settings

    log_to(data_dir.with_name("honed.log"))
    settings = load_settings(data_dir=data_dir, log_format="json")
    control_manager.host(
        lambda arguments: HostedDaemon(
            arguments[0],
            lambda stop, listening: run_daemon(
                settings, on_listening=listening, asked_to_stop=stop
            ),
        )
    )
