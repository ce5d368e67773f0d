from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import psutil  # noqa: F401 - before a test pretends to be on another platform
import pytest

from service.device.sensors import Device

linux = pytest.mark.skipif(sys.platform != "linux", reason="reads Linux's /sys and /proc")
MAX_PASS_S = 0.010
NAMES = {
    "on_ac_power",
    "battery_present",
    "battery_percent",
    "battery_state",
    "battery_saver",
    "ups_state",
    "user_idle_s",
    "last_input_s",
    "foreign_cpu_percent",
    "cpu_pressure_percent",
    "memory_pressure_percent",
    "io_pressure_percent",
    "available_memory_bytes",
    "temperature_c",
    "free_disk_bytes",
    "running_processes",
    "local_time",
}


@pytest.fixture
def device(tmp_path, clock):
    device = Device(data_dir=tmp_path, now=clock.now())
    yield device
    device.close()


@pytest.mark.parametrize("platform", sorted({sys.platform, "darwin"}))
def test_every_platform_gives_the_same_signals(tmp_path, clock, monkeypatch, platform):
    monkeypatch.setattr(sys, "platform", platform)
    device = Device(data_dir=tmp_path, now=clock.now())
    assert set(device.read(clock.now()).readings) == NAMES
    device.close()


def test_what_is_unknown_says_why(device, clock):
    for reading in device.read(clock.now()).readings.values():
        assert reading.source
        assert reading.value is not None or reading.detail


def test_readings_tell_their_age_whatever_the_wall_clock_does(device, clock):
    reading = device.read(clock.now()).readings["free_disk_bytes"]
    clock.jump(-86400)
    assert reading.age_s(clock.advance(3)) == pytest.approx(3)


def test_a_costly_signal_is_kept_for_its_period(device, clock):
    first = device.read(clock.now()).readings["user_idle_s"]
    assert device.read(clock.advance(1)).readings["user_idle_s"] is first
    assert device.read(clock.advance(5)).readings["user_idle_s"] is not first


def test_power_is_read_every_time(device, clock):
    first = device.read(clock.now()).readings["on_ac_power"]
    assert device.read(clock.advance(0.1)).readings["on_ac_power"] is not first


def test_a_new_watch_list_counts_at_the_next_reading(device, clock):
    device.read(clock.now())
    device.watch((Path(sys.executable).resolve().name, "no such program"))
    found = device.read(clock.advance(0.1)).readings["running_processes"].value
    assert "no such program" not in found


@linux
def test_unplugging_an_injected_device_is_seen_at_once(tree, tmp_path, clock):
    supply = "class/power_supply"
    sysfs = tree({f"{supply}/AC/type": "Mains", f"{supply}/AC/online": "1"})
    tree({f"{supply}/BAT0/type": "Battery", f"{supply}/BAT0/status": "Charging"})
    device = Device(data_dir=tmp_path, now=clock.now(), sysfs=sysfs)
    assert device.read(clock.now()).readings["on_ac_power"].value is True
    tree({f"{supply}/AC/online": "0", f"{supply}/BAT0/status": "Discharging"})
    assert device.read(clock.advance(0.5)).readings["on_ac_power"].value is False
    device.close()


@linux
def test_a_pass_with_everything_due_costs_less_than_ten_milliseconds(device, clock):
    device.watch(("steam", "zoom"))
    device.read(clock.now())
    passes = 50
    began_s = time.process_time()
    for _ in range(passes):
        device.read(clock.advance(5))
    assert (time.process_time() - began_s) / passes <= MAX_PASS_S


@linux
def test_the_resting_daemon_pays_for_neither_psutil_nor_jeepney():
    script = "import sys, service.device, service.policy; print(sorted(sys.modules))"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "'service.device'" in ran.stdout
    assert "'psutil'" not in ran.stdout
    assert "'jeepney'" not in ran.stdout


def test_the_first_input_is_seen_at_once_where_it_matters(device, clock):
    first = device.read(clock.now()).readings["user_idle_s"]
    device.hurry(user_idle=True)
    assert device.read(clock.advance(0.5)).readings["user_idle_s"] is not first
