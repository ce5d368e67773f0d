"""The device monitor: reads the device as often as needed, and stores people's settings."""

from __future__ import annotations

import asyncio
import math
import sys
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from service.device.reading import Moment, Signals
from service.errors import NoSession, NotReady
from service.policy.forecast import Forecast, forecast
from service.policy.history import SignalHistory
from service.policy.observer import Observation, Observer
from service.policy.policy import Policy
from service.policy.validation import from_dict, to_dict
from service.settings import Settings
from service.training.protocol.messages.shared import ResourceLimits
from storage.records.jobs import Blocker, Job, StoredPolicy
from storage.store import Store

if TYPE_CHECKING:
    from service.device.login_sessions import Address, SessionTable, SessionUserIdle

CLOSELY_S = 0.5
"""While a job trains or somebody watches."""
WHILE_WAITING_S = 1.0
AT_REST_S = 5.0
"""Pause between two readings, which together cost less than 0.2 % of a processor."""
WATCHED_S = 15.0
"""How long a caller who requests the verdict counts as watching; the console asks every 10 s."""
MORNING_HOUR = 7
NOT_OBSERVED = Blocker("starting", "the daemon has not looked at the device yet")

Listener = Callable[[Observation], None]


class DeviceMonitor:
    """Keeps the current verdict. Belongs to the event loop; what may block runs in a thread.

    clock: both clocks; replaced in tests. now: the time by them. Listeners are called after every
    reading, and must neither block nor raise.
    """

    def __init__(
        self, store: Store, settings: Settings, *, clock: Callable[[], Moment] = Moment.now
    ) -> None:
        self._store = store
        self._settings = settings
        self.now = clock
        self._asked_for = StoredPolicy(settings=None, snoozed_until=None, paused=False)
        self.latest: Observation | None = None
        """The newest reading, None before the first."""
        self._listeners: tuple[Listener, ...] = ()
        self._waiting: list[asyncio.Future[Observation]] = []
        self._wanted = asyncio.Event()
        self._changing = asyncio.Lock()
        self._trains = self._jobs_wait = self._asleep = self._stopping = False
        self._watched_until_s = 0.0
        self._sessions = _reported_sessions()
        self.history = SignalHistory(store.device_history)

    async def run(self) -> None:
        """Read the device, notify listeners and wait, until `stop`. Raises StorageBroken."""
        self._asked_for = await asyncio.to_thread(self._store.policy.get)
        observer = await asyncio.to_thread(
            Observer,
            self._store,
            self._settings,
            self.now,
            history=self.history,
            user_idle=self._sessions,
        )
        try:
            while not self._stopping:
                await self._observe(observer)
                await self._rest()
        finally:
            self._stopping = True
            for future in self._waiting:
                if not future.done():  # the waiting caller may be gone
                    future.set_exception(_stopping())
            await asyncio.to_thread(observer.close)

    def stop(self) -> None:
        """Make `run` return."""
        self._stopping = True
        self._wanted.set()

    def listen(self, listener: Listener) -> None:
        """Call `listener` after every reading from now on."""
        self._listeners = (*self._listeners, listener)

    async def observe(self, *, max_age_s: float = 1.0) -> Observation:
        """A reading that is not older; 0 for one that begins now. Raises NotReady at the end."""
        latest = self.latest
        if latest is not None and self.now().monotonic_s - latest.at.monotonic_s < max_age_s:
            return latest
        if self._stopping:
            raise _stopping()
        future: asyncio.Future[Observation] = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        self._wanted.set()
        return await future

    def watch(self) -> None:
        """Somebody is watching: read more often for a while."""
        self._watched_until_s = self.now().monotonic_s + WATCHED_S

    async def report_input(self, idle_s: float, *, peer: Address, own: Address) -> None:
        """The process behind `peer` reports the time since its session's last input.

        Raises NoSession.
        """
        if self._sessions is None:
            raise NoSession("this daemon needs no reports of input; they are for Windows")
        await asyncio.to_thread(self._sessions.hear, idle_s, self.now(), peer=peer, own=own)

    def expect(self, *, trains: bool, jobs_wait: bool) -> None:
        """Whether a job trains and jobs wait: this decides how often to read the device."""
        if trains != self._trains or (jobs_wait and not self._jobs_wait):
            self._wanted.set()
        self._trains, self._jobs_wait = trains, jobs_wait

    def blockers(self, job: Job) -> tuple[Blocker, ...]:
        """What blocks a job, by the newest reading; from any thread."""
        latest = self.latest
        return (NOT_OBSERVED,) if latest is None else latest.blockers(job)

    async def limits(self) -> ResourceLimits:
        """The resources that a child starting now may use."""
        observation = await self.observe()
        return child_limits(observation.policy, observation.snapshot)

    async def check_policy(self, changes: Mapping[str, Any]) -> Forecast:
        """The verdict now if the policy had these changes. Raises InvalidInput."""
        observation = await self.observe()
        policy = from_dict(changes, base=observation.policy)
        return await asyncio.to_thread(
            forecast, observation, policy, procfs=self._settings.procfs_root
        )

    async def change_policy(self, changes: Mapping[str, Any]) -> Policy:
        """Set these settings and keep the others. Raises InvalidInput with every problem."""
        async with self._changing:
            policy = from_dict(changes, base=(await self.observe()).policy)
            settings = to_dict(policy)
            await asyncio.to_thread(self._store.policy.set_settings, settings)
            return (await self._adopt(settings=settings)).policy

    async def reset_policy(self) -> Policy:
        """Restore the device's defaults."""
        async with self._changing:
            await self.observe(max_age_s=math.inf)
            await asyncio.to_thread(self._store.policy.set_settings, None)
            return (await self._adopt(settings=None)).policy

    async def snooze(self, until: datetime | None) -> Observation:
        """Train nothing until then; None ends a snooze."""
        async with self._changing:
            await self.observe(max_age_s=math.inf)
            await asyncio.to_thread(self._store.policy.set_snooze, until)
            return await self._adopt(snoozed_until=until)

    async def pause_all(self, *, paused: bool) -> Observation:
        """Train nothing while paused."""
        async with self._changing:
            await self.observe(max_age_s=math.inf)
            await asyncio.to_thread(self._store.policy.set_paused, paused)
            return await self._adopt(paused=paused)

    async def fall_asleep(self, *, asleep: bool) -> Observation:
        """The device is about to sleep, or is awake again."""
        self._asleep = asleep
        return await self.observe(max_age_s=0)

    async def _adopt(self, **changes: Any) -> Observation:
        self._asked_for = replace(self._asked_for, **changes)
        return await self.observe(max_age_s=0)

    async def _observe(self, observer: Observer) -> None:
        self._wanted.clear()
        waiting, self._waiting = self._waiting, []
        try:
            observation = await asyncio.to_thread(
                observer.observe, self._asked_for, trains=self._trains, asleep=self._asleep
            )
        except BaseException:
            self._waiting += waiting
            raise
        self.latest = observation
        for listener in self._listeners:
            listener(observation)
        for future in waiting:
            if not future.done():
                future.set_result(observation)

    @property
    def pause_s(self) -> float:
        """Until the next reading, if nobody asks for one."""
        if self._trains or self.now().monotonic_s < self._watched_until_s:
            return CLOSELY_S
        return WHILE_WAITING_S if self._jobs_wait else AT_REST_S

    async def _rest(self) -> None:
        try:
            await asyncio.wait_for(self._wanted.wait(), self.pause_s)
        except asyncio.TimeoutError:
            return


