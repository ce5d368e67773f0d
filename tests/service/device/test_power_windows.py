from __future__ import annotations

import ctypes

import pytest

from service.device.power import Power
from service.device.windows.power import SystemPowerStatus, decode


@pytest.mark.parametrize(
    ("status", "power"),
    [
        ((1, 8, 43, 0), Power(True, True, 43.0, "charging", False)),
        ((0, 1, 90, 0), Power(False, True, 90.0, "discharging", False)),
        ((0, 4, 4, 1), Power(False, True, 4.0, "discharging", True)),
        ((1, 0, 60, 0), Power(True, True, 60.0, "not charging", False)),
        ((1, 1, 100, 0), Power(True, True, 100.0, "full", False)),
        ((1, 128, 255, 0), Power(True, False, None, "none", False)),
        ((255, 255, 255, 0), Power(None, None, None, None, False)),
        ((255, 1, 70, 0), Power(None, True, 70.0, None, False)),
    ],
)
def test_the_bytes_of_system_power_status_mean(status, power):
    assert decode(SystemPowerStatus(*status, 0, 0)) == power


def test_the_structure_has_the_size_that_windows_writes():
    assert ctypes.sizeof(SystemPowerStatus) == 12
