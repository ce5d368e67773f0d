"""The daemon's installation: versions, and results of the checks."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator, Mapping

from msgspec import Struct

from service.installation.checks import LAST_WORDS, Check
from service.processes.children import Children
from service.processes.exits import describe_exit
from service.settings import Settings
from storage.store import Store

FRESH_S = 60.0
TIMEOUT_S = 60.0


class Installation(Struct, frozen=True):
    """versions: of what the daemon runs on, by name. checks: those of `honed doctor`."""

    versions: Mapping[str, str]
    checks: tuple[Check, ...]


class Inspector:
    """Runs the checks in a child process, at most once a minute. Belongs to the event loop."""

    def __init__(self, store: Store, settings: Settings, children: Children) -> None:
        self._store = store
        self._settings = settings
        self._children = children
        self._known: tuple[float, Installation] | None = None
        self._one_at_a_time = asyncio.Lock()

    async def look(self) -> Installation:
        """Results no older than a minute, with what the daemon itself knows. Raises Busy."""
        async with self._one_at_a_time:
            if self._known is None or time.monotonic() - self._known[0] > FRESH_S:
                self._known = (time.monotonic(), await self._ask_child())
        installation = self._known[1]
        own = await asyncio.to_thread(lambda: tuple(self._own_checks()))
        return Installation(installation.versions, (*installation.checks, *own))

    async def _ask_child(self) -> Installation:
        folder = self._settings.data_dir.absolute()
        process = await self._children.spawn(
            "service.installation", str(folder), str(folder / "admin.token")
        )
        try:
            printed, errors = await asyncio.wait_for(process.communicate(), TIMEOUT_S)
        except asyncio.TimeoutError:
            process.kill()
            await process.wait()
            return _not_looked(f"did not end within {TIMEOUT_S:g} s", b"")
        if process.returncode:
            return _not_looked(describe_exit(process.returncode), errors)
        told = json.loads(printed)
        return Installation(told["versions"], tuple(Check(**check) for check in told["checks"]))

    def _own_checks(self) -> Iterator[Check]:
        restored, damage = self._store.restoration, self._store.integrity.known()
        if restored is not None:
            yield Check(
                "database",
                "warn",
                f"was damaged; the backup of {restored.backup_from:%Y-%m-%d %H:%M} UTC is in use",
                "read broken/*/note.json in the data folder; remove its folder when done",
            )
        if damage:
            yield Check(
                "data",
                "warn",
                "stored bytes are damaged and set aside",
                "honed doctor --verify says what; put it back from a backup",
            )


def _not_looked(how: str, errors: bytes) -> Installation:
    words = errors.decode(errors="replace").strip()[-LAST_WORDS:]
    detail = f"the process that looks at it {how}" + (f": {words}" if words else "")
    return Installation({}, (Check("installation", "fail", detail, "honed doctor tells more"),))
