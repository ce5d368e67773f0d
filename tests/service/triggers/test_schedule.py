"""The schedule on a real store, scheduler and monitor; the test turns the clock of the latter."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from apscheduler.schedulers.asyncio import AsyncIOScheduler
from support import until

from service.background import timer
from service.events import Feed
from service.policy.device_monitor import DeviceMonitor
from service.settings import Settings
from service.triggers.rule import Rule
from service.triggers.schedule import PREFIX, Schedule
from storage.records.jobs import NewTrigger

OUT_OF_RANGE = "9999-12-31T23:59:59-01:00"
"""No instant of UTC that a datetime can hold."""


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setenv("DBUS_SYSTEM_BUS_ADDRESS", "unix:path=/nowhere/bus")
    monkeypatch.setenv("HONED_CONFIG", str(tmp_path / "none.toml"))
    return Settings(data_dir=tmp_path, sysfs_root=tmp_path / "sys")


@pytest.fixture
def three_east(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The device stands three hours east of Greenwich, in a zone that is no name."""
    if not hasattr(time, "tzset"):
        pytest.skip("this platform has no tzset")
    monkeypatch.setenv("TZ", "<+03>-3")
    yield
    monkeypatch.undo()
    time.tzset()


@asynccontextmanager
async def scheduled(store, settings, clock) -> AsyncIterator[AsyncIOScheduler]:
    monitor = DeviceMonitor(store, settings, clock=clock.now)
    guarding = asyncio.create_task(monitor.run())
    await monitor.observe()
    scheduler = timer()
    scheduler.start()
    try:
        Schedule(store, scheduler, monitor=monitor, feed=Feed(store)).start()
        yield scheduler
    finally:
        scheduler.shutdown(wait=False)
        monitor.stop()
        await guarding


def add(store, model, rule):
    return store.triggers.add(NewTrigger(model.id, rule.kind, rule.to_dict(), {}, 0, True)).id


def timed(scheduler):
    return {
        int(job.id.removeprefix(PREFIX)): job.next_run_time
        for job in scheduler.get_jobs()
        if job.id.startswith(PREFIX)
    }


def test_a_trigger_that_cannot_be_scheduled_costs_no_other_its_time(
    store, shop, settings, clock, caplog
):
    model = shop.add_model()
    add(store, model, Rule(cron="0 3 * * *"))
    broken = add(store, model, Rule(eligible_after=OUT_OF_RANGE))
    nowhere = add(store, model, Rule(cron="0 3 * * *", time_zone="Mars/Base"))
    far = add(store, model, Rule(eligible_after="9999-12-31T23:59:59+00:00"))
    last = add(store, shop.add_model("other"), Rule(eligible_after="02:00"))

    async def scene():
        async with scheduled(store, settings, clock) as scheduler:
            await until(lambda: last in timed(scheduler), "the last trigger's time")
            return timed(scheduler)

    caplog.set_level(logging.WARNING)
    times = asyncio.run(scene())
    assert set(times) == {1, far, last}
    told = [r.fields for r in caplog.records if r.getMessage() == "trigger.not_scheduled"]
    assert [fields["trigger"] for fields in told] == [broken, nowhere]
    assert "Mars/Base" in told[1]["why"]


def test_times_are_kept_in_a_zone_that_is_no_name(store, shop, settings, clock, three_east):
    model = shop.add_model()
    cron = add(store, model, Rule(cron="30 2 * * *"))
    daily = add(store, model, Rule(eligible_after="20:00"))
    add(store, model, Rule(eligible_after="2099-01-01T00:00:00Z"))

    async def scene():
        async with scheduled(store, settings, clock) as scheduler:
            await until(lambda: len(timed(scheduler)) == 3, "all times")
            return timed(scheduler)

    times = {id_: when.utctimetuple()[3:5] for id_, when in asyncio.run(scene()).items()}
    assert (times[cron], times[daily]) == ((23, 30), (17, 0))


def test_what_listens_for_samples_does_so_beside_a_trigger_that_cannot(
    store, shop, settings, clock
):
    model = shop.add_model()
    shop.add_samples(model, 1)
    add(store, model, Rule(eligible_after=OUT_OF_RANGE))
    add(store, model, Rule(new_samples=5))

    async def scene():
        async with scheduled(store, settings, clock) as scheduler:
            scheduler.remove_job("triggers")
            await until(lambda: len(scheduler.get_jobs()) == 0, "the first look")
            await asyncio.to_thread(shop.add_samples, model, 5)
            await until(lambda: store.jobs.list(limit=1), "a job")

    asyncio.run(scene())
    assert [job.trigger for job in store.jobs.list(limit=9)] == ["samples"]


def test_work_that_a_clock_ahead_put_off_comes_when_the_clock_is_set_back(store, settings, clock):
    async def scene():
        async with scheduled(store, settings, clock) as scheduler:
            await until(lambda: len(scheduler.get_jobs()) == 1, "the first look")
            planned = scheduler.get_job("triggers").next_run_time
            scheduler.modify_job("triggers", next_run_time=planned.replace(year=2038))
            clock.jump(-86400)
            await until(
                lambda: scheduler.get_job("triggers").next_run_time.year < 2038, "the next sweep"
            )

    asyncio.run(scene())
