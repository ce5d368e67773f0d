from __future__ import annotations

import pytest

from service.device.linux.bus import SystemBus
from service.device.linux.power import LinuxPower
from service.device.linux.upower import UPower

SERVICE = "org.freedesktop.UPower"
UPS = "/org/freedesktop/UPower/devices/ups_hiddev0"
pytestmark = pytest.mark.needs_dbusmock


@pytest.fixture
def upower(mock):
    return mock("upower", SERVICE, "/org/freedesktop/UPower")


@pytest.fixture
def add_ups(upower):
    """A UPS on USB in this state, as UPower numbers them."""

    def add(state):
        properties = {"Type": ("u", 3), "State": ("u", state), "Percentage": ("d", 80.0)}
        interface = f"{SERVICE}.Device"
        upower.call("AddObject", "ssa{sv}a(ssss)", UPS, interface, properties, [])

    return add


@pytest.fixture
def read(tree, by_name):
    root = tree({"class/power_supply/AC/type": "Mains", "class/power_supply/AC/online": "1"})
    bus = SystemBus()
    sensor = LinuxPower(root, UPower(bus))
    yield lambda now: by_name(sensor.read(now))
    bus.close()


def test_a_ups_that_feeds_the_device_is_not_mains(add_ups, read, clock):
    add_ups(2)
    readings = read(clock.now())
    assert readings["on_ac_power"].value is False
    assert readings["on_ac_power"].source == UPS
    assert readings["ups_state"].value == "discharging"


def test_a_full_ups_leaves_the_device_on_mains(add_ups, read, clock):
    add_ups(4)
    readings = read(clock.now())
    assert readings["on_ac_power"].value is True
    assert readings["ups_state"].value == "full"


def test_a_ups_that_loses_its_mains_is_seen_within_its_period(add_ups, upower, read, clock):
    add_ups(4)
    read(clock.now())
    upower.set(UPS, f"{SERVICE}.Device", State=("u", 2))
    assert read(clock.advance(5))["on_ac_power"].value is False


def test_an_upower_without_a_ups_says_none(upower, read, clock):
    assert read(clock.now())["ups_state"].value == "none"


def test_a_ups_in_an_unknown_state_is_unknown(add_ups, read, clock):
    add_ups(0)
    reading = read(clock.now())["ups_state"]
    assert reading.value is None
    assert reading.detail == "UPower does not know its state"
