"""Notifies systemd that the daemon is ready, alive or stopping (sd_notify(3))."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Awaitable, Callable, Mapping

from service.logs import event
from storage.errors import HoneError

logger = logging.getLogger(__name__)

FED_PER_PERIOD = 3
"""How often the watchdog is fed within the time in which it must be."""
Check = Callable[[], Awaitable[object]]


class Supervisor:
    """Feeds the watchdog while every part makes progress. Belongs to the event loop.

    checks: by name, what returns once that part has done something; the event loop is one by
    itself. One that does not return is told in the log, and the watchdog starves: systemd ends the
    daemon and starts it anew. Does nothing where systemd does not ask. address, period_s: where it
    listens, and within what time it wants to be fed; None for never.
    """

    def __init__(
        self, checks: Mapping[str, Check], *, address: str | None, period_s: float | None
    ) -> None:
        self._checks = checks
        self._address = address
        self._period_s = period_s
        self._feeding: asyncio.Task[None] | None = None

    @classmethod
    def of_environment(cls, checks: Mapping[str, Check]) -> Supervisor:
        """As systemd says in variables, which no child process shall find."""
        address = os.environ.pop("NOTIFY_SOCKET", None)
        period_us = os.environ.pop("WATCHDOG_USEC", "")
        for_us = os.environ.pop("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        period_s = int(period_us) / 1e6 if for_us and period_us.isdecimal() else None
        return cls(checks, address=address, period_s=period_s)

    def ready(self) -> None:
        """Requests are answered."""
        self._tell("READY=1")
        if self._address is not None and self._period_s is not None:
            self._feeding = asyncio.create_task(self._feed(self._period_s / FED_PER_PERIOD))

    def stopping(self) -> None:
        """The daemon ends in order."""
        self._tell("STOPPING=1")
        if self._feeding is not None:
            self._feeding.cancel()

    async def _feed(self, pause_s: float) -> None:
        while True:
            for name, check in self._checks.items():
                await self._progress(name, check, patience_s=pause_s)
            self._tell("WATCHDOG=1")
            await asyncio.sleep(pause_s)

    async def _progress(self, name: str, check: Check, *, patience_s: float) -> None:
        checking = asyncio.ensure_future(check())
        try:
            _, late = await asyncio.wait({checking}, timeout=patience_s)
            if late:
                event(logger, logging.ERROR, "watchdog.starves", part=name, after_s=patience_s)
            await checking
        except HoneError as error:
            event(logger, logging.ERROR, "watchdog.starves", part=name, detail=error.detail)
            await asyncio.Event().wait()
        finally:
            checking.cancel()

    def _tell(self, message: str) -> None:
        if self._address is None:
            return
        # systemd writes an abstract address with @.
        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sending:
                sending.connect(address)
                sending.send(message.encode())
        except OSError as error:
            event(logger, logging.WARNING, "systemd.not_told", message=message, detail=str(error))
