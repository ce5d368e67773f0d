"""Power: the readings, and each platform's source for them."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import asdict

from service.device.reading import Moment, Reading


class Power(Struct, frozen=True):
    """The device's power supply; None is unknown.

    battery_percent: of all the device's batteries together. battery_state, ups_state:
    `charging`, `discharging`, `not charging`, `full` or `none`.
    """

    on_ac_power: bool | None = None
    battery_present: bool | None = None
    battery_percent: float | None = None
    battery_state: str | None = None
    battery_saver: bool | None = None
    ups_state: str | None = None


FIELDS = Power.__struct_fields__


def readings(
    power: Power, now: Moment, *, sources: dict[str, str], details: dict[str, str]
) -> tuple[Reading, ...]:
    """One reading per field. sources: field → its source. details: field → why unknown."""
    return tuple(
        Reading(
            name=name,
            value=value,
            unit="%" if name == "battery_percent" else "",
            source=sources[name],
            read_at=now,
            detail=details.get(name, "") if value is None else "",
        )
        for name, value in asdict(power).items()
    )
