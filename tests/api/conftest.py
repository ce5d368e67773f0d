"""A daemon inside the test's own process, where a test must look into it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from fastapi import FastAPI
from laptop import KEPT, LAPTOP_MODEL, Laptop, change_policy
from support import Served, blobs, wait_until

from api.app import create_app
from api.listeners import listen_on_tcp
from api.protocol import FileProtocol
from api.server import Server
from service.daemon import Daemon
from service.settings import Settings, load_settings


@dataclass
class Inside:
    """A daemon that serves from a thread of this process."""

    url: str
    token: str
    server: Server
    app: FastAPI
    loop: asyncio.AbstractEventLoop

    @property
    def daemon(self) -> Daemon:
        return self.app.state.daemon

    def call(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Run in the daemon's event loop."""
        self.loop.call_soon_threadsafe(function, *arguments)


@pytest.fixture
def serve_inside(tmp_path: Path) -> Iterator[Callable[..., Inside]]:
    """Start daemons in threads of this process."""
    running: list[tuple[Server, threading.Thread]] = []

    def start(**chosen: object) -> Inside:
        settings: Settings = load_settings(port=0, data_dir=tmp_path / "inside", **chosen)
        app = create_app(settings, Daemon(settings, on_fatal=lambda: None))
        loops: list[asyncio.AbstractEventLoop] = []
        server = Server(
            uvicorn.Config(
                app,
                http=FileProtocol,
                log_config=None,
                lifespan="off",
                ws="none",
                timeout_graceful_shutdown=5,
            ),
            app=app,
        )
        listener = listen_on_tcp(settings)

        async def main() -> None:
            loops.append(asyncio.get_running_loop())
            with listener:
                await server.serve(sockets=[listener])
            for left in tuple(server.server_state.connections):  # they end with a process
                left.transport.abort()
            await asyncio.sleep(0)

        thread = threading.Thread(target=lambda: asyncio.run(main()))
        thread.start()
        running.append((server, thread))
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        wait_until(lambda: server.started, "the server to start")
        return Inside(url, app.state.token, server, app, loops[0])

    yield start
    for server, thread in running:
        server.should_exit = True
        thread.join()


@pytest.fixture(scope="session")
def promote() -> Callable[[Served, str], int]:
    """Train a version of a model that has samples, and have `latest` name it; its number."""

    def train_and_promote(served: Served, name: str) -> int:
        number: int = served.train(name, epochs=1, ignore_policy=True)["version"]
        if served.http.get(f"/v1/models/{name}/latest").json()["version"] != number:
            chosen = {"version": number}
            answer = served.http.put(f"/v1/models/{name}/aliases/latest", json=chosen)
            assert answer.status_code == 200, answer.text
        return number

    return train_and_promote


@pytest.fixture(scope="session")
def one_laptop(tmp_path_factory: pytest.TempPathFactory) -> Laptop:
    return Laptop(tmp_path_factory.mktemp("laptop"))


@pytest.fixture
def laptop(one_laptop: Laptop) -> Laptop:
    """On mains, its battery at 80 %."""
    one_laptop.charge(80)
    one_laptop.plug()
    return one_laptop


@pytest.fixture(scope="module")
def serve_on_laptop(
    one_laptop: Laptop, tmp_path_factory: pytest.TempPathFactory, database: Path
) -> Iterator[Callable[..., Served]]:
    """Start a daemon on the laptop for a whole module."""
    started: list[Served] = []

    def start(**settings: object) -> Served:
        data_dir = tmp_path_factory.mktemp("on_laptop") / "data"
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("DBUS_SYSTEM_BUS_ADDRESS", "unix:path=/nowhere/bus")
            served = Served(data_dir, database=database, sysfs_root=one_laptop.sysfs, **settings)
        started.append(served)
        # The models of the tests have the same artifacts, which are not made again.
        served.register(KEPT, LAPTOP_MODEL)
        return served

    yield start
    for served in started:
        served.stop()


@pytest.fixture(scope="module")
def laptop_daemon(serve_on_laptop: Callable[..., Served]) -> Served:
    return serve_on_laptop()


@pytest.fixture
def on_laptop(
    laptop: Laptop, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Served]]:
    """A daemon on the laptop with a model; resuming is settled at once.

    With a data folder it is the test's own, otherwise one for the module.
    """
    shared: list[Served] = []

    def start(data_dir: Path | None = None, **policy: object) -> Served:
        if data_dir is None:
            served = request.getfixturevalue("laptop_daemon")
            shared.append(served)
        else:
            monkeypatch.setenv("DBUS_SYSTEM_BUS_ADDRESS", "unix:path=/nowhere/bus")
            served = request.getfixturevalue("serve")(data_dir, sysfs_root=laptop.sysfs)
        served.register("m", LAPTOP_MODEL)
        served.upload("m", **blobs(300, 64, 4))
        change_policy(served, settle_seconds=0, **policy)
        wait_until(lambda: served.http.get("/v1/device").json()["eligible"], "the verdict")
        return served

    yield start
    for served in shared:
        served.clear(keep=(KEPT,))
