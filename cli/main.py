"""The command `honed`. Modules load what is heavy only when a command needs it."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import click

from cli.client import Client
from cli.errors import from_error
from cli.options import Group
from storage.errors import HoneError

COMMANDS = {
    "artifacts": "cli.commands.artifacts",
    "audit": "cli.commands.tokens",
    "backup": "cli.commands.backup",
    "base-set": "cli.commands.base_set",
    "classes": "cli.commands.classes",
    "demo": "cli.demo.demo",
    "doctor": "cli.doctor.doctor",
    "fetch": "cli.commands.versions",
    "jobs": "cli.commands.jobs",
    "models": "cli.commands.models",
    "pause": "cli.commands.policy",
    "policy": "cli.commands.policy",
    "restore": "cli.commands.backup",
    "resume": "cli.commands.policy",
    "samples": "cli.commands.samples",
    "serve": "cli.commands.serve",
    "service": "cli.commands.service",
    "snooze": "cli.commands.policy",
    "status": "cli.commands.status",
    "tokens": "cli.commands.tokens",
    "train": "cli.commands.training",
    "triggers": "cli.commands.triggers",
    "versions": "cli.commands.versions",
    "watch-input": "cli.commands.watch_input",
}
"""Each command's module, where it stands under its own name, with _ for -."""


class Commands(Group):
    """Loads a command when it is called; shows errors of ours as text, not as a traceback."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """The names, for the help."""
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """The command, its module imported now."""
        if cmd_name not in COMMANDS:
            return None
        module = import_module(COMMANDS[cmd_name])
        command: click.Command = getattr(module, cmd_name.replace("-", "_"))
        return command

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except HoneError as error:
            raise from_error(error) from error


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "show_default": True},
)
@click.option(
    "--url",
    envvar="HONED_URL",
    show_envvar=True,
    help="Address of the daemon. Default: its Unix socket, else the address in the settings, "
    "http://127.0.0.1:8471.",
)
@click.option(
    "--token",
    envvar="HONED_TOKEN",
    show_envvar=True,
    help="Bearer token. Default: admin.token in the data folder of the settings.",
)
@click.version_option(package_name="honed")
@click.pass_context
def honed(ctx: click.Context, url: str | None, token: str | None) -> None:
    """Train models on the device that produces the data.

    Exit codes: 0 done, 1 failed, 2 wrong usage; 3 from `honed serve` when the disk or the database
    failed and a restart is needed, which supervisors do automatically.
    """
    ctx.obj = Client(url=url, token=token)
    ctx.call_on_close(ctx.obj.close)


def main() -> None:
    """Entry point of the program."""
    honed(prog_name="honed")
