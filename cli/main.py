"""The command `honed`. Modules load what is heavy only when a command needs it."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import click

from cli.client import Client
from cli.errors import from_error
from storage.errors import HoneError

COMMANDS = {
    "artifacts": "cli.artifacts",
    "backup": "cli.backup",
    "demo": "cli.demo",
    "doctor": "cli.doctor",
    "fetch": "cli.versions",
    "jobs": "cli.jobs",
    "models": "cli.models",
    "pause": "cli.policy",
    "policy": "cli.policy",
    "restore": "cli.backup",
    "resume": "cli.policy",
    "samples": "cli.samples",
    "serve": "cli.serve",
    "snooze": "cli.policy",
    "status": "cli.status",
    "train": "cli.training",
    "triggers": "cli.triggers",
    "versions": "cli.versions",
    "watch-input": "cli.watch_input",
}
"""Each command's module, where it stands under its own name, with _ for -."""


class Commands(click.Group):
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


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--url",
    envvar="HONED_URL",
    show_envvar=True,
    help="Where the daemon is. Default: where the settings put it, http://127.0.0.1:8471.",
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
    """Train models on the device where the data is born.

    Exit codes: 0 done, 1 failed, 2 wrong usage.
    """
    ctx.obj = Client(url=url, token=token)
    ctx.call_on_close(ctx.obj.close)


def main() -> None:
    """Entry point of the program."""
    honed(prog_name="honed")
