"""Real daemons for the tests, each in a process of its own."""

from __future__ import annotations

import gc
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from child_forks import children_forked
from daemon_process import IMPORTED_BY_CHILDREN, SIGKILL, import_path
from hypothesis import settings
from small_disks import keep_mounts_private
from support import Served, wait_until

from storage.store import Store

MEMORY = Path("/dev/shm")
NEEDED_BYTES = 6 * 2**30
LONGEST = (
    "tests/installation/",
    "tests/api/federation/",
    "tests/cli/demo/",
    "tests/cli/test_operations.py",
    "tests/dashboard/",
    "tests/examples/test_vibration_sensor.py",
    "tests/openapi/",
    "tests/platforms/windows/test_kills.py",
    "tests/platforms/windows/test_suites.py",
    "tests/storage/erasure/test_deletions.py",
    "tests/storage/samples/test_samples_machine.py",
    "tests/storage/test_crash.py",
    "tests/storage/test_memory.py",
    "tests/systemd/",
    "tests/test_architecture.py",
)
"""Files that take more than five seconds and come late in the alphabet."""

# A busy machine is no failure of a property.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


def pytest_configure() -> None:
    """Keep temporary files in memory where that has room, also those of child processes.

    A write to a disk is awaited for 10 ms or more; no test cuts the power, which alone would tell.
    """
    if MEMORY.is_dir() and "TMPDIR" not in os.environ and _is_fit(MEMORY):
        os.environ["TMPDIR"] = tempfile.tempdir = str(MEMORY)
    keep_mounts_private()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Two processes more than processors: tests wait for daemons, for children and for time."""
    return (os.cpu_count() or 1) + 2


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest files first: one that began last would be waited for alone."""
    items.sort(key=lambda item: not item.nodeid.startswith(LONGEST))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Leave the tests and their modules out of garbage collection: they stay to the end.

    Looking through them took a sixth of the collection of the tests, and of the tests' own process.
    """
    gc.disable()
    result = yield
    gc.freeze()
    gc.enable()
    return result


def _is_fit(folder: Path) -> bool:
    """Whether it has room, and programs that are installed in it may run."""
    may_run = not os.statvfs(folder).f_flag & os.ST_NOEXEC
    return may_run and os.access(folder, os.W_OK) and shutil.disk_usage(folder).free > NEEDED_BYTES


@pytest.fixture(autouse=True)
def usual_umask() -> Iterator[None]:
    """Commands that run in this process set another one, and leave it."""
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.fixture(scope="session", autouse=True)
def forked_children() -> Iterator[None]:
    """Fork children of this process as daemons' children are forked."""
    with children_forked(import_path(), preloaded=IMPORTED_BY_CHILDREN):
        yield


@pytest.fixture(scope="session")
def of_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the processes of a run share."""
    own = tmp_path_factory.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own


@pytest.fixture(scope="session")
def description(of_run: Path) -> dict[str, Any]:
    """What /openapi.json answers, made once a run: that takes 2.5 s of a processor."""
    made = of_run / "openapi.json"
    try:
        of_run.joinpath("describes").mkdir()
    except FileExistsError:
        wait_until(made.exists, "another process to make the description")
    else:
        command = [sys.executable, "-m", "api.description"]
        new = made.with_suffix(".new")
        new.write_bytes(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
        new.rename(made)
    described: dict[str, Any] = json.loads(made.read_bytes())
    return described


@pytest.fixture(scope="session")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty database, as a first start makes it."""
    folder = tmp_path_factory.mktemp("empty")
    Store.open(folder / "data").close()
    database = folder / "data" / "hone.db"
    database.chmod(0o600)
    return database


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
            served.stop(SIGKILL)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, database: Path) -> Iterator[Served]:
    """One daemon for a module's tests that only ask it; each uses a model of its own name."""
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
