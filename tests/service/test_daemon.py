"""What a daemon does by itself: at its start, and every hour."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import wraps
from inspect import iscoroutinefunction
from pathlib import Path
from typing import Any

import pytest
from stored import adopt, begin, new_model
from support import until

from service import daemon as module
from service.access.usage import Usages
from service.backup.daily_backups import DailyBackups
from service.backup.verification import Verifier
from service.daemon import Daemon
from service.samples.drift import DriftWatch
from service.samples.erasure import Erasure
from service.settings import load_settings
from storage.database.codec import utc_now
from storage.store import Store
from storage.tables.audit import Audit
from storage.tables.history import History

HOURLY: list[tuple[Any, str]] = [
    (Audit, "prune"),
    (DailyBackups, "make_if_due"),
    (DriftWatch, "check_all"),
    (Erasure, "sweep"),
    (History, "prune"),
    (Usages, "save"),
    (Verifier, "run_if_due"),
    (module, "prune_all"),
]


def noting(work: Callable[..., Any], ended: Callable[[], None]) -> Callable[..., Any]:
    """The same work, and word of it once it has ended."""
    if iscoroutinefunction(work):

        @wraps(work)
        async def awaited(*given: Any, **named: Any) -> None:
            await work(*given, **named)
            ended()

        return awaited

    @wraps(work)
    def called(*given: Any, **named: Any) -> None:
        work(*given, **named)
        ended()

    return called


def test_all_hourly_work_is_done(
    tmp_path: Path, database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An hour is half a second here, and the work is the real one."""
    done: set[str] = set()
    monkeypatch.setattr(module, "MAINTENANCE_INTERVAL_S", 0.5)
    for owner, name in HOURLY:
        label = f"{owner.__name__}.{name}"
        work = noting(getattr(owner, name), lambda label=label: done.add(label))  # type: ignore[misc]
        monkeypatch.setattr(owner, name, work)
    wanted = {f"{owner.__name__}.{name}" for owner, name in HOURLY}

    async def run() -> None:
        settings = load_settings(data_dir=begin(tmp_path / "data", database))
        daemon = Daemon(settings, on_fatal=lambda: None)
        await daemon.start()
        try:
            await until(lambda: done >= wanted, f"{wanted} to be done")
        finally:
            await daemon.stop()

    asyncio.run(run())


def test_a_start_removes_a_deleted_model_from_the_backup_that_a_crash_left_it_in(
    tmp_path: Path, database: Path
) -> None:
    data_dir = begin(tmp_path / "data", database)
    store = Store.open(data_dir)
    store.models.add(new_model("m"), adopt(store, b"model"))
    backup = store.backups.make(utc_now())
    store.models.delete("m")
    store.close()
    assert backup is not None
    assert models_in(backup) == ["m"]

    async def run() -> None:
        daemon = Daemon(load_settings(data_dir=data_dir), on_fatal=lambda: None)
        await daemon.start()
        await daemon.stop()

    asyncio.run(run())
    assert models_in(backup) == []


def models_in(database: Path) -> list[str]:
    with closing(sqlite3.connect(database)) as connection:
        return [name for (name,) in connection.execute("SELECT name FROM models")]
