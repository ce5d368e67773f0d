"""Power on Windows, from GetSystemPowerStatus."""

from __future__ import annotations

import ctypes
import sys

from service.device.power import FIELDS, Power, readings
from service.device.reading import Moment, Reading

SOURCE = "GetSystemPowerStatus"
UNKNOWN = 255
NO_BATTERY = 128
CHARGING = 8


class SystemPowerStatus(ctypes.Structure):
    """SYSTEM_POWER_STATUS of winbase.h."""

    _fields_ = (
        ("ac_line_status", ctypes.c_ubyte),
        ("battery_flag", ctypes.c_ubyte),
        ("battery_life_percent", ctypes.c_ubyte),
        ("system_status_flag", ctypes.c_ubyte),
        ("battery_life_time", ctypes.c_uint32),
        ("battery_full_life_time", ctypes.c_uint32),
    )
    ac_line_status: int
    battery_flag: int
    battery_life_percent: int
    system_status_flag: int


def decode(status: SystemPowerStatus) -> Power:
    """The meaning of the bytes; 255 is unknown. A UPS on USB shows as a battery here."""
    flag = status.battery_flag
    present = None if flag == UNKNOWN else not flag & NO_BATTERY
    on_ac = {0: False, 1: True}.get(status.ac_line_status)
    percent = status.battery_life_percent
    return Power(
        on_ac_power=on_ac,
        battery_present=present,
        battery_percent=float(percent) if present and percent <= 100 else None,
        battery_state=_state(present, flag, on_ac, percent),
        battery_saver=status.system_status_flag == 1,
    )


def _state(present: bool | None, flag: int, on_ac: bool | None, percent: int) -> str | None:
    if present is None:
        return None
    if not present:
        return "none"
    if flag & CHARGING:
        return "charging"
    if on_ac is None:
        return None
    if not on_ac:
        return "discharging"
    return "full" if percent == 100 else "not charging"


class WindowsPower:
    """The single call that returns mains, battery and battery saver."""

    def read(self, now: Moment) -> tuple[Reading, ...]:
        """The readings of `Power`."""
        status = SystemPowerStatus()
        power, why = Power(), "this is not Windows"
        if sys.platform == "win32":
            if ctypes.windll.kernel32.GetSystemPowerStatus(ctypes.byref(status)):
                power, why = decode(status), "Windows does not know"
            else:
                why = str(ctypes.WinError())
        return readings(
            power, now, sources=dict.fromkeys(FIELDS, SOURCE), details=dict.fromkeys(FIELDS, why)
        )
