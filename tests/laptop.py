"""A laptop whose plug and charge the test holds: a tree that stands in for /sys."""

from __future__ import annotations

from pathlib import Path


class Laptop:
    """One mains supply and one battery. Every change is whole, as the kernel's are."""

    def __init__(self, folder: Path) -> None:
        self.sysfs = folder / "sys"
        self.charge(80)
        self.plug()

    def plug(self) -> None:
        self._write(AC__online="1", BAT0__status="Charging")

    def unplug(self) -> None:
        self._write(AC__online="0", BAT0__status="Discharging")

    def charge(self, percent: int) -> None:
        self._write(AC__type="Mains", BAT0__type="Battery", BAT0__capacity=str(percent))

    def _write(self, **attributes: str) -> None:
        for name, value in attributes.items():
            supply, _, attribute = name.partition("__")
            path = self.sysfs / "class/power_supply" / supply / attribute
            path.parent.mkdir(parents=True, exist_ok=True)
            fresh = path.with_name(attribute + ".new")
            fresh.write_text(value + "\n")
            fresh.replace(path)
