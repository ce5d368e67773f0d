"""The command `honed`. Modules load what is heavy only when a command needs it."""

from __future__ import annotations

from typing import Any

import click

from cli.artifacts import artifacts
from cli.client import Client
from cli.demo import demo
from cli.doctor import doctor
from cli.errors import from_error
from cli.jobs import jobs
from cli.models import models
from cli.samples import samples
from cli.serve import serve
from cli.status import status
from cli.training import train
from cli.versions import fetch, versions
from storage.errors import HoneError


class Commands(click.Group):
    """Shows errors of ours as text, not as a traceback."""

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


for command in (
    serve,
    demo,
    doctor,
    status,
    models,
    samples,
    train,
    jobs,
    versions,
    fetch,
    artifacts,
):
    honed.add_command(command)


def main() -> None:
    """Entry point of the program."""
    honed(prog_name="honed")
