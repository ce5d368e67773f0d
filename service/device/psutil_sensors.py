"""Signals from psutil, for platforms without /proc. Linux never imports it."""

from __future__ import annotations

import psutil

from service.device import memory
from service.device.linux import cpu, processes
from service.device.power import FIELDS, Power, readings
from service.device.reading import Moment, Reading

MIN_SECONDS = 0.5


class MacPower:
    """Mains and battery; low-power mode and UPSes are not reported."""

    SOURCE = "psutil.sensors_battery"

    def read(self, now: Moment) -> tuple[Reading, ...]:
        """The readings of `Power`."""
        battery = psutil.sensors_battery()
        if battery is None:
            power = Power(on_ac_power=True, battery_present=False, battery_state="none")
        else:
            power = Power(
                on_ac_power=battery.power_plugged,
                battery_present=True,
                battery_percent=float(battery.percent),
                battery_state=None if battery.power_plugged is not False else "discharging",
            )
        return readings(
            power,
            now,
            sources=dict.fromkeys(FIELDS, self.SOURCE),
            details=dict.fromkeys(FIELDS, "psutil does not tell it on macOS"),
        )


class PsutilForeignCpu:
    """Foreign load as `service.device.linux.cpu` defines it.

    When a descendant ends, its time since the last reading is lost: that much counts as foreign,
    once.
    """

    SOURCE = "psutil.cpu_times"

    def __init__(self) -> None:
        self._me = psutil.Process()
        self._own: dict[int, float] = {}
        self._own_sum = 0.0
        self._before = self._times()
        self._percent: float | None = None

    def read(self, now: Moment) -> tuple[Reading, ...]:
        """foreign_cpu_percent; the previous one if hardly any time has passed."""
        after = self._times()
        if after.total - self._before.total >= MIN_SECONDS:
            self._percent = cpu.foreign_percent(self._before, after)
            self._before = after
        detail = cpu.unless_known(self._percent, "measured from one reading to the next")
        return (Reading(cpu.NAME, self._percent, "%", self.SOURCE, now, detail),)

    def _times(self) -> cpu.CpuTimes:
        times = psutil.cpu_times()
        idle = times.idle + getattr(times, "iowait", 0.0) + getattr(times, "steal", 0.0)
        busy = times.user + times.system + getattr(times, "nice", 0.0)
        own: dict[int, float] = {}
        for process in (self._me, *self._me.children(recursive=True)):
            try:
                used = process.cpu_times()
            except psutil.NoSuchProcess:
                continue
            own[process.pid] = used.user + used.system
            self._own_sum += own[process.pid] - self._own.get(process.pid, 0.0)
        self._own = own
        return cpu.CpuTimes(idle + busy, busy, self._own_sum)


class PsutilMemory:
    """The memory that a new program could get without swapping."""

    def read(self, now: Moment) -> tuple[Reading, ...]:
        """available_memory_bytes."""
        available = int(psutil.virtual_memory().available)
        return (Reading(memory.NAME, available, "B", "psutil.virtual_memory", now),)


class PsutilProcesses:
    """Names are compared without case, and `.exe` is optional. Our own processes do not count."""

    def __init__(self) -> None:
        self.watched: tuple[str, ...] = ()

    def read(self, now: Moment) -> tuple[Reading, ...]:
        """running_processes: the watched names that are running, as spelt in the list."""
        running: dict[int, str] = {}
        if self.watched:
            listed = psutil.process_iter(["name"])
            running = {process.pid: _plain(process.info["name"] or "") for process in listed}
        watched = {_plain(name) for name in self.watched}
        if not watched.isdisjoint(running.values()):
            me = psutil.Process()
            for own in (me, *me.children(recursive=True)):
                running.pop(own.pid, None)
        names = tuple(name for name in self.watched if _plain(name) in running.values())
        return (Reading(processes.NAME, names, "", "psutil.process_iter", now),)


def _plain(name: str) -> str:
    return name.lower().removesuffix(".exe")
