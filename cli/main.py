"""The command `honed`. Modules import heavy dependencies only when a command needs them."""

from __future__ import annotations

import errno
import io
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import click

from cli.client import Client
from cli.errors import Failure, from_error
from cli.options import Group
from service.late import load_late
from storage.errors import HoneError

COMMANDS = {
    "aliases": "cli.commands.versions.aliases",
    "archive": "cli.commands.samples.archive",
    "artifacts": "cli.commands.artifacts",
    "audit": "cli.commands.audit",
    "backup": "cli.commands.backup",
    "base-set": "cli.commands.samples.base_set",
    "checkpoints": "cli.commands.versions.checkpoints",
    "classes": "cli.commands.models.classes",
    "compare": "cli.commands.versions.compare",
    "complete": "cli.commands.versions.complete",
    "dashboard": "cli.commands.dashboard",
    "demo": "cli.demo.demo",
    "device": "cli.commands.device.device",
    "doctor": "cli.doctor.doctor",
    "drift": "cli.commands.samples.drift",
    "events": "cli.commands.device.events",
    "federate": "cli.commands.federate",
    "federation": "cli.commands.models.settings",
    "fetch": "cli.commands.versions.fetch",
    "gate": "cli.commands.models.settings",
    "jobs": "cli.commands.jobs.jobs",
    "models": "cli.commands.models.models",
    "pause": "cli.commands.device.pauses",
    "policy": "cli.commands.device.policy",
    "predict": "cli.commands.versions.predict",
    "promote": "cli.commands.versions.aliases",
    "quota": "cli.commands.models.settings",
    "reference": "cli.commands.models.reference",
    "release": "cli.commands.versions.aliases",
    "restore": "cli.commands.backup",
    "resume": "cli.commands.device.pauses",
    "retention": "cli.commands.models.settings",
    "rollback": "cli.commands.versions.aliases",
    "samples": "cli.commands.samples.samples",
    "serve": "cli.commands.serve",
    "service": "cli.commands.service",
    "sign": "cli.commands.sign",
    "snooze": "cli.commands.device.pauses",
    "status": "cli.commands.device.status",
    "system": "cli.commands.device.status",
    "tokens": "cli.commands.tokens",
    "top": "cli.commands.device.top",
    "train": "cli.commands.jobs.training",
    "triggers": "cli.commands.jobs.triggers",
    "variants": "cli.commands.versions.versions",
    "versions": "cli.commands.versions.versions",
    "watch-input": "cli.commands.device.watch_input",
}
"""Each command's module, which contains it under its own name, with _ for -."""


_OUTPUT_FAULTS = (errno.ENOSPC, errno.EDQUOT, errno.EIO)
"""Of an error without a file's name: that of what is printed."""


class Commands(Group):
    """Loads a command when it is called; shows our own errors as text, not as a traceback."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """The names, for the help."""
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """The command, its module imported now."""
        if cmd_name not in COMMANDS:
            return None
        load_late("numpy")  # few commands need it, and those that name losses import it
        module = import_module(COMMANDS[cmd_name])
        command: click.Command = getattr(module, cmd_name.replace("-", "_"))
        return command

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        try:
            return super().invoke(ctx)
        except HoneError as error:
            raise from_error(error) from error
        except UnicodeEncodeError as error:
            if error.encoding != "utf-8":
                raise
            raise Failure(f"the argument {error.object[:100]!r} is not UTF-8") from error


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

    Exit codes: 0 done, 1 failed, 2 wrong usage; from `honed serve` 3 when the disk or the database
    failed and a restart is needed, which supervisors do automatically, and 78 for a wrong setting,
    which no restart mends.
    """
    ctx.obj = Client(url=url, token=token)
    ctx.call_on_close(ctx.obj.close)


def main() -> None:
    """Entry point of the program."""
    _write_every_character()
    try:
        with _ended_in_order():
            honed(prog_name="honed")
    except OSError as error:
        if error.errno not in _OUTPUT_FAULTS or error.filename is not None:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what waits there is lost
        sys.exit(f"error: cannot write the output: {error.strerror}")


@contextmanager
def _ended_in_order() -> Iterator[None]:
    """SIGTERM, and SIGHUP unless `nohup` ignores it, end a command as Ctrl-C does: files that it
    has begun are removed, and the daemon saves its job. What it cut short then dies of the signal,
    which systemd counts as no failure.
    """
    came: list[int] = []

    def interrupt(number: int, _frame: object) -> None:
        came.append(number)
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)
    if sys.platform != "win32" and signal.getsignal(signal.SIGHUP) == signal.SIG_DFL:
        signal.signal(signal.SIGHUP, lambda *_: signal.raise_signal(signal.SIGTERM))
    try:
        yield
    except SystemExit as end:
        if end.code and came:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.raise_signal(signal.SIGTERM)
        raise


def _write_every_character() -> None:
    """Escape those of names and paths that the terminal's or the locale's encoding lacks.

    Pipes and files get UTF-8 on Windows, whose code page lacks most.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            is_file = sys.platform == "win32" and not stream.isatty()
            stream.reconfigure(encoding="utf-8" if is_file else None, errors="backslashreplace")
