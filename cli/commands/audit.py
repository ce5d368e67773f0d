"""`honed audit`: who did what; whether that was changed since; and all of it in a file."""

from __future__ import annotations

import os
from itertools import islice
from pathlib import Path
from typing import IO, Any, get_args

import click

from cli.client import Client
from cli.errors import Failure
from cli.options import NEW_FILE, ClientCommand, Time, given
from cli.output import echo, echo_records, echo_text
from service.access.audit_chain import AuditChain, read_entry
from storage.disk.durable import create_private
from storage.errors import Damaged
from storage.records.access import EntryKind

COLUMNS = {
    "WHEN": "at",
    "KIND": "kind",
    "WHO": "who",
    "FROM": "address",
    "ACTION": "action",
    "PATH": "path",
    "CODE": "code",
    "COUNT": "count",
}


@click.command(cls=ClientCommand)
@click.option("--kind", type=click.Choice(get_args(EntryKind)), help="Entries of this kind only.")
@click.option("--who", help="As `admin`, `token 3`, `uid 1000` or `nobody`.")
@click.option("--action", help="An operation of the API, as delete_model.")
@click.option("--model", help="What concerns this model.")
@click.option("--since", type=Time(ahead=False), help="From this time on: 7d, 12h, or a date.")
@click.option("--until", type=Time(ahead=False), help="Before this time.")
@click.option("--limit", type=click.IntRange(1), default=50, help="Maximum number of entries.")
@click.option("--verify", is_flag=True, help="Check that nothing was changed or removed, instead.")
@click.option(
    "--export",
    "exported",
    type=NEW_FILE,
    help="Append what is new to this file (JSON Lines), instead, if the log continues it.",
)
def audit(
    client: Client,
    /,
    *,
    limit: int,
    verify: bool,
    exported: Path | None,
    **where: Any,
) -> None:
    """Print the newest entries of the audit log: changes, refusals, exports.

    Every entry has a hash of the one before. What an export holds can therefore not be changed in
    the log without the next one telling: docs/security.md.
    """
    if verify or exported is not None:
        if given(where) or (verify and exported is not None):
            raise click.UsageError("--verify and --export take the whole log, and not each other")
        chain = _verified(client) if exported is None else _append(client, exported)
        facts = {name: getattr(chain, name) for name in ("entries", "last_id", "last_hash")}
        echo({**facts, "removed": chain.removed}, _echo_chain)
        return
    records = list(islice(client.items("/v1/audit", limit=min(limit, 1000), **where), limit))
    echo_records(records, COLUMNS)


def _echo_chain(facts: dict[str, Any]) -> None:
    echo_text(
        f"{facts['entries']:,} entries follow one another; retention has removed "
        f"{facts['removed']:,}\nthe last: {facts['last_id']} {facts['last_hash']}"
    )


def _verified(client: Client) -> AuditChain:
    """The daemon's log. Raises Damaged."""
    chain = AuditChain()
    with client.stream("GET", "/v1/audit/export") as answer:
        for line in answer.iter_lines():
            chain.add(line)
    chain.require_all()
    return chain


def _append(client: Client, path: Path) -> AuditChain:
    """Add to an export what is new in the log. Raises Damaged for either, Failure."""
    try:
        with path.open("r+b") if path.exists() else create_private(path) as file:
            chain = _read(path, file) if file.readable() else AuditChain()
            _append_new(client, chain, file)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise Failure(f"cannot write {path}: {error.strerror}") from error
    chain.require_all()
    return chain


def _read(path: Path, file: IO[bytes]) -> AuditChain:
    """The export so far; a last line that was cut off is removed. Raises Failure."""
    chain = AuditChain()
    end = 0
    for line in file:
        if not line.endswith(b"\n"):
            break
        try:
            chain.add(line.decode("ascii", "replace")[:-1])
        except Damaged as error:
            raise Failure(f"{path}: {error.detail}") from error
        end += len(line)
    file.truncate(end)
    file.seek(end)
    return chain


def _append_new(client: Client, chain: AuditChain, file: IO[bytes]) -> None:
    """Raises Damaged unless the log continues the export."""
    recent = chain.recent
    is_same = not recent
    after = min(recent, default=1) - 1
    with client.stream("GET", "/v1/audit/export", params={"after": after}) as answer:
        for line in answer.iter_lines():
            entry, own = read_entry(line)
            if entry["id"] <= chain.last_id:
                if recent.get(entry["id"]) != own:
                    raise Damaged(_other(entry["id"]))
                is_same = True
                continue
            if not is_same and entry["previous"] != chain.last_hash:
                break
            is_same = True
            chain.add(line)
            file.write(line.encode() + b"\n")
    if not is_same:
        raise Damaged(_other(chain.last_id))


def _other(entry_id: int) -> str:
    return (
        f"the log does not continue the export: its entry {entry_id} is another. It was changed or "
        "restored from a backup since, or so much was removed that nothing shows it is the same; "
        "keep the file, and export into another"
    )
