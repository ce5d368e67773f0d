"""A device that the test describes, and a clock that it turns."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any

import pytest
from policies import strict_laptop

from service.device.reading import Moment, Reading, Signals
from service.policy.judge import Judge

CALM: dict[str, Any] = {
    "on_ac_power": True,
    "battery_present": True,
    "battery_percent": 90.0,
    "battery_saver": False,
    "user_idle_s": 3600.0,
    "last_input_s": 3600.0,
    "foreign_cpu_percent": 3.0,
    "cpu_pressure_percent": 0.0,
    "memory_pressure_percent": 0.0,
    "io_pressure_percent": 0.0,
    "available_memory_bytes": 8 * 2**30,
    "temperature_c": 45.0,
    "free_disk_bytes": 80 * 2**30,
    "running_processes": (),
    "local_time": datetime(2026, 3, 2, 12, 0, tzinfo=timezone.utc),
}


def describe(now: Moment, **signals: Any) -> Signals:
    """A calm device, but for these signals."""
    values = {**CALM, **signals}
    return Signals(
        {
            name: Reading(name, value, "", "test", now, "the sensor broke")
            for name, value in values.items()
        }
    )


@pytest.fixture
def device() -> Callable[..., Signals]:
    return describe


@pytest.fixture
def verdict(device, clock):
    """The verdict of one judge on a calm device, but for these signals, after some seconds."""
    judge = Judge()

    def give(signals=None, *, after_s=1.0, policy=None, **inputs):
        now = clock.advance(after_s)
        return judge.judge(policy or strict_laptop(), device(now, **(signals or {})), now, **inputs)

    return give
