"""The device: all signals in one place, each read as often as is worthwhile."""

from __future__ import annotations

import sys
from pathlib import Path

from msgspec import Struct

from service.device.linux import pressure, temperature
from service.device.linux.bus import SystemBus
from service.device.linux.cpu import LinuxForeignCpu
from service.device.linux.idle import LinuxUserIdle
from service.device.linux.power import LinuxPower
from service.device.linux.processes import LinuxProcesses, ProcessWatcher
from service.device.linux.upower import UPower
from service.device.memory import LinuxMemory
from service.device.portable import FreeDisk, LocalTime, Untold
from service.device.reading import Moment, Reading, Sensor, Signals
from service.device.windows.power import WindowsPower

EVERY_TIME = 0.0
OFTEN_S = 1.0
NOW_AND_THEN_S = 5.0


class CachedSensor(Struct):
    """A sensor, the maximum age of its readings, and the last ones."""

    sensor: Sensor
    period_s: float
    readings: tuple[Reading, ...] = ()

    def read(self, now: Moment) -> tuple[Reading, ...]:
        """The last readings, or new ones if they are too old."""
        if not self.readings or self.readings[0].age_s(now) >= self.period_s:
            self.readings = self.sensor.read(now)
        return self.readings


class Device:
    """The device's signals. Only one thread at a time may read them.

    user_idle: source of user_idle_s and last_input_s if the platform has none of its own. sysfs,
    procfs, dev: roots, which differ in containers and tests. A reading may occasionally wait a
    second for hanging services, so it must not run in an event loop.
    """

    def __init__(
        self,
        *,
        data_dir: Path,
        now: Moment,
        user_idle: Sensor | None = None,
        sysfs: Path = Path("/sys"),
        procfs: Path = Path("/proc"),
        dev: Path = Path("/dev"),
    ) -> None:
        self._buses = (SystemBus(), SystemBus())
        self._idle_sensor = CachedSensor(
            user_idle or self._user_idle(procfs=procfs, dev=dev), NOW_AND_THEN_S
        )
        on_linux = sys.platform == "linux"
        self._processes = process_watcher(procfs)
        sensors = self._linux(sysfs, procfs, now) if on_linux else self._psutil()
        self._process_sensor = CachedSensor(
            self._processes, EVERY_TIME if on_linux else NOW_AND_THEN_S
        )
        self._sensors = (
            *sensors,
            self._idle_sensor,
            CachedSensor(FreeDisk(data_dir), EVERY_TIME),
            self._process_sensor,
            CachedSensor(LocalTime(), EVERY_TIME),
        )

    def watch(self, names: tuple[str, ...]) -> None:
        """Look for these programs from the next reading on."""
        if names != self._processes.watched:
            self._processes.watched = names
            self._process_sensor.readings = ()

    def hurry(self, *, user_idle: bool) -> None:
        """Whether somebody's first input must be detected at once: asking logind is expensive."""
        self._idle_sensor.period_s = EVERY_TIME if user_idle else NOW_AND_THEN_S

    def read(self, now: Moment) -> Signals:
        """Every signal; expensive, slowly changing ones keep a reading for some seconds."""
        readings = (reading for sensor in self._sensors for reading in sensor.read(now))
        return Signals({reading.name: reading for reading in readings})

    def close(self) -> None:
        """Close the connection to the bus."""
        for bus in self._buses:
            bus.close()

    def _user_idle(self, *, procfs: Path, dev: Path) -> Sensor:
        if sys.platform == "linux":
            return LinuxUserIdle(procfs=procfs, dev=dev, bus=self._buses[1])
        why = "a service does not see the input of its users' sessions on this platform"
        return Untold("user_idle_s", "last_input_s", unit="s", why=why)

    def _linux(self, sysfs: Path, procfs: Path, now: Moment) -> tuple[CachedSensor, ...]:
        return (
            CachedSensor(LinuxPower(sysfs, UPower(self._buses[0])), EVERY_TIME),
            CachedSensor(LinuxForeignCpu(procfs, now), OFTEN_S),
            CachedSensor(pressure.LinuxPressure(procfs), EVERY_TIME),
            CachedSensor(LinuxMemory(procfs, sysfs), EVERY_TIME),
            CachedSensor(temperature.LinuxTemperature(sysfs), OFTEN_S),
        )

    def _psutil(self) -> tuple[CachedSensor, ...]:
        from service.device.psutil_sensors import MacPower, PsutilForeignCpu, PsutilMemory

        pressures = Untold(*pressure.SIGNALS, unit="%", why="only Linux measures it")
        hottest = Untold(temperature.NAME, unit="°C", why="not told on this platform")
        power = WindowsPower() if sys.platform == "win32" else MacPower()
        return (
            CachedSensor(power, EVERY_TIME),
            CachedSensor(PsutilForeignCpu(), NOW_AND_THEN_S),
            CachedSensor(pressures, NOW_AND_THEN_S),
            CachedSensor(PsutilMemory(), OFTEN_S),
            CachedSensor(hottest, NOW_AND_THEN_S),
        )


def process_watcher(procfs: Path) -> ProcessWatcher:
    """The sensor of running programs on this platform."""
    if sys.platform == "linux":
        return LinuxProcesses(procfs)
    from service.device.psutil_sensors import PsutilProcesses

    return PsutilProcesses()
