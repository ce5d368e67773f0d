"""UPSes on USB: UPower lists them, the kernel does not."""

from __future__ import annotations

from msgspec import Struct

from service.device.linux.bus import SystemBus
from service.device.reading import Moment
from storage.errors import in_words

SERVICE = "org.freedesktop.UPower"
PERIOD_S = 5.0
UPS = 3
STATES = {
    1: "charging",
    2: "discharging",
    3: "discharging",  # empty
    4: "full",
    5: "not charging",  # waits to charge
    6: "not charging",  # waits to discharge
}


class Ups(Struct, frozen=True):
    """state: as in `Power.ups_state`, None for unknown, and `detail` then says why."""

    state: str | None
    source: str
    detail: str = ""


class UPower:
    """Queries UPower every few seconds, if it is running."""

    def __init__(self, bus: SystemBus) -> None:
        self._bus = bus
        self._asked_at_s: float | None = None
        self._ups = Ups(None, SERVICE)

    def ups(self, now: Moment) -> Ups:
        """The UPS, if there is one; of several, a discharging one."""
        if self._asked_at_s is None or abs(now.monotonic_s - self._asked_at_s) >= PERIOD_S:
            self._asked_at_s = now.monotonic_s
            try:
                self._ups = self._ask(now)
            except OSError as error:
                self._ups = Ups(None, SERVICE, in_words(error))
        return self._ups

    def _ask(self, now: Moment) -> Ups:
        (paths,) = self._bus.call(
            now,
            service=SERVICE,
            path="/org/freedesktop/UPower",
            interface=SERVICE,
            method="EnumerateDevices",
        )
        supplies = [Ups("none", SERVICE)]
        # UPower names its objects by kind: /org/freedesktop/UPower/devices/ups_hiddev0
        for path in (path for path in paths if "/ups_" in path):
            device = self._bus.properties(
                now, service=SERVICE, path=path, interface=f"{SERVICE}.Device"
            )
            if device.get("Type") == UPS:
                state = STATES.get(device.get("State", 0))
                supplies.append(Ups(state, path, "" if state else "UPower does not know its state"))
        discharging = (ups for ups in supplies if ups.state == "discharging")
        return next(discharging, supplies[-1])
