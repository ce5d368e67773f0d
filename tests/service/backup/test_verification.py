"""All that is kept is read once a week, when the device is free."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime
from types import SimpleNamespace
from typing import Any

import pytest
from stored import adopt, new_model
from support import DEADLINE_S

from service.backup.verification import Verifier
from storage.samples.filter import SampleFilter
from storage.store import Store

DAY_S = 24 * 3600


class Device:
    """Whether a job might train now."""

    eligible = True

    async def observe(self) -> Any:
        return SimpleNamespace(verdict=SimpleNamespace(eligible=self.eligible))


@pytest.fixture
def device() -> Device:
    return Device()


@pytest.fixture
def run(store: Store, clock: Any, device: Any) -> Callable[[], None]:
    verification = Verifier(store, device, now=lambda: clock.wall, bytes_per_s=1e12)
    return lambda: asyncio.run(verification.run_if_due())


def times(store: Store) -> list[datetime]:
    events = store.events.since(0, 100)
    return [event.created_at for event in events if event.type == "storage.verified"]


def test_damage_is_found_once_a_week(store: Store, clock: Any, run: Callable[[], None]) -> None:
    model = store.models.add(new_model("m"), adopt(store, b"base"))
    with store.samples.stage(model.id, 4) as staging:
        staging.add(bytes(range(40)), [1] * 10)
        staging.commit()
    pack = store.packs_dir / str(model.id) / "1.pack"
    run()
    assert len(times(store)) == 1

    pack.write_bytes(bytes([255]) + pack.read_bytes()[1:])
    clock.advance(6 * DAY_S)
    run()
    assert len(times(store)) == 1

    clock.advance(DAY_S)
    run()
    assert len(times(store)) == 2
    assert store.samples.ids(model.id, SampleFilter(quarantined=True)).tolist() == [1]


def test_whoever_hears_the_event_sees_that_it_has_ended(store: Store, device: Any) -> None:
    verifier = Verifier(store, device, bytes_per_s=1e12)
    heard: list[tuple[str, bool]] = []
    store.events.subscribe(lambda event: heard.append((event.type, verifier.progress.running)))
    asyncio.run(verifier.run_if_due())
    assert heard == [("storage.verified", False)]


def test_it_reads_no_faster_than_it_may(store: Store, device: Any) -> None:
    store.models.add(new_model("m"), adopt(store, bytes(10_000)))
    verifier = Verifier(store, device, bytes_per_s=100_000)

    async def time_reading() -> float:
        began = asyncio.get_running_loop().time()
        await verifier.run_if_due()
        return asyncio.get_running_loop().time() - began

    assert asyncio.run(time_reading()) > 0.095  # the loop's clock may round a sleep down
    assert verifier.progress.read_bytes == verifier.progress.total_bytes == 10_000


def test_a_stop_cuts_it_short(store: Store, device: Any) -> None:
    store.models.add(new_model("m"), adopt(store, bytes(10_000)))
    verifier = Verifier(store, device, bytes_per_s=0.1)

    async def stop_it() -> None:
        verifier.begin()
        await asyncio.wait_for(verifier.stop(), DEADLINE_S)

    asyncio.run(stop_it())
    assert times(store) == []


def test_a_fault_of_ours_is_logged_once_and_told(
    store: Store,
    device: Any,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail() -> int:
        raise ZeroDivisionError("of the test")

    monkeypatch.setattr(store.verification, "size_bytes", fail)
    verifier = Verifier(store, device)

    asyncio.run(verifier.run_if_due())

    assert not verifier.progress.running
    assert verifier.progress.error == "this is a bug in the daemon; its log has the traceback"
    (record,) = [record for record in caplog.records if record.exc_info]
    assert (record.message, record.levelname) == ("verification.failed", "ERROR")
    assert "of the test" in caplog.text


def test_a_device_in_use_is_left_alone(
    store: Store, run: Callable[[], None], device: Device
) -> None:
    device.eligible = False
    run()
    assert times(store) == []
    device.eligible = True
    run()
    assert len(times(store)) == 1


def test_a_clock_that_ran_ahead_puts_no_verification_off(
    store: Store, clock: Any, run: Callable[[], None]
) -> None:
    store.models.add(new_model("m"), adopt(store, b"base"))
    clock.advance(400 * DAY_S)
    run()
    clock.advance(-400 * DAY_S)
    run()
    run()
    assert len(times(store)) == 2
    clock.advance(8 * DAY_S)
    run()
    assert len(times(store)) == 3
