"""`honed doctor`: whether the daemon has everything it needs, and what to do if not."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import click
from msgspec.structs import asdict

from api.listeners import listen_on_tcp, tls_context
from cli import listener
from cli.client import Client
from cli.commands.device.status import damage_line, restored_line
from cli.doctor import data
from cli.errors import Failure
from cli.options import ClientCommand
from cli.output import echo_json, echo_text, wants_json
from service.access.peers import principals_of
from service.errors import BadSetting
from service.follow.credentials import login_of
from service.follow.errors import SourceRefused
from service.installation.checks import (
    Check,
    check_disk,
    check_permissions,
    check_token_file,
    packages,
    probed,
)
from service.models.promotion_hook import require_program
from service.processes.interpreter import command
from service.settings import Settings
from service.training.engines.packages import RUNTIMES, installed_version
from storage.database.connection import check_database as check_database_structure
from storage.database.connection import connect_reader, translated
from storage.database.schema import migrations_of
from storage.errors import HoneError, StorageBroken

OF_FOLDER = frozenset({"disk space", "filesystem", "permissions", "token"})
PROBE = command("cli.doctor.engine_probe")
TO_WRITE = {
    errno.EROFS: "check its disk (dmesg) and mount it for writing",
    errno.ENOSPC: "free some space",
    errno.ENOTDIR: "remove the file that is in its place",
}
OWN_BACKUP = (
    "honed serve puts its own backup back if one is sound; else: honed restore FILE --replace"
)


def check_engine_runs() -> Check:
    """Train one step in a child process: an engine that is broken may crash natively."""
    with tempfile.TemporaryDirectory() as folder:
        printed, fault = probed([*PROBE, folder])
    if not fault:
        return Check("training", "ok", printed.strip())
    name = next(filter(installed_version, RUNTIMES))
    remedy = f"pip install --force-reinstall --no-deps {name}=={installed_version(name)}"
    return Check("training", "fail", f"the child that trains one step {fault}", remedy)


COLOURS = {"ok": "green", "warn": "yellow", "fail": "red"}


@click.command(cls=ClientCommand)
@click.option(
    "--verify",
    is_flag=True,
    help="Have the daemon read all of its data slowly and compare it with the stored digests.",
)
@click.option(
    "--repair",
    "repairs",
    is_flag=True,
    help="Read all data and delete what is damaged. Stop the daemon first.",
)
@click.option("--yes", is_flag=True, help="Do not ask for confirmation before --repair deletes.")
def doctor(client: Client, *, verify: bool, repairs: bool, yes: bool) -> None:
    """Check that the daemon has everything it needs.

    Every line is ok, warn or fail, with a remedy; exit code 1 if anything fails.
    """
    checks = data.repair(client, asks=not yes) if repairs else all_checks(client, verify=verify)
    results = []
    for check in checks:
        results.append(check)
        if not wants_json():
            _echo(check)
    if wants_json():
        echo_json([asdict(check) for check in results])
    if any(check.status == "fail" for check in results):
        raise click.exceptions.Exit(1)


def all_checks(client: Client, *, verify: bool) -> Iterator[Check]:
    """Every check, the cheap ones first. verify: also read all stored data."""
    for check in packages():
        yield check
        if check.name == "runtime" and check.status != "fail":
            yield check_engine_runs()
    try:
        settings = client.settings
        require_usable(settings)
    except (BadSetting, SourceRefused) as error:
        remedy = "mend it; docs/settings.md lists the settings"
        yield Check("settings", "fail", error.detail, remedy)
        return
    if client.socket == listener.SOCKET_OF_SERVICE:
        yield from check_folder_of_service(client)
    else:
        yield from check_data_dir(settings.data_dir)
        yield check_permissions(settings.data_dir)
        yield check_token_file(client.token_file)
    yield from check_daemon(client)
    yield from data.verify(client) if verify else check_data(client)


def require_usable(settings: Settings) -> None:
    """Raises BadSetting or SourceRefused for what a start would refuse."""
    tls_context(settings)
    principals_of(settings.socket_users)
    require_program(settings.on_promoted)
    login_of(settings.registry_credentials, "localhost")


def check_folder_of_service(client: Client) -> Iterator[Check]:
    """What the service finds about its own data folder, which is not this user's."""
    if client.answer("/healthz") is None:
        return  # check_daemon tells
    try:
        system = client.get("/v1/system")
    except Failure as error:
        yield Check("data folder", "warn", f"not checked: {error.message}", "sudo honed doctor")
        return
    yield Check("data folder", "ok", system["data_dir"])
    for check in system["checks"]:
        if check["name"] in OF_FOLDER:
            yield Check(**check)


