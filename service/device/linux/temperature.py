"""The hottest sensor of the device."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from service.device.linux.files import list_folder, read_attribute, read_int
from service.device.reading import Moment, Reading

NAME = "temperature_c"
LOWEST_C = 0.0
HIGHEST_C = 130.0
NONE_FOUND = "no temperature sensor"

NOT_CONNECTED = "AUXTIN"
"""Label of unconnected inputs of Super I/O chips; they float up to 120 °C."""

ASKS_THE_DISK = "drivetemp"
"""A driver that sends a command to the disk for each reading."""


class LinuxTemperature:
    """Maximum over /sys/class/thermal and /sys/class/hwmon.

    Left out: sensors that report a fault or read outside 0 to 130 °C, as open and broken ones do,
    and sensors that are not connected.
    """

    def __init__(self, sysfs: Path) -> None:
        self._thermal = str(sysfs / "class" / "thermal")
        self._hwmon = str(sysfs / "class" / "hwmon")

    def read(self, now: Moment) -> tuple[Reading, ...]:
        """temperature_c, with the hottest sensor as its source."""
        paths = (*self._zones(), *self._chips())
        values = ((read_int(path), path) for path in paths)
        sane = [
            (millidegrees / 1000, path)
            for millidegrees, path in values
            if millidegrees is not None and LOWEST_C < millidegrees / 1000 < HIGHEST_C
        ]
        if not sane:
            return (Reading(NAME, None, "°C", self._thermal, now, NONE_FOUND),)
        celsius, path = max(sane)
        return (Reading(NAME, celsius, "°C", path, now),)

    def _zones(self) -> Iterator[str]:
        for zone in list_folder(self._thermal):
            if zone.startswith("thermal_zone"):
                yield f"{self._thermal}/{zone}/temp"

    def _chips(self) -> Iterator[str]:
        for chip in list_folder(self._hwmon):
            folder = f"{self._hwmon}/{chip}"
            names = list_folder(folder)
            inputs = [
                name[: -len("_input")]
                for name in names
                if name.startswith("temp") and name.endswith("_input")
            ]
            if inputs and read_attribute(f"{folder}/name") != ASKS_THE_DISK:
                yield from (
                    f"{folder}/{sensor}_input" for sensor in inputs if _is_sound(folder, sensor)
                )


def _is_sound(folder: str, sensor: str) -> bool:
    label = read_attribute(f"{folder}/{sensor}_label") or ""
    return read_int(f"{folder}/{sensor}_fault") != 1 and not label.startswith(NOT_CONNECTED)
