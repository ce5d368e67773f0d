"""Asks followed sources when their time has come and the policy allows it."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from service.background import BackgroundTasks
from service.device.linux.bus import SystemBus
from service.device.linux.network import is_metered
from service.errors import NotReady
from service.events import Feed
from service.models.upgrade.upgrades import Upgrades
from service.policy.device_monitor import DeviceMonitor
from service.processes.children import Children
from service.settings import Settings
from storage.database.codec import utc_now
from storage.database.transaction import Happening
from storage.disk.durable import file_faults
from storage.records.follows import Follow
from storage.records.jobs import Blocker
from storage.store import Store

if TYPE_CHECKING:  # loaded when a source is due
    from service.follow.asking import Asking

SWEEP_S = 60
"""How often it is looked for sources that are due."""
LONGEST_RUN = timedelta(hours=1)
"""After this another source has its turn; what was downloaded is kept."""
WATCH = timedelta(seconds=30)
"""How often it is asked, during a download, whether the policy still allows it."""
ENDS = frozenset({"follow.set", "follow.ended", "model.deleted"})
CONDITIONS = frozenset({"asleep", "battery_saver", "paused", "snoozed", "window"})
"""Of those that block jobs: the hours, what people want, and a device that saves energy. A request
needs little of power, processor and memory, for which the others wait."""


class Follower:
    """Asks the sources of all models, one at a time. Belongs to the event loop.

    upgrades: what becomes of files that were fetched.
    """

    def __init__(
        self,
        store: Store,
        settings: Settings,
        *,
        monitor: DeviceMonitor,
        children: Children,
        feed: Feed,
        upgrades: Upgrades,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        self._store = store
        self._settings = settings
        self._children = children
        self._monitor = monitor
        self._upgrades = upgrades
        self._now = now
        self._bus, self._one_at_a_time = SystemBus(), asyncio.Lock()
        self._tasks = BackgroundTasks()
        self._is_wanted = self._stopping = False
        self.works = False
        self._current: Asking | None = None
        self.folder = store.cache_dir / "follow"
        feed.listen(self._on_event)

    async def look(self) -> None:
        """Ask whatever is due, unless that is under way."""
        self._is_wanted = True
        if not self.works and not self._stopping:
            self.works = True
            self._tasks.start(self._ask_all(), name="follow")

    async def stop(self) -> None:
        """End a download; the next start goes on with it."""
        self._stopping = True
        if self._current is not None:
            self._current.interrupt()
        await self._tasks.wait()

    async def blockers(self) -> tuple[Blocker, ...]:
        """What keeps sources from being asked now. Raises NotReady at the end of the daemon."""
        seen = await self._monitor.observe()
        reasons = [why for why in seen.verdict.blocked_by if why.condition in CONDITIONS]
        if not seen.policy.download_on_metered and await self._is_metered():
            detail = "the network is metered, and the policy's download_on_metered is false"
            reasons.append(Blocker("metered", detail))
        return tuple(reasons)

    async def _is_metered(self) -> bool:
        async with self._one_at_a_time:  # one bus for all, which rests once it has not answered
            return await asyncio.to_thread(is_metered, self._bus, self._monitor.now())

    def asks(self, model: str) -> bool:
        """Whether a model's source is being asked now."""
        return self._current is not None and self._current.model == model

    def downloaded_bytes(self, follow: Follow) -> int:
        """How much of what is offered is here. Blocking."""
        try:
            return sum(file.stat().st_size for file in self._folder(follow).iterdir())
        except FileNotFoundError:
            return 0

    def is_in_share(self, follow: Follow) -> bool | None:
        """Whether this device takes part in what is offered; None without an offer. Blocking."""
        offered = follow.progress.offered
        if offered is None:
            return None
        from service.follow.statement import draw, is_chosen

        drawn = draw(self._store.follows.device_identity(), follow.terms.name)
        return is_chosen(drawn, of_operator=follow.terms.percent, of_vendor=offered.percent)

    def report_body(self, follow: Follow) -> dict[str, Any] | None:
        """What a vendor is told of the last upgrade, or would be. Blocking."""
        from service.follow.report import report_body

        return report_body(self._store, follow, self._now())

    async def _ask_all(self) -> None:
        try:
            while self._is_wanted and not self._stopping:
                self._is_wanted = False
                follows = await asyncio.to_thread(self._store.follows.list)
                await asyncio.to_thread(self._tidy, follows)
                for follow in follows:
                    if follow.is_due(self._now()) and not self._stopping:
                        await self._ask_if_allowed(follow)
        finally:
            self.works = False

    async def _ask_if_allowed(self, follow: Follow) -> None:
        if not await self._may_ask():
            return
        from service.follow.asking import Asking

        asking = self._current = Asking(
            follow,
            self._store,
            self._settings,
            folder=self._folder(follow),
            children=self._children,
            upgrades=self._upgrades,
            now=self._now,
        )
        watching = asyncio.create_task(self._watch(asking))
        try:
            await asking.run()
        finally:
            watching.cancel()
            self._current = None

    async def _may_ask(self) -> bool:
        try:
            return not await self.blockers()
        except NotReady:  # the daemon is stopping
            return False

    async def _watch(self, asking: Asking) -> None:
        """Interrupt it once the policy forbids it, or when others have their turn."""
        for _ in range(int(LONGEST_RUN / WATCH)):
            await asyncio.sleep(WATCH.total_seconds())
            if not await self._may_ask():
                break
        asking.interrupt()

    def _folder(self, follow: Follow) -> Path:
        return self.folder / str(follow.model_id)

    def _tidy(self, follows: list[Follow]) -> None:
        """Remove downloads of models that follow nothing any more."""
        wanted = {str(follow.model_id) for follow in follows}
        if not self.folder.is_dir():
            return
        with file_faults("cannot remove downloads"):
            for folder in self.folder.iterdir():
                if folder.name not in wanted:
                    shutil.rmtree(folder)

    def _on_event(self, happened: Happening) -> None:
        current = self._current
        if happened.type in ENDS and current is not None and current.model == happened.model:
            current.interrupt()
