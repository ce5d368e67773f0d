"""When sources are asked, what is recorded, and what becomes of a file that was fetched."""

from __future__ import annotations

import asyncio
import random
import socket
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support import until
from vendors import SOON, Vendor, Website

from service.errors import InvalidInput
from service.events import Feed
from service.follow import follower as following
from service.follow.follower import Follower
from service.follow.terms import checked_terms
from service.models.upgrade.spec import UpgradeSpec
from service.policy.device_monitor import DeviceMonitor
from service.processes.children import Children
from service.settings import Settings
from storage.database.codec import utc_now
from storage.errors import Busy, Problem
from storage.records.follows import Follow, FollowTerms
from storage.records.jobs import Blocker
from storage.records.models import Model
from storage.store import Store

MODEL = random.Random(1).randbytes(100_000)
NEWER = random.Random(2).randbytes(100_000)


class Upgrades:
    """Begins upgrades, as far as the test lets it."""

    def __init__(self) -> None:
        self.begun: list[bytes] = []
        self.error: Exception | None = None

    async def begin(self, _: Model, __: UpgradeSpec, source: Path, **___: Any) -> Any:
        return SimpleNamespace(id=await asyncio.to_thread(self._take, source))

    def _take(self, file: Path) -> int:
        if self.error is not None:
            raise self.error
        self.begun.append(file.read_bytes())
        file.unlink()
        return len(self.begun)


class Bench:
    """A follower, the clock that the test moves, and the vendor."""

    def __init__(self, store: Store, settings: Settings, model: Model, site: Website) -> None:
        self.store, self.settings, self.model, self.site = store, settings, model, site
        self.vendor, self.upgrades, self.ahead = Vendor(), Upgrades(), timedelta()
        self.told: list[tuple[str, dict[str, Any]]] = []

    def now(self) -> datetime:
        return utc_now() + self.ahead

    def follow(self, source: str) -> Follow:
        terms = checked_terms(FollowTerms(source, "digits", (self.vendor.pem,)))
        return self.store.follows.put(self.model, terms)

    def progress(self) -> Any:
        return self.store.follows.get(self.model).progress

    @asynccontextmanager
    async def follower(self) -> AsyncIterator[Follower]:
        monitor = DeviceMonitor(self.store, self.settings)
        guarding = asyncio.create_task(monitor.run())
        feed = Feed(self.store)
        feed.listen(lambda each: self.told.append((each.type, each.data)))
        follower = Follower(
            *(self.store, self.settings),
            monitor=monitor,
            children=Children(memory_cap_bytes=None),
            feed=feed,
            upgrades=self.upgrades,
            now=self.now,
        )
        try:
            yield follower
        finally:
            await follower.stop()
            monitor.stop()
            await guarding

    def ask(self) -> Any:
        """Look once, until all is done; the progress then."""

        async def scene() -> None:
            async with self.follower() as follower:
                await follower.look()
                await until(lambda: not follower.works, "the source to be asked")

        asyncio.run(scene())
        return self.progress()

    def types(self) -> list[str]:
        return [kind for kind, _ in self.told if kind != "device.verdict"]


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setenv("HONED_CONFIG", str(tmp_path / "none.toml"))
    return Settings(data_dir=tmp_path, sysfs_root=tmp_path / "sys")


@pytest.fixture
def bench(store: Store, shop: Any, settings: Settings) -> Any:
    with Website() as site:
        yield Bench(store, settings, shop.add_model(), site)


def test_what_is_offered_is_begun_once_and_asked_for_at_intervals(bench):
    bench.follow(bench.site.publish(bench.vendor, MODEL))
    progress = bench.ask()
    assert (progress.taken, progress.job_id, progress.error) == (2, 1, None)
    assert bench.types() == ["follow.offered"]
    asked = len(bench.site.asked)
    bench.ask()
    assert len(bench.site.asked) == asked
    bench.ahead = timedelta(hours=24, seconds=1)
    bench.ask()
    assert bench.site.asked[asked:] == [("GET", "/digits.onnx.sig", None)]
    bench.site.publish(bench.vendor, NEWER, 3)
    bench.ahead *= 2
    assert bench.ask().taken == 3
    assert bench.upgrades.begun == [MODEL, NEWER]


