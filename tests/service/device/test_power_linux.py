from __future__ import annotations

import shutil
import sys

import pytest

from service.device.linux.bus import SystemBus
from service.device.linux.power import LinuxPower
from service.device.linux.upower import UPower

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads Linux's /sys")

MAINS = {"AC/type": "Mains", "AC/online": "1"}
UNPLUGGED = {"AC/type": "Mains", "AC/online": "0"}


def battery(name="BAT0", **attributes):
    values = {"type": "Battery", "status": "Discharging", "capacity": "57", **attributes}
    return {f"{name}/{key}": value for key, value in values.items()}


@pytest.fixture
def power(tree, clock, by_name, monkeypatch):
    """Readings of a device with these supplies, and no bus."""
    monkeypatch.setenv("DBUS_SYSTEM_BUS_ADDRESS", "unix:path=/nowhere/bus")

    def read(*supplies):
        root = tree({"class/power_supply/.keep": ""})
        (root / "class/power_supply/.keep").unlink()
        for files in supplies:
            tree({f"class/power_supply/{name}": value for name, value in files.items()})
        return by_name(LinuxPower(root, UPower(SystemBus())).read(clock.now()))

    return read


def test_a_plugged_laptop_that_charges_is_on_ac(power):
    readings = power(MAINS, battery(status="Charging", capacity="43"))
    assert readings["on_ac_power"].value is True
    assert readings["on_ac_power"].source.endswith("/AC")
    assert readings["battery_percent"].value == 43
    assert readings["battery_percent"].unit == "%"
    assert readings["battery_state"].value == "charging"
    assert readings["battery_present"].value is True
    assert readings["battery_percent"].source.endswith("class/power_supply/BAT0")


def test_an_unplugged_laptop_is_not_on_ac(power):
    readings = power(UNPLUGGED, battery())
    assert readings["on_ac_power"].value is False
    assert readings["on_ac_power"].source.endswith("/BAT0")
    assert readings["battery_state"].value == "discharging"


def test_a_battery_that_is_not_charging_at_its_limit_is_on_ac(power):
    readings = power(MAINS, battery(status="Not charging", capacity="80"))
    assert readings["on_ac_power"].value is True
    assert readings["battery_state"].value == "not charging"


def test_not_charging_without_a_charger_entry_is_on_ac(power):
    assert power(battery(status="Not charging"))["on_ac_power"].value is True


@pytest.mark.parametrize("online", ["1", "2"])
def test_usb_c_is_mains_whether_fixed_or_programmable(power, online):
    port = {"ucsi-source-psy-USBC000:001/type": "USB", "ucsi-source-psy-USBC000:001/online": online}
    assert power(UNPLUGGED, port, battery(status="Charging"))["on_ac_power"].value is True


def test_a_usb_c_port_that_feeds_a_phone_is_not_mains(power):
    port = {
        "ucsi0/type": "USB",
        "ucsi0/online": "1",
        "ucsi0/device/typec/port0/power_role": "[source] sink",
    }
    assert power(port, battery())["on_ac_power"].value is False


def test_one_sink_among_usb_c_ports_is_enough_for_mains(power):
    port = {
        "ucsi0/type": "USB",
        "ucsi0/online": "1",
        "ucsi0/device/typec/port0/power_role": "[source] sink",
        "ucsi0/device/typec/port1/power_role": "source [sink]",
    }
    assert power(port, battery())["on_ac_power"].value is True


def test_a_mouse_is_not_the_devices_battery(power):
    mouse = battery("hidpp_battery_0", scope="Device", capacity="5")
    readings = power(mouse)
    assert readings["on_ac_power"].value is True
    assert readings["battery_present"].value is False
    assert readings["battery_percent"].value is None
    assert readings["battery_state"].value == "none"


def test_a_mouse_beside_a_laptops_battery_does_not_lower_it(power):
    mouse = battery("hidpp_battery_0", scope="Device", capacity="5")
    assert power(MAINS, mouse, battery(capacity="90"))["battery_percent"].value == 90


def test_an_empty_bay_is_no_battery(power):
    readings = power(battery(present="0", status="Unknown"))
    assert readings["on_ac_power"].value is True
    assert readings["battery_present"].value is False


