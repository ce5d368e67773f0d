"""When the daemon backs up its database: once a day, when the device is free, or after two days."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from service.backup.daily_backups import DailyBackups
from service.events import Feed
from storage.store import Store

HOUR_S = 3600


class Eligibility:
    """The monitor's verdict, as the test holds it."""

    def __init__(self) -> None:
        self.eligible = True

    async def observe(self) -> Any:
        return SimpleNamespace(verdict=self)


def stems(store: Store) -> list[str]:
    return sorted(path.stem for path in store.data_dir.glob("backups/*.db"))


@pytest.fixture
def monitor() -> Eligibility:
    return Eligibility()


@pytest.fixture
def carry_out(store: Store, clock: Any, monitor: Any) -> Callable[..., None]:
    """Run what a test does with them in an event loop."""

    def run(work: Callable[[DailyBackups], Awaitable[None]]) -> None:
        async def main() -> None:
            await work(DailyBackups(store, monitor, Feed(store), now=lambda: clock.wall))

        asyncio.run(main())

    return run


def test_one_is_made_a_day(
    store: Store, shop: Any, clock: Any, carry_out: Callable[..., None]
) -> None:
    shop.add_model()
    for hours in (0, 1, 22, 1, 1):
        clock.advance(hours * HOUR_S)
        carry_out(lambda own: own.make_if_due())
    assert stems(store) == ["20260302T120000Z", "20260303T120000Z"]


def test_a_device_in_use_is_left_alone_for_a_day_more(
    store: Store, shop: Any, clock: Any, monitor: Eligibility, carry_out: Callable[..., None]
) -> None:
    shop.add_model()
    carry_out(lambda own: own.make_if_due())
    monitor.eligible = False
    for _ in range(47):
        clock.advance(HOUR_S)
        carry_out(lambda own: own.make_if_due())
    assert len(stems(store)) == 1
    clock.advance(HOUR_S)
    carry_out(lambda own: own.make_if_due())
    assert len(stems(store)) == 2


def test_a_clock_that_was_set_back_does_not_keep_backups_from_being_made(
    store: Store, shop: Any, clock: Any, carry_out: Callable[..., None]
) -> None:
    shop.add_model()
    carry_out(lambda own: own.make_if_due())
    clock.jump(-240 * HOUR_S)
    carry_out(lambda own: own.make_if_due())
    assert stems(store) == ["20260220T120000Z", "20260302T120000Z"]


def test_one_that_fails_is_tried_again(
    store: Store, shop: Any, carry_out: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    shop.add_model()
    in_the_way = store.data_dir / "backups"
    in_the_way.rmdir()
    in_the_way.touch()
    carry_out(lambda own: own.make_if_due())
    assert "backup.failed" in caplog.messages
    in_the_way.unlink()
    Path(in_the_way).mkdir()
    carry_out(lambda own: own.make_if_due())
    assert len(stems(store)) == 1