def test_a_refusal_is_told_once_and_nothing_is_begun(bench):
    bench.follow(bench.site.publish(Vendor(), MODEL))
    progress = bench.ask()
    assert (progress.error.code, progress.offered) == ("signature_refused", None)
    bench.ahead = timedelta(hours=25)
    bench.ask()
    assert (bench.types(), bench.upgrades.begun) == (["follow.refused"], [])


def test_a_downgrade_is_told_after_a_restart_too(bench):
    source = bench.site.publish(bench.vendor, MODEL, 3)
    bench.follow(source)
    bench.ask()
    bench.site.publish(bench.vendor, NEWER, 2)
    bench.follow(source)
    progress = bench.ask()
    assert (progress.error.code, progress.taken) == ("version_downgraded", 3)
    assert bench.upgrades.begun == [MODEL]


def test_a_statement_that_is_never_renewed_is_told_when_it_has_expired(bench):
    bench.follow(bench.site.publish(bench.vendor, MODEL))
    bench.ask()
    bench.ahead = SOON - utc_now() + timedelta(hours=1)
    progress = bench.ask()
    assert (progress.error.code, progress.taken) == ("statement_expired", 2)
    assert bench.site.asked[-1] == ("GET", "/digits.onnx.sig", None)
    assert bench.types() == ["follow.offered", "follow.refused"]


@pytest.mark.parametrize("has_tags", [True, False], ids=["ETags", "no ETags"])
def test_a_file_that_the_model_cannot_take_is_refused_until_it_changes(bench, has_tags):
    problems = [Problem("/model", "it has no input x"), Problem("/spec", "no")]
    bench.upgrades.error = InvalidInput("no", problems=problems)
    bench.follow(bench.site.publish(bench.vendor, MODEL))
    if not has_tags:
        bench.site.lies["/digits.onnx.sig"] = lambda each, content: each.answer(200, content)
    progress = bench.ask()
    assert progress.error.code == "base_refused"
    assert progress.error.detail == "version 2: no; /model: it has no input x"
    bench.ahead = timedelta(hours=25)
    assert bench.ask().error.code == "base_refused"
    assert bench.site.paths().count("/digits.onnx") == 1
    bench.upgrades.error = None
    bench.site.publish(bench.vendor, MODEL, spec={"running": "wait"})
    bench.ahead *= 2
    assert bench.ask().taken == 2


def test_what_cannot_be_begun_yet_is_kept_and_begun_later(bench):
    bench.upgrades.error = Busy("another upgrade waits")
    bench.follow(bench.site.publish(bench.vendor, MODEL))
    assert bench.ask().error.code == "busy"
    bench.upgrades.error = None
    bench.ahead = timedelta(hours=1, seconds=1)
    assert (bench.ask().taken, bench.upgrades.begun) == (2, [MODEL])
    assert bench.site.paths().count("/digits.onnx") == 1


def test_a_source_that_is_not_there_is_asked_again_soon_and_then_less_often(bench):
    bench.follow("http://127.0.0.1:9/digits.onnx")
    waits = []
    for _ in range(3):
        progress = bench.ask()
        waits.append(progress.next_at - progress.asked_at)
        bench.ahead = progress.next_at - utc_now() + timedelta(seconds=1)
    assert waits == [timedelta(minutes=minutes) for minutes in (1, 2, 4)]
    assert (progress.error.code, bench.types()) == ("source_unreachable", [])


