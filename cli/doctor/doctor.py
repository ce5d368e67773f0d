"""`honed doctor`: whether the daemon has everything it needs, and what to do if not."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import click
from msgspec.structs import asdict

from api.listeners import listen_on_tcp
from cli import listener
from cli.client import Client
from cli.commands.device.status import damage_line, restored_line
from cli.doctor import data
from cli.errors import Failure
from cli.options import ClientCommand
from cli.output import echo_json, echo_text, wants_json
from service.errors import BadSetting
from service.installation.checks import (
    LAST_WORDS,
    Check,
    check_disk,
    check_onnx,
    check_permissions,
    check_python,
    check_runtime,
    check_sandbox,
    check_sqlite,
    check_token_file,
)
from service.processes.exits import describe_exit
from service.processes.interpreter import APPLICATION, command, environment
from service.settings import Settings
from service.training.engines.packages import RUNTIMES, installed_version
from storage.database.connection import check_database as check_database_structure
from storage.database.connection import connect_reader, translated
from storage.database.schema import migrations_of
from storage.errors import HoneError, StorageBroken

OF_FOLDER = frozenset({"disk space", "filesystem", "permissions", "token"})
PROBE = command("cli.doctor.engine_probe")
PROBE_TIMEOUT_S = 120.0
OWN_BACKUP = (
    "honed serve puts its own backup back if one is sound; else: honed restore FILE --replace"
)


def check_engine_runs() -> Check:
    """Train one step in a child process: an engine that is broken may crash natively."""
    try:
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(
                [*PROBE, folder],
                capture_output=True,
                text=True,
                timeout=PROBE_TIMEOUT_S,
                cwd=APPLICATION,
                env={**environment(), "PYTHONWARNINGS": "ignore"},
                check=False,
            )
    except subprocess.TimeoutExpired:
        return _engine_broken(f"did not train one step in {PROBE_TIMEOUT_S:g} s")
    if done.returncode == 0:
        return Check("training", "ok", done.stdout.strip())
    how = describe_exit(done.returncode)
    words = done.stderr.strip().rpartition("\n")[2][-LAST_WORDS:]
    return _engine_broken(f"the child that trains one step {how}: {words}")


def _engine_broken(detail: str) -> Check:
    name = next(filter(installed_version, RUNTIMES))
    remedy = f"pip install --force-reinstall --no-deps {name}=={installed_version(name)}"
    return Check("training", "fail", detail, remedy)


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
    yield check_python(sys.version_info[:3])
    runtime = check_runtime(installed_version)
    yield runtime
    if runtime.status != "fail":
        yield check_engine_runs()
    yield check_sandbox()
    yield check_onnx(installed_version)
    yield check_sqlite()
    try:
        settings = client.settings
    except BadSetting as error:
        yield Check(
            "settings", "fail", error.detail, "mend it; docs/settings.md lists the settings"
        )
        return
    if client.socket == listener.SOCKET_OF_SERVICE:
        yield from check_folder_of_service(client)
    else:
        yield from check_data_dir(settings.data_dir)
        yield check_permissions(settings.data_dir)
        yield check_token_file(client.token_file)
    yield from check_daemon(client)
    yield from data.verify(client) if verify else check_data(client)


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
        with tempfile.TemporaryFile(dir=existing):
            return Check("data folder", "ok", detail)
    except OSError as error:
        return Check(
            "data folder",
            "fail",
            f"{folder}: cannot write: {error.strerror}",
            "give it to the daemon's user, or set HONED_DATA_DIR to another folder",
        )


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
