"""Real daemons for the tests, each in a process of its own."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support import Served


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Served]]:
    """Start daemons; by default each call on the same data folder of the test."""
    started: list[Served] = []

    def start(data_dir: Path | None = None, **settings: object) -> Served:
        served = Served(data_dir or tmp_path / "data", **settings)
        started.append(served)
        return served

    yield start
    for served in started:
        if served.process.poll() is None:
            served.stop(signal.SIGKILL)


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One daemon for all tests that only ask it; each uses a model of its own name."""
    running = Served(tmp_path_factory.mktemp("served") / "data", retry_backoff_s=0.1)
    yield running
    running.stop()
