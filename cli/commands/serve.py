"""`honed serve`: the daemon itself."""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cli.errors import from_error
from cli.options import FOLDER
from cli.output import echo_text
from service.errors import BadSetting, CannotListen
from service.follow.errors import SourceRefused
from service.logs import event

if TYPE_CHECKING:
    from service.settings import Settings

logger = logging.getLogger(__name__)

WRONG_SETTING = 78
"""Exit code, EX_CONFIG of sysexits.h: the units say that systemd shall not try again."""


@click.command()
@click.option("--host", help="Address to listen on. Default: the setting host (127.0.0.1).")
@click.option("--port", type=int, help="TCP port; 0 takes a free one. Default: the setting (8471).")
@click.option(
    "--data-dir", type=FOLDER, help="Folder of the daemon's data. Default: the setting data_dir."
)
def serve(host: str | None, port: int | None, data_dir: Path | None) -> None:
    """Run the daemon until it is stopped (Ctrl-C, SIGTERM, SIGHUP)."""

    def announce(addresses: list[str]) -> None:
        token_file = settings.data_dir / "admin.token"
        if settings.log_format == "json":
            told = {"addresses": addresses, "token_file": str(token_file)}
            event(logger, logging.INFO, "daemon.listens", **told)
            return
        for address in addresses:
            echo_text(f"honed listens on {address}")
        for url in addresses:
            if not url.startswith("unix:"):
                echo_text(f"the dashboard is at {url}/dashboard")
        echo_text(f"the admin token is in {token_file}")

    asked_to_stop = threading.Event()
    exit_code = 0
    try:
        from cli.signals import console_ends
        from service.settings import load_settings

        settings = load_settings(host=host, port=port, data_dir=data_dir)
        with console_ends(asked_to_stop):
            exit_code = run_daemon(settings, on_listening=announce, asked_to_stop=asked_to_stop)
    except (BadSetting, SourceRefused) as error:  # the latter of HONED_REGISTRY_CREDENTIALS
        if isinstance(error, CannotListen):
            raise
        from_error(error).show()
        exit_code = WRONG_SETTING
    except KeyboardInterrupt:  # before there was anything to shut down
        pass
    sys.exit(exit_code)


def run_daemon(
    settings: Settings,
    *,
    on_listening: Callable[[list[str]], None],
    asked_to_stop: threading.Event | None = None,
) -> int:
    """Run the daemon until a signal or the event; its exit code. Raises like `api.server.run`."""
    from service.late import load_late
    from service.training.limits import limit_numpy

    limit_numpy()
    load_late("numpy")  # 13 MB, which only samples and predictions need
    from service.processes.interpreter import start_silently
    from storage.database.opening import migrated_meanwhile
    from storage.disk.durable import file_faults
    from storage.disk.permissions import OWNER_ONLY_UMASK, require_own, require_owner

    os.umask(OWNER_ONLY_UMASK)
    with file_faults(f"cannot open the data folder {settings.data_dir}"):
        if settings.data_dir.is_dir():
            require_own(settings.data_dir)
            require_owner(settings.data_dir, doing="serve it")
    with migrated_meanwhile(settings.data_dir, start=start_silently):
        from api.server import run
    return run(settings, on_listening=on_listening, asked_to_stop=asked_to_stop)