def _stopping() -> NotReady:
    return NotReady("the daemon is stopping; ask again when it is back")


def next_morning(now: Moment) -> datetime:
    """The next time the device's local clock shows MORNING_HOUR."""
    local = now.wall.astimezone().replace(tzinfo=None)
    morning = local.replace(hour=MORNING_HOUR, minute=0, second=0, microsecond=0)
    if morning <= local:
        morning += timedelta(days=1)
    return morning.astimezone(now.wall.tzinfo)


def takes_input_reports() -> bool:
    """Whether sessions must report their input, because this platform hides it from a service."""
    return platform_table() is not None


def platform_table() -> SessionTable | None:
    """The sessions of this platform, if a service cannot detect their input itself."""
    if sys.platform != "win32":
        return None
    from service.device.windows.sessions import WindowsSessions

    return WindowsSessions()


def _reported_sessions() -> SessionUserIdle | None:
    table = platform_table()
    if table is None:
        return None
    from service.device.login_sessions import SessionUserIdle

    return SessionUserIdle(table)


def child_limits(policy: Policy, snapshot: Signals) -> ResourceLimits:
    """Thread count by whether somebody uses the device; unknown counts as used.

    A job continues bit for bit only with the thread count it started with.
    """
    idle_s = snapshot.number("user_idle_s")
    is_idle = idle_s is not None and idle_s >= policy.idle_minutes * 60
    return ResourceLimits(
        threads=policy.max_threads_idle if is_idle else policy.max_threads_busy,
        nice=policy.nice,
    )
