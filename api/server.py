"""Runs the daemon behind uvicorn: one worker, one event loop."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

import uvicorn
from fastapi import FastAPI

from api import threads
from api.app import create_app
from api.connections import ACCEPTED_AT_ONCE, close_overdue, raise_descriptor_limit, widen_queue
from api.protocol import FileProtocol
from api.security import admin_token
from service import allocator, logs
from service.daemon import Daemon
from service.errors import BadSetting
from service.settings import Settings

STORAGE_BROKEN = 3
"""Exit code when the storage failed: a restart finds out what was kept, and may put it right."""
TICKS_A_SECOND = 10
GRACE_S = 10
"""How long open requests may take to end when the daemon stops."""


def run(settings: Settings, *, on_listening: Callable[[str, int], None] | None = None) -> int:
    """Serve until a signal. Returns the exit code: 0, 1 after a fatal fault, or STORAGE_BROKEN.

    on_listening: called with address and port once requests are answered.
    Raises BadSetting, DataDirLocked, StorageBroken, UnknownSchema if it cannot start.
    """
    allocator.return_freed_memory()
    raise_descriptor_limit()
    logs.configure(log_format=settings.log_format, level=settings.log_level)
    failed = False

    def stop_for_good() -> None:
        nonlocal failed
        failed = True
        server.should_exit = True

    daemon = Daemon(settings, on_fatal=stop_for_good)
    app = create_app(settings, daemon)
    server = Server(
        uvicorn.Config(
            app,
            http=FileProtocol,
            backlog=ACCEPTED_AT_ONCE,
            log_config=None,
            access_log=False,
            server_header=False,
            lifespan="off",
            ws="none",
            timeout_graceful_shutdown=GRACE_S,
        ),
        app=app,
        on_listening=on_listening,
    )
    with _listen(settings) as listener:
        server.run(sockets=[listener])
    if daemon.storage_is_broken:
        return STORAGE_BROKEN
    return 1 if failed or not server.started else 0


class Server(uvicorn.Server):
    """uvicorn's, with the daemon's life around that of its requests."""

    def __init__(
        self,
        config: uvicorn.Config,
        *,
        app: FastAPI,
        on_listening: Callable[[str, int], None] | None,
    ) -> None:
        super().__init__(config)
        self._app = app
        self._daemon: Daemon = app.state.daemon
        self._on_listening = on_listening

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start the daemon, then answer requests."""
        threads.limit_reads()
        await self._daemon.start()
        self._app.state.token = admin_token(self._daemon.settings.data_dir)
        await super().startup(sockets)
        widen_queue(sockets or ())
        if self._on_listening is not None and sockets:
            self._on_listening(*sockets[0].getsockname()[:2])

    async def on_tick(self, counter: int) -> bool:
        """Called ten times a second; says whether the server should stop."""
        if counter % TICKS_A_SECOND == 0:
            now = asyncio.get_running_loop().time()
            close_overdue(self.server_state.connections, now=now)  # type: ignore[arg-type]
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Answer who waits, let every request end, then stop the daemon."""
        self._daemon.release_waiting()
        await super().shutdown(sockets)
        await self._daemon.stop()


def _listen(settings: Settings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # The protocol is named because asyncio sets TCP_NODELAY only then: without it Nagle's algorithm
    # holds the body of an answer back for 40 ms.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        if hasattr(socket, "SO_EXCLUSIVEADDRUSE"):
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_EXCLUSIVEADDRUSE, 1)
        else:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((settings.host, settings.port))
    except OSError as error:
        listener.close()
        where = f"{settings.host}:{settings.port}"
        raise BadSetting(
            f"cannot listen on {where} (HONED_HOST, HONED_PORT): {error.strerror or error}"
        ) from error
    return listener
