"""Real daemons for the tests, each in a process of its own."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support import Served

from storage.store import Store


@pytest.fixture(scope="session")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty database, as a first start makes it."""
    folder = tmp_path_factory.mktemp("empty")
    Store.open(folder / "data").close()
    return folder / "data" / "hone.db"


@pytest.fixture
def serve(tmp_path: Path, database: Path) -> Iterator[Callable[..., Served]]:
    """Start daemons; by default each call on the same data folder of the test."""
    started: list[Served] = []

    def start(data_dir: Path | None = None, **settings: object) -> Served:
        served = Served(data_dir or tmp_path / "data", database=database, **settings)
        started.append(served)
        return served

    yield start
    for served in started:
        if served.process.poll() is None:
            served.stop(signal.SIGKILL)


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory, database: Path) -> Iterator[Served]:
    """One daemon for all tests that only ask it; each uses a model of its own name."""
    folder = tmp_path_factory.mktemp("served")
    running = Served(folder / "data", database=database, retry_backoff_s=0.1)
    yield running
    running.stop()


@pytest.fixture
def cleared(served: Served) -> Iterator[None]:
    """The same daemon has no model and no job before the test and after it."""
    served.clear()
    yield
    served.clear()