def test_a_battery_without_status_is_taken_to_discharge(power):
    readings = power({"BAT0/type": "Battery"})
    assert readings["on_ac_power"].value is False
    assert readings["battery_percent"].value is None
    assert readings["battery_percent"].detail.endswith("/BAT0 does not tell its charge")
    assert readings["battery_state"].value is None


def test_the_one_of_two_batteries_that_does_not_tell_its_charge_is_named(power):
    readings = power(MAINS, battery(capacity="80"), {"BAT1/type": "Battery"})
    assert readings["battery_percent"].value is None
    assert readings["battery_percent"].detail.endswith("/BAT1 does not tell its charge")
    assert "BAT0" not in readings["battery_percent"].detail


def test_two_batteries_are_weighted_by_their_size(power):
    small = battery(energy_now="10", energy_full="20", capacity="50")
    large = battery("BAT1", energy_now="60", energy_full="60", capacity="100", status="Full")
    readings = power(UNPLUGGED, small, large)
    assert readings["battery_percent"].value == pytest.approx(87.5)
    assert readings["battery_state"].value == "discharging"
    assert "BAT0" in readings["battery_percent"].source
    assert "BAT1" in readings["battery_percent"].source


def test_charge_counts_where_there_is_no_capacity(power):
    readings = power({"B/type": "Battery", "B/charge_now": "30", "B/charge_full": "40"})
    assert readings["battery_percent"].value == 75


def test_a_capacity_out_of_range_is_not_believed(power):
    assert power(battery(capacity="255"))["battery_percent"].value is None


def test_a_ups_on_mains_is_mains(power):
    readings = power({"ups/type": "UPS", "ups/online": "1", "ups/status": "Charging"})
    assert readings["on_ac_power"].value is True
    assert readings["ups_state"].value == "charging"
    assert readings["battery_present"].value is False


def test_a_ups_that_discharges_is_not_mains(power):
    readings = power({"ups/type": "UPS", "ups/online": "0", "ups/status": "Discharging"})
    assert readings["on_ac_power"].value is False
    assert readings["ups_state"].value == "discharging"


def test_a_desktop_without_supplies_is_on_ac(power):
    readings = power()
    assert readings["on_ac_power"].value is True
    assert readings["battery_present"].value is False


def test_a_supply_without_type_is_ignored(power):
    assert power({"odd/online": "1"}, battery())["on_ac_power"].value is False


@pytest.mark.parametrize("others", [MAINS, UNPLUGGED])
def test_a_battery_that_vanishes_for_a_moment_is_not_gone(
    tree, clock, by_name, monkeypatch, others
):
    """Its controller is being reset, or the device has just woken: nobody took it out."""
    monkeypatch.setenv("DBUS_SYSTEM_BUS_ADDRESS", "unix:path=/nowhere/bus")
    files = {f"class/power_supply/{name}": value for name, value in {**others, **battery()}.items()}
    root = tree(files)
    sensor = LinuxPower(root, UPower(SystemBus()))
    assert by_name(sensor.read(clock.now()))["battery_present"].value is True
    shutil.rmtree(root / "class/power_supply/BAT0")

    missed = by_name(sensor.read(clock.advance(29)))
    assert missed["battery_present"].value is None
    assert missed["battery_present"].detail == "a battery was here a moment ago"
    # Mains that are online are seen; without the battery nothing says that they are not.
    assert missed["on_ac_power"].value is (True if others is MAINS else None)

    gone = by_name(sensor.read(clock.advance(1)))
    assert (gone["battery_present"].value, gone["on_ac_power"].value) == (False, True)


def test_without_the_folder_power_is_unknown(tree, clock, by_name, monkeypatch):
    monkeypatch.setenv("DBUS_SYSTEM_BUS_ADDRESS", "unix:path=/nowhere/bus")
    readings = by_name(LinuxPower(tree({}), UPower(SystemBus())).read(clock.now()))
    assert readings["on_ac_power"].value is None
    assert readings["on_ac_power"].detail == "the kernel lists no power supplies here"
    assert readings["battery_present"].value is None
    assert readings["ups_state"].value is None


@pytest.mark.parametrize(
    ("profile", "saving"), [("low-power", True), ("balanced", False), ("performance", False)]
)
def test_the_low_power_profile_is_a_battery_saver(power, tree, profile, saving):
    tree({"firmware/acpi/platform_profile": profile})
    assert power(MAINS)["battery_saver"].value is saving
