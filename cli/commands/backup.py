"""`honed backup` and `honed restore`: all of the daemon's data as one file."""

from __future__ import annotations

import os
from contextlib import closing
from datetime import datetime, timezone
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click
from msgspec.structs import asdict

from cli.client import Client
from cli.download import unfinished
from cli.options import FILE, FOLDER, ClientCommand, output_file
from cli.output import echo_json, echo_text, wants_json
from cli.progress import bar
from service.backup.contents import Contents, open_backup, read_contents
from storage.disk.durable import create_private
from storage.errors import counted, file_size

if TYPE_CHECKING:
    from service.backup.restore import Restored

PAYLOAD = "Hone-Payload-Bytes"


@click.command(cls=ClientCommand)
@output_file("File to write. Default: honed-TIME.zip in the current folder.", required=False)
def backup(client: Client, *, output: Path | None) -> None:
    """Back up the daemon's models, samples, versions and jobs while it runs.

    The file is written completely or not at all. Only its owner can read it: it holds samples.
    """
    output = output or Path(f"honed-{datetime.now(timezone.utc):%Y%m%dT%H%M%SZ}.zip")
    contents = download(client, output)
    size_bytes = output.stat().st_size
    if wants_json():
        told = {"output": str(output), "size_bytes": size_bytes, **_told(contents)}
        echo_json(told)
        return
    echo_text(f"{output}: {counted(len(contents.entries), 'file')}, {file_size(size_bytes)}")
    _warn(contents)


@click.command(cls=ClientCommand)
@click.argument("file", type=FILE)
@click.option(
    "--data-dir", type=FOLDER, help="Folder to restore to. Default: the setting data_dir."
)
@click.option(
    "--replace", is_flag=True, help="Move existing data to another folder, where they are kept."
)
def restore(client: Client, file: Path, *, data_dir: Path | None, replace: bool) -> None:
    """Restore the backup FILE. Stop the daemon first.

    Every byte is verified before anything changes. The folder's admin token is kept.
    """
    from storage.disk.permissions import OWNER_ONLY_UMASK

    os.umask(OWNER_ONLY_UMASK)
    from service.backup.restore import restore as put_in_place

    data_dir = data_dir.expanduser() if data_dir else client.settings.data_dir
    with closing(open_backup(file)) as archive:
        contents = read_contents(archive, archive_bytes=file.stat().st_size)
        with bar(contents.size_bytes, file.name) as advance:
            done = put_in_place(
                archive,
                contents,
                data_dir,
                set_aside=replace,
                now=datetime.now(timezone.utc),
                advance=advance,
            )
    if wants_json():
        told = {
            "data_dir": str(data_dir),
            "models": done.models,
            "samples": done.samples,
            "interrupted_jobs": done.interrupted_jobs,
            "tokens": done.tokens,
            "set_aside": None if done.set_aside is None else str(done.set_aside),
            "lost": asdict(done.lost),
        }
        echo_json({**told, **_told(contents)})
    else:
        _show(done, data_dir)


def _show(done: Restored, data_dir: Path) -> None:
    contents = done.contents
    echo_text(
        f"{data_dir}: {counted(done.models, 'model')} and {counted(done.samples, 'sample')}, "
        f"as they were at {contents.created_at}"
    )
    if done.interrupted_jobs:
        jobs = counted(done.interrupted_jobs, "job")
        echo_text(f"{jobs} in training then; honed serve goes on from the last checkpoint")
    if done.tokens:
        tokens = counted(done.tokens, "token")
        echo_text(
            f"{tokens} of the backup may be used again, also if revoked since: honed tokens list"
        )
    if done.set_aside is not None:
        echo_text(f"what was there before is in {done.set_aside}; erasure does not reach it")
    _warn(contents)


def download(client: Client, output: Path) -> Contents:
    """Write a backup to `output` atomically; returns its contents."""
    with unfinished(output) as partial:
        with create_private(partial) as file:
            _copy(client, file, output.name)
            file.flush()
            os.fsync(file.fileno())
        with closing(open_backup(partial)) as archive:
            return read_contents(archive, archive_bytes=partial.stat().st_size)


def _copy(client: Client, file: IO[bytes], name: str) -> None:
    with client.stream("GET", "/v1/backup") as response:
        total = int(response.headers.get(PAYLOAD, 0))
        with bar(total, name) as advance:
            for chunk in response.iter_bytes():
                file.write(chunk)
                advance(len(chunk))


def _told(contents: Contents) -> dict[str, Any]:
    return {
        "honed": contents.honed,
        "schema": contents.schema,
        "created_at": contents.created_at,
        "files": len(contents.entries),
        "missing": list(contents.missing),
        "damaged": list(contents.damaged),
    }


def _warn(contents: Contents) -> None:
    for words, names in (("missing", contents.missing), ("damaged", contents.damaged)):
        for name in names:
            echo_text(f"warning: {words} in the data folder: {name}", err=True)
