"""The monitor on a real store and an injected device; the test turns the clock."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from support import DEADLINE_S, until

from service.errors import InvalidInput, NotReady
from service.policy.device_monitor import DeviceMonitor, next_morning
from service.settings import Settings

pytestmark = pytest.mark.skipif(not hasattr(time, "tzset"), reason="needs an injected /sys")


@pytest.fixture
def supply(tmp_path: Path):
    """A laptop's plug: supply(True) is plugged in. Without a call there is no battery."""
    folder = tmp_path / "sys/class/power_supply"
    folder.mkdir(parents=True)

    def plug(plugged: bool) -> None:
        files = {
            "AC/type": "Mains",
            "AC/online": str(int(plugged)),
            "BAT0/type": "Battery",
            "BAT0/status": "Charging" if plugged else "Discharging",
            "BAT0/capacity": "80",
        }
        for name, value in files.items():
            path = folder / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(value + "\n")

    return plug


@pytest.fixture
def settings(tmp_path: Path, supply, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setenv("DBUS_SYSTEM_BUS_ADDRESS", "unix:path=/nowhere/bus")
    monkeypatch.setenv("HONED_CONFIG", str(tmp_path / "none.toml"))
    return Settings(data_dir=tmp_path, sysfs_root=tmp_path / "sys")


@asynccontextmanager
async def running(store, settings, clock) -> AsyncIterator[DeviceMonitor]:
    monitor = DeviceMonitor(store, settings, clock=clock.now)
    task = asyncio.create_task(monitor.run())
    try:
        yield monitor
    finally:
        monitor.stop()
        await task


def test_the_default_policy_follows_the_battery(store, settings, clock, supply):
    async def scene():
        async with running(store, settings, clock) as monitor:
            desk = (await monitor.observe()).policy
            supply(True)
            laptop = (await monitor.observe(max_age_s=0)).policy
            return desk, laptop

    desk, laptop = asyncio.run(scene())
    assert desk.min_battery_percent is None
    assert laptop.min_battery_percent == 30


def test_a_battery_that_vanishes_for_a_moment_changes_nothing(store, settings, clock, supply):
    folder = settings.sysfs_root / "class/power_supply"

    async def scene():
        supply(True)
        async with running(store, settings, clock) as monitor:
            await monitor.observe()  # at 80 %
            looks = []
            for change in (
                lambda: (folder / "BAT0/capacity").write_text("40\n"),  # it may go on, not start
                lambda: (folder / "BAT0").rename(folder.parent / "BAT0"),
                lambda: (folder.parent / "BAT0").rename(folder / "BAT0"),
            ):
                change()
                clock.advance(2.5)
                looks.append(await monitor.observe(max_age_s=0))
            return looks

    looks = asyncio.run(scene())
    assert [look.verdict.eligible for look in looks] == [True, True, True]
    assert [look.policy.min_battery_percent for look in looks] == [30, 30, 30]


def test_a_verdict_that_turns_is_an_event_once(store, settings, clock, supply):
    async def scene():
        supply(True)
        async with running(store, settings, clock) as monitor:
            assert (await monitor.observe()).verdict.eligible
            supply(False)
            for _ in range(3):
                clock.advance(1)
                look = await monitor.observe(max_age_s=0)
            return look

    look = asyncio.run(scene())
    told = [event for event in store.events.since(0, 100) if event.type == "device.verdict"]
    assert look.verdict.conditions == ("power",)
    assert [event.data["eligible"] for event in told] == [False]
    assert told[0].data["blocked_by"][0]["condition"] == "power"


def test_what_people_asked_for_outlives_a_restart(store, settings, clock):
    until = clock.now().wall + timedelta(hours=1)

    async def ask():
        async with running(store, settings, clock) as monitor:
            await monitor.change_policy({"nice": 15})
            await monitor.snooze(until)
            await monitor.pause_all(paused=True)

    async def look_again():
        async with running(store, settings, clock) as monitor:
            return await monitor.observe()

    asyncio.run(ask())
    look = asyncio.run(look_again())
    assert look.policy.nice == 15
    assert look.verdict.conditions == ("paused", "snoozed")
    assert look.in_spite.conditions == ("paused", "snoozed")


def test_a_wrong_policy_changes_nothing(store, settings, clock):
    async def scene():
        async with running(store, settings, clock) as monitor:
            with pytest.raises(InvalidInput) as caught:
                await monitor.change_policy({"nice": 99, "grace_seconds": -1})
            return caught.value.problems, (await monitor.observe()).policy

    problems, policy = asyncio.run(scene())
    assert [problem.pointer for problem in problems] == ["/nice", "/grace_seconds"]
    assert policy.nice != 99
    assert store.policy.get().settings is None


def test_a_stored_policy_is_parsed_when_it_changes(store, settings, clock, supply):
    async def scene():
        async with running(store, settings, clock) as monitor:
            await monitor.change_policy({"max_threads_idle": 1})
            looks = [await monitor.observe(max_age_s=0) for _ in range(2)]
            await monitor.change_policy({"max_threads_idle": 2})
            looks.append(await monitor.observe(max_age_s=0))
            supply(True)
            return [*looks, await monitor.observe(max_age_s=0)]

    first, again, changed, with_battery = (look.policy for look in asyncio.run(scene()))
    assert again is first
    assert (first.max_threads_idle, changed.max_threads_idle) == (1, 2)
    assert with_battery is not changed
    assert with_battery == changed  # whatever a laptop's defaults are, the device's are stored


def test_the_operators_settings_are_the_policys_defaults(store, settings, clock):
    given = settings.model_copy(update={"training_threads": 3, "training_nice": 4})

    async def scene():
        async with running(store, given, clock) as monitor:
            by_default = await monitor.limits()
            await monitor.change_policy({"nice": 15})
            return by_default, await monitor.limits()

    by_default, by_policy = asyncio.run(scene())
    assert (by_default.threads, by_default.nice) == (3, 4)
    assert (by_policy.threads, by_policy.nice) == (3, 15)


def test_before_sleep_nothing_may_run_and_after_it_all_is_judged_anew(store, settings, clock):
    async def scene():
        async with running(store, settings, clock) as monitor:
            asleep = await monitor.fall_asleep(asleep=True)
            clock.jump(8 * 3600)
            return asleep, await monitor.fall_asleep(asleep=False)

    asleep, awake = asyncio.run(scene())
    assert asleep.verdict.conditions == asleep.in_spite.conditions == ("asleep",)
    assert awake.verdict.eligible
    assert awake.clock_changed


@pytest.mark.parametrize("jump_s", [-86_400, 3_600])
def test_a_clock_that_jumps_is_told_once(store, settings, clock, jump_s):
    async def scene():
        async with running(store, settings, clock) as monitor:
            await monitor.observe()
            clock.jump(jump_s)
            return [(await monitor.observe(max_age_s=0)).clock_changed for _ in range(2)]

    assert asyncio.run(scene()) == [True, False]


def test_another_time_zone_is_a_changed_clock(store, settings, clock, monkeypatch):
    async def scene():
        async with running(store, settings, clock) as monitor:
            await monitor.observe()
            monkeypatch.setenv("TZ", "Asia/Tokyo")
            return (await monitor.observe(max_age_s=0)).clock_changed

    assert asyncio.run(scene())
    monkeypatch.undo()
    time.tzset()


def test_the_minutes_of_a_day_are_counted_while_a_job_trains(store, settings, clock):
    async def scene():
        async with running(store, settings, clock) as monitor:
            await monitor.change_policy({"max_minutes_per_day": 1})
            monitor.expect(trains=True, jobs_wait=False)
            await monitor.observe(max_age_s=0)
            clock.advance(61)
            return await monitor.observe(max_age_s=0)

    look = asyncio.run(scene())
    assert look.verdict.conditions == ("daily_limit",)
    assert look.in_spite.eligible


def test_who_waits_for_a_look_at_the_end_is_told(store, settings, clock):
    async def scene():
        async with running(store, settings, clock) as monitor:
            await monitor.observe()
        with pytest.raises(NotReady):
            await monitor.observe(max_age_s=0)

    asyncio.run(scene())


def test_a_device_is_read_more_often_while_somebody_watches(store, settings, clock):
    monitor = DeviceMonitor(store, settings, clock=clock.now)
    monitor.watch()
    clock.advance(11)  # the console asks every ten seconds
    watched = monitor.pause_s
    clock.advance(10)
    assert monitor.pause_s > watched


@pytest.mark.parametrize(
    ("zone", "now", "morning"),
    [
        ("UTC", datetime(2026, 3, 2, 22, 0), datetime(2026, 3, 3, 7, 0)),
        ("UTC", datetime(2026, 3, 2, 3, 0), datetime(2026, 3, 2, 7, 0)),
        ("Europe/Berlin", datetime(2026, 3, 28, 22, 0), datetime(2026, 3, 29, 5, 0)),
    ],
)
def test_morning_is_at_seven_by_the_local_clock(clock, monkeypatch, zone, now, morning):
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    clock.wall = now.replace(tzinfo=timezone.utc)
    assert next_morning(clock.now()) == morning.replace(tzinfo=timezone.utc)
    monkeypatch.undo()
    time.tzset()


def test_a_waiter_that_goes_during_a_look_does_not_end_the_monitor(store, settings, clock):
    may_look = threading.Event()
    may_look.set()

    def now():
        if threading.current_thread() is not threading.main_thread():
            assert may_look.wait(DEADLINE_S)
        return clock.now()

    async def scenario():
        monitor = DeviceMonitor(store, settings, clock=now)
        task = asyncio.create_task(monitor.run())
        await monitor.observe()
        may_look.clear()
        waiting = asyncio.create_task(monitor.observe(max_age_s=0))
        await asyncio.sleep(0)
        await until(lambda: not monitor._waiting, "the look to begin")
        waiting.cancel()
        await asyncio.sleep(0)
        may_look.set()
        await asyncio.wait_for(monitor.observe(max_age_s=0), DEADLINE_S)
        monitor.stop()
        await task

    asyncio.run(scenario())


def test_a_waiter_that_has_gone_does_not_end_the_monitor(store, settings, clock):
    async def scenario():
        monitor = DeviceMonitor(store, settings, clock=clock.now)
        task = asyncio.create_task(monitor.run())
        await monitor.observe()
        waiting = asyncio.create_task(monitor.observe(max_age_s=0))
        monitor.stop()
        await asyncio.sleep(0)
        waiting.cancel()
        await task

    asyncio.run(scenario())


def test_what_was_seen_is_stored_when_the_monitor_ends(store, settings, clock):
    async def scene():
        async with running(store, settings, clock) as monitor:
            await monitor.observe()
            assert store.device_history.since(clock.now().wall - timedelta(hours=1)) == []

    asyncio.run(scene())
    (minute,) = store.device_history.since(clock.now().wall - timedelta(hours=1))
    assert minute.eligible
    assert minute.signals["free_disk_bytes"] > 0
