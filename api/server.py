"""Runs the daemon behind uvicorn: one worker, one event loop."""

from __future__ import annotations

import asyncio
import gc
import socket
import tempfile
import threading
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, ExitStack, suppress

import uvicorn
from fastapi import FastAPI

from api import threads
from api.app import create_app
from api.connections import (
    ACCEPTED_AT_ONCE,
    KEEP_ALIVE_S,
    QUEUED_BY_SYSTEM,
    raise_descriptor_limit,
)
from api.listeners import (
    LocalSocket,
    listen_on_tcp,
    passed_by_systemd,
    require_private,
    tls_context,
)
from api.protocol import FileProtocol, close_overdue
from service import allocator, logs
from service.access.token_secrets import admin_token
from service.daemon import Daemon
from service.settings import Settings

STORAGE_BROKEN = 3
"""Exit code when the storage failed: a restart finds out what was kept, and may repair it."""
UNIX = getattr(socket, "AF_UNIX", None)
TICKS_A_SECOND = 10
GRACE_S = 10
"""How long open requests may take to finish when the daemon stops."""


def run(
    settings: Settings,
    *,
    on_listening: Callable[[list[str]], None] | None = None,
    asked_to_stop: threading.Event | None = None,
) -> int:
    """Serve until a signal. Returns the exit code: 0, 1 after a fatal error, or STORAGE_BROKEN.

    on_listening: called once requests are answered, with URLs, for Unix sockets `unix:` and the
    path. asked_to_stop: an event that stops the server as a signal does.
    Raises BadSetting, DataDirLocked, StorageBroken, UnknownSchema if it cannot start.
    """
    allocator.return_freed_memory()
    gc.freeze()  # loaded modules stay: scanning them after each job would take 50 ms
    raise_descriptor_limit()
    logs.configure(log_format=settings.log_format, level=settings.log_level)
    failed = False

    def stop_for_good() -> None:
        nonlocal failed
        failed = True
        server.should_exit = True

    passed = passed_by_systemd()
    daemon = Daemon(settings, on_fatal=stop_for_good)
    app = create_app(settings, daemon)
    server = Server(
        _configured(app, settings),
        app=app,
        passed=passed,
        on_listening=on_listening,
        asked_to_stop=asked_to_stop,
    )
    with ExitStack() as open_sockets:
        listeners = [listener for listener in passed if listener.family != UNIX]
        if settings.tcp and not listeners:
            listeners.append(listen_on_tcp(settings))
        for listener in listeners:
            open_sockets.enter_context(listener)
            require_private(listener, settings)
        with suppress(KeyboardInterrupt):  # uvicorn has shut down, and raises its signal again
            server.run(sockets=listeners)
    if daemon.storage_is_broken:
        return STORAGE_BROKEN
    return 1 if failed or not server.started else 0


def _configured(app: FastAPI, settings: Settings) -> uvicorn.Config:
    config = uvicorn.Config(
        app,
        http=FileProtocol,
        backlog=ACCEPTED_AT_ONCE,
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="off",
        ws="none",
        timeout_graceful_shutdown=GRACE_S,
        timeout_keep_alive=KEEP_ALIVE_S,
    )
    config.load()
    config.ssl = tls_context(settings)
    return config


class Server(uvicorn.Server):
    """uvicorn's server, which starts the daemon before requests and stops it after them.

    passed: the sockets passed by systemd.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        *,
        app: FastAPI,
        passed: Sequence[socket.socket] = (),
        on_listening: Callable[[list[str]], None] | None = None,
        asked_to_stop: threading.Event | None = None,
    ) -> None:
        super().__init__(config)
        self._app = app
        self._daemon: Daemon = app.state.daemon
        self._local = LocalSocket(self._daemon.settings)
        self._passed = [listener for listener in passed if listener.family == UNIX]
        self._on_listening = on_listening
        self._asked_to_stop = asked_to_stop or threading.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start the daemon, then answer requests."""
        threads.limit()
        async with AsyncExitStack() as on_failure:
            on_failure.callback(self._local.remove)
            local = self._passed
            if not local and not self._local.is_private:
                local = self._made()
            await self._daemon.start()
            on_failure.push_async_callback(self._daemon.stop)
            self._app.state.token = admin_token(self._daemon.settings.data_dir)
            # This daemon now holds the data folder: a socket in it is a leftover.
            listeners = await self._listen(sockets or [], local or self._made())
            on_failure.pop_all()
        # Starlette's forms: /tmp is often memory, and nobody keeps a reserve there.
        tempfile.tempdir = str(self._daemon.store.tmp_dir)
        self._daemon.supervisor.ready()
        if self._on_listening is not None:
            self._on_listening([self._address(listener) for listener in listeners])

    def _made(self) -> list[socket.socket]:
        local = self._local.listen()
        return [] if local is None else [local]

    async def _listen(
        self, sockets: list[socket.socket], local: list[socket.socket]
    ) -> list[socket.socket]:
        """Answer requests on TCP sockets and on Unix sockets."""
        await super().startup(sockets)
        servers, encrypted = self.servers, self.config.ssl
        self.config.ssl = None  # a Unix socket never leaves the machine
        await super().startup(local)
        self.servers += servers
        self.config.ssl = encrypted
        for listener in [*sockets, *local]:  # uvicorn lets no more wait than it accepts at once
            listener.listen(QUEUED_BY_SYSTEM)
        return [*sockets, *local]

    def _address(self, listener: socket.socket) -> str:
        name = listener.getsockname()
        if listener.family == UNIX:
            return f"unix:{name}"
        host = f"[{name[0]}]" if ":" in name[0] else name[0]
        return f"{'https' if self.config.ssl else 'http'}://{host}:{name[1]}"

    async def on_tick(self, counter: int) -> bool:
        """Called ten times a second; returns whether the server should stop."""
        if counter % TICKS_A_SECOND == 0:
            now = asyncio.get_running_loop().time()
            close_overdue(self.server_state.connections, now=now)  # type: ignore[arg-type]
            self._daemon.storage_fault()  # a database that is gone ends the daemon, idle or not
        return await super().on_tick(counter) or self._asked_to_stop.is_set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Answer waiting requests, let every request end, then stop the daemon."""
        self._daemon.release_waiting()
        await super().shutdown(sockets)
        tempfile.tempdir = None
        self._local.remove()
        await self._daemon.stop()
