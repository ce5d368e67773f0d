"""A laptop whose plug and charge the test holds: a tree that stands in for /sys."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from support import Served, mlp, wait_until

LAPTOP_MODEL = mlp(64, 512, 512, 4)
KEPT = "kept"
"""Its artifacts are those of the models that tests register, which a shared daemon makes once."""


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


def change_policy(served: Served, **settings: object) -> None:
    answer = served.http.put("/v1/policy", json=settings)
    assert answer.status_code == 200, answer.text


def training(served: Served, model: str = "m", **request: object) -> int:
    """A job that has made its first steps."""
    job_id: int = served.ask_for_job(model, **request)["id"]
    wait_until(lambda: served.job(job_id)["progress"]["step"], "the first steps")
    return job_id


def conditions(job: dict[str, Any]) -> list[str]:
    return [blocker["condition"] for blocker in job["blocked_by"]]