def check_data_dir(folder: Path) -> Iterator[Check]:
    """Writable, on a local disk, with free space."""
    # Path.exists raises if a folder may not be searched.
    parents = (folder, *folder.absolute().parents)
    existing = next(path for path in parents if os.path.exists(path))  # noqa: PTH110
    yield _writable(folder, existing)
    yield from check_disk(existing)


def check_daemon(client: Client) -> Iterator[Check]:
    """Whether it answers, and whether its port is free if not."""
    response = client.answer("/healthz")
    if response is None:
        yield Check("daemon", "warn", f"nobody answers at {client.endpoint}", "honed serve")
        yield check_port(client.settings)
        yield from check_stopped_database(client.settings.data_dir / "hone.db")
    elif response.is_error or "json" not in response.headers.get("content-type", ""):
        yield Check(
            "daemon",
            "fail",
            f"what answers at {client.endpoint} is not honed (HTTP {response.status_code})",
            "stop it, or give honed another port: HONED_PORT",
        )
    else:
        yield _daemon(client.endpoint, response.json())
        yield from check_access(client)
        yield from check_database(client)


def check_access(client: Client) -> Iterator[Check]:
    """Whether commands have a token for the daemon, where it is not reached by its socket."""
    with suppress(Failure):  # what is wrong with the file of the token was told
        if client.socket is None and not client.credentials():
            yield Check(
                "access",
                "warn",
                f"without {client.token_file} commands have no token for this daemon",
                "set HONED_DATA_DIR to its data folder, or give --token",
            )


def check_database(client: Client) -> Iterator[Check]:
    """Whether a backup had to replace a damaged database."""
    response = client.answer("/readyz")
    if response is None or response.is_error:
        return
    told = restored_line(response.json())
    if told is not None:
        remedy = "read broken/*/note.json in the data folder; remove its folder when done"
        yield Check("database", "warn", told, remedy)


def check_stopped_database(path: Path) -> Iterator[Check]:
    """What the next start would find wrong with the database."""
    # SQLite writes files beside it to read.
    if not os.access(path, os.R_OK) or _writable(path.parent, path.parent).status == "fail":
        return  # there is none yet, or what is wrong with the folder was told
    try:
        with translated(), closing(connect_reader(path)) as reader:
            check_database_structure(reader)
            migrations_of(reader)
    except HoneError as error:
        detail, _, remedy = error.detail.partition("; ")
        is_broken = isinstance(error, StorageBroken)
        yield Check("database", "fail", detail, OWN_BACKUP if is_broken else remedy)


def check_data(client: Client) -> Iterator[Check]:
    """The damage that the daemon knows of."""
    response = client.answer("/readyz")
    if response is None or response.is_error:
        return
    damage = damage_line(response.json())
    if damage is not None:
        yield Check("data", "warn", damage, data.TO_GIVE_UP)


def check_port(settings: Settings) -> Check:
    """Whether the daemon could listen there."""
    try:
        listen_on_tcp(settings).close()
    except BadSetting as error:
        return Check("port", "fail", error.detail, "set HONED_HOST or HONED_PORT")
    return Check("port", "ok", f"{settings.host}:{settings.port} is free")


def _writable(folder: Path, existing: Path) -> Check:
    detail = str(folder) if folder == existing else f"{folder} (made at the first start)"
    try:
        with tempfile.TemporaryFile(dir=existing, buffering=0) as file:
            file.write(bytes(4096))
            return Check("data folder", "ok", detail)
    except OSError as error:
        remedy = TO_WRITE.get(error.errno or 0, "give it to the daemon's user")
        detail = f"{folder}: cannot write: {error.strerror}"
        return Check("data folder", "fail", detail, f"{remedy}, or set HONED_DATA_DIR elsewhere")


def _daemon(url: str, health: dict[str, Any]) -> Check:
    theirs, ours = health.get("version"), installed_version("honed")
    if theirs != ours:
        return Check(
            "daemon",
            "warn",
            f"honed {theirs} answers at {url}, this is {ours}",
            "restart the daemon",
        )
    return Check("daemon", "ok", f"honed {theirs} answers at {url}")


def _echo(check: Check) -> None:
    click.secho(f"{check.status:4}", fg=COLOURS[check.status], nl=False)
    echo_text(f"  {check.name:12} {check.detail}")
    if check.remedy:
        echo_text(f"{'':19}-> {check.remedy}")
