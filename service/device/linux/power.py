"""Power on Linux, from /sys/class/power_supply.

The rule is that of systemd's on_ac_power(), src/shared/battery-util.c: psutil's is wrong for
USB-C, "Not charging", peripherals' batteries and UPSes.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from service.device.linux.files import list_folder, read_attribute, read_int
from service.device.linux.upower import UPower
from service.device.power import Power, readings
from service.device.reading import Moment, Reading

NOT_LISTED = "the kernel lists no power supplies here"
VANISHED = "a battery was here a moment ago"
GONE_AFTER_S = 30.0
"""A battery unlisted for less time than this is not removed: its controller is resetting."""


class Supply(Struct, frozen=True):
    """One entry of /sys/class/power_supply, as the kernel's ABI names its attributes.

    online: 1 and 2 are both "online" (fixed, programmable). is_source: a USB-C port that feeds
    another device. energy_now, energy_full: µWh, or µAh where the driver counts charge.
    """

    path: str
    type: str
    scope: str | None = None
    present: bool = True
    status: str | None = None
    online: int | None = None
    is_source: bool = False
    capacity: int | None = None
    energy_now: int | None = None
    energy_full: int | None = None

    @property
    def is_battery(self) -> bool:
        """Whether it powers the device itself: not a mouse's battery or an empty bay."""
        return self.type == "Battery" and self.scope != "Device" and self.present

    @property
    def is_discharging(self) -> bool:
        """A battery without a status counts as discharging, as in systemd."""
        return self.status in (None, "Discharging")

    @property
    def percent(self) -> float | None:
        """Charge in percent, from `capacity` or else from energy or charge."""
        if self.capacity is not None and 0 <= self.capacity <= 100:
            return float(self.capacity)
        if self.energy_now is None or not self.energy_full:
            return None
        return min(100.0, max(0.0, 100.0 * self.energy_now / self.energy_full))


def read_supply(path: str) -> Supply | None:
    """The supply below `path`, or None if it has no type: systemd ignores such supplies."""
    kind = read_attribute(f"{path}/type")
    if kind is None:
        return None
    energy = "energy" if read_attribute(f"{path}/energy_now") is not None else "charge"
    return Supply(
        path=path,
        type=kind,
        scope=read_attribute(f"{path}/scope"),
        present=read_attribute(f"{path}/present") != "0",
        status=read_attribute(f"{path}/status"),
        online=read_int(f"{path}/online"),
        is_source=kind == "USB" and _feeds_others(path),
        capacity=read_int(f"{path}/capacity"),
        energy_now=read_int(f"{path}/{energy}_now"),
        energy_full=read_int(f"{path}/{energy}_full"),
    )


def _feeds_others(path: str) -> bool:
    """Whether every USB-C port that reports its role is a source, not a sink.

    See ABI/testing/sysfs-class-typec: the current role is in brackets.
    """
    ports = f"{path}/device/typec"
    roles = [read_attribute(f"{ports}/{port}/power_role") or "" for port in list_folder(ports)]
    return any("[source]" in role for role in roles) and not any("[sink]" in role for role in roles)


def on_ac_power(supplies: Sequence[Supply]) -> tuple[bool, str | None]:
    """Whether the device is on mains power, and the path of the deciding supply, if any."""
    for supply in supplies:
        if supply.type != "Battery" and not supply.is_source and (supply.online or 0) > 0:
            return True, supply.path
    for supply in supplies:
        if supply.is_battery and supply.is_discharging:
            return False, supply.path
        if supply.type == "UPS" and supply.status == "Discharging":
            return False, supply.path
    return True, None


def battery_percent(batteries: Sequence[Supply]) -> float | None:
    """Charge of all batteries together, weighted by capacity if all report it."""
    percents = [supply.percent for supply in batteries]
    known = [percent for percent in percents if percent is not None]
    if not known or len(known) != len(percents):
        return None
    sizes = [supply.energy_full or 0 for supply in batteries]
    weights = sizes if all(sizes) else [1] * len(known)
    total = sum(percent * weight for percent, weight in zip(known, weights, strict=True))
    return total / sum(weights)


def why_unknown(batteries: Sequence[Supply]) -> str:
    """Why their charge is unknown."""
    silent = ", ".join(supply.path for supply in batteries if supply.percent is None)
    return f"{silent} does not tell its charge" if silent else "no battery"


def state(supplies: Sequence[Supply]) -> str | None:
    """The most important state: discharging before charging."""
    if not supplies:
        return "none"
    states = {supply.status for supply in supplies}
    order = ("Discharging", "Charging", "Not charging", "Full")
    return next((name.lower() for name in order if name in states), None)


class LinuxPower:
    """Power supplies of the kernel, UPSes of UPower, and the platform's power profile."""

    def __init__(self, sysfs: Path, upower: UPower) -> None:
        self._folder = str(sysfs / "class" / "power_supply")
        self._profile = str(sysfs / "firmware" / "acpi" / "platform_profile")
        self._upower = upower
        self._battery_seen_at_s: float | None = None

    def read(self, now: Moment) -> tuple[Reading, ...]:
        """The readings of `Power`."""
        listed = Path(self._folder).is_dir()
        paths = (f"{self._folder}/{name}" for name in list_folder(self._folder))
        supplies = [supply for supply in map(read_supply, paths) if supply is not None]
        batteries = [supply for supply in supplies if supply.is_battery]
        upses = [supply for supply in supplies if supply.type == "UPS"]
        vanished = self._has_vanished(batteries, now)
        ups = self._upower.ups(now)
        on_ac, decided = on_ac_power(supplies) if listed else (None, None)
        if ups.state == "discharging":
            on_ac, decided = False, ups.source
        elif vanished and decided is None:
            on_ac = None
        profile = read_attribute(self._profile)
        power = Power(
            on_ac_power=on_ac,
            battery_present=bool(batteries) if listed and not vanished else None,
            battery_percent=battery_percent(batteries),
            battery_state=state(batteries) if listed and not vanished else None,
            battery_saver=None if profile is None else profile == "low-power",
            ups_state=state(upses) if upses else ups.state,
        )
        unlisted = VANISHED if vanished else NOT_LISTED
        listing = ", ".join(supply.path for supply in batteries) or self._folder
        return readings(
            power,
            now,
            sources={
                "on_ac_power": decided or self._folder,
                "battery_present": listing,
                "battery_percent": listing,
                "battery_state": listing,
                "battery_saver": self._profile,
                "ups_state": ", ".join(supply.path for supply in upses) or ups.source,
            },
            details={
                "on_ac_power": unlisted,
                "battery_present": unlisted,
                "battery_percent": VANISHED if vanished else why_unknown(batteries),
                "battery_state": "no battery that tells its state" if batteries else unlisted,
                "battery_saver": "no ACPI platform profile",
                "ups_state": ups.detail,
            },
        )

    def _has_vanished(self, batteries: Sequence[Supply], now: Moment) -> bool:
        if batteries:
            self._battery_seen_at_s = now.monotonic_s
        seen_at_s = self._battery_seen_at_s
        return (
            not batteries and seen_at_s is not None and now.monotonic_s - seen_at_s < GONE_AFTER_S
        )