def test_what_was_seen_is_kept_when_the_download_fails(bench):
    source = bench.site.publish(bench.vendor, MODEL, 3)
    bench.follow(source)
    bench.site.lies["/digits.onnx"] = lambda handler, content: handler.answer(200, content[1:])
    progress = bench.ask()
    assert (progress.error.code, progress.offered.version) == ("content_mismatch", 3)
    bench.site.publish(bench.vendor, NEWER, 2)
    bench.follow(source)
    assert bench.ask().error.code == "version_downgraded"
    assert bench.types().count("follow.offered") == 1


def test_nothing_is_asked_while_a_person_has_paused_training(bench):
    bench.follow(bench.site.publish(bench.vendor, MODEL))
    bench.store.policy.set_paused(True)
    assert (bench.ask().asked_at, bench.site.asked) == (None, [])


def test_a_clock_that_was_set_back_does_not_delay_the_next_question(bench):
    bench.follow(bench.site.publish(bench.vendor, MODEL))
    bench.ahead = timedelta(days=20)
    bench.ask()
    bench.ahead = timedelta()
    asked = len(bench.site.asked)
    bench.ask()
    assert len(bench.site.asked) == asked + 1


def interrupted(bench: Bench, end: Callable[[Follower], Awaitable[None]]) -> None:
    """A download that hangs after its first bytes, and what ends it."""

    def hang(handler, content):
        handler.answer(200, content[:1000], length=len(content))
        handler.wfile.flush()
        going_on.wait()

    going_on = threading.Event()
    bench.site.lies["/digits.onnx"] = hang

    async def scene() -> None:
        async with bench.follower() as follower:
            await follower.look()
            await until(lambda: "/digits.onnx" in bench.site.paths(), "the download")
            await end(follower)
            await until(lambda: not follower.works, "its end")

    asyncio.run(scene())
    going_on.set()
    del bench.site.lies["/digits.onnx"]


def test_a_daemon_that_stops_goes_on_with_the_download(bench):
    bench.follow(bench.site.publish(bench.vendor, MODEL))

    async def end(follower):
        folder = follower.folder / str(bench.model.id)
        await until(lambda: any(path.stat().st_size for path in folder.iterdir()), "bytes")
        await follower.stop()

    interrupted(bench, end)
    assert bench.progress().taken is None
    assert (bench.ask().taken, bench.upgrades.begun) == (2, [MODEL])
    assert bench.site.asked[-1] == ("GET", "/digits.onnx", "bytes=1000-")


def test_a_download_ends_when_the_policy_forbids_it_and_goes_on_later(bench, monkeypatch):
    monkeypatch.setattr(following, "WATCH", timedelta(milliseconds=50))
    bench.follow(bench.site.publish(bench.vendor, MODEL))

    async def end(follower):
        follower.blockers = metered

    interrupted(bench, end)
    assert (bench.progress().taken, bench.progress().error) == (None, None)
    assert (bench.ask().taken, bench.upgrades.begun) == (2, [MODEL])


async def metered() -> tuple[Blocker, ...]:
    """A network that has begun to cost."""
    return (Blocker("metered", "the network is metered"),)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has the bus")
def test_a_bus_that_does_not_answer_is_not_asked_each_time(bench, tmp_path, monkeypatch):
    monkeypatch.setenv("DBUS_SYSTEM_BUS_ADDRESS", f"unix:path={tmp_path / 'bus'}")

    async def scene() -> None:
        async with bench.follower() as follower:
            assert await asyncio.gather(*(follower.blockers() for _ in range(8))) == [()] * 8

    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(tmp_path / "bus"))
        silent.listen(100)
        asyncio.run(scene())
        silent.setblocking(False)
        with pytest.raises(BlockingIOError):  # two sensors ask it, too
            [silent.accept()[0].close() for _ in range(4)]


def test_a_follow_that_is_deleted_ends_its_download_and_removes_it(bench):
    bench.follow(bench.site.publish(bench.vendor, MODEL))

    async def end(follower):
        await asyncio.to_thread(bench.store.follows.delete, bench.model)
        await follower.look()

    interrupted(bench, end)
    assert bench.upgrades.begun == []
    assert list((bench.store.cache_dir / "follow").iterdir()) == []
