"""`honed doctor --verify` and `--repair`: read all stored data and compare them with digests."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import asdict

from cli.client import Client
from cli.commands.device.status import damage_line
from cli.output import echo_text
from cli.progress import bar
from service.installation.checks import Check
from storage.errors import counted, file_size

if TYPE_CHECKING:
    from storage.integrity import Damage
    from storage.store import Store

POLL_S = 0.2
VERIFY = "/v1/verification"
TO_GIVE_UP = "put it back from a backup, or stop the daemon: honed doctor --repair gives it up"
TO_PUT_BACK = "register the same file under another name: that puts back what a model is made of"


def verify(client: Client) -> Iterator[Check]:
    """Have the daemon read all its data, and wait until it has finished."""
    if client.answer("/healthz") is None:
        yield Check("data", "fail", "nothing was read: the daemon does not run", "honed serve")
        return
    reading = client.post(VERIFY)
    while reading["running"] and reading["total_bytes"] is None:
        reading = _later(client)
    with bar(reading["total_bytes"] or 0, "reading") as advance:
        shown = 0
        while reading["running"]:
            advance(reading["read_bytes"] - shown)
            shown = reading["read_bytes"]
            reading = _later(client)
    yield _found(reading)


def repair(client: Client, *, asks: bool) -> Iterator[Check]:
    """Read everything in the data folder of a stopped daemon, and delete damaged data.

    asks: whether to ask for confirmation before anything is deleted.
    """
    from service.backup.repair import repair as give_up
    from storage.disk.permissions import OWNER_ONLY_UMASK

    os.umask(OWNER_ONLY_UMASK)

    def may_give_up(damage: Damage) -> bool:
        echo_text(damage_line({"damaged": asdict(damage)}), err=True)
        return not asks or click.confirm("Delete what is damaged?", err=True)

    done = give_up(client.settings.data_dir, reading=_read, may_give_up=may_give_up)
    lost = asdict(done.lost).items()
    deleted = [counted(count, what.removesuffix("s")) for what, count in lost if count]
    if deleted:
        yield Check("repair", "ok", f"deleted {', '.join(deleted)}")
    if done.left:
        remedy = TO_PUT_BACK if deleted else TO_GIVE_UP
        yield Check("data", "fail", damage_line({"damaged": asdict(done.left)}) or "", remedy)
    elif not deleted:
        yield Check("data", "ok", "all of it was read, and nothing is damaged")


def _read(store: Store) -> None:
    with bar(store.verification.size_bytes(), "reading") as advance:
        for size_bytes in store.verification.read():
            advance(size_bytes)


def _later(client: Client) -> dict[str, Any]:
    time.sleep(POLL_S)
    return client.get(VERIFY)


def _found(reading: dict[str, Any]) -> Check:
    if reading["error"] is not None:
        return Check("data", "fail", reading["error"], "mend that, and verify again")
    damage = damage_line(reading)
    if damage is not None:
        return Check("data", "fail", damage, TO_GIVE_UP)
    return Check("data", "ok", f"{file_size(reading['read_bytes'])} read, nothing is damaged")
