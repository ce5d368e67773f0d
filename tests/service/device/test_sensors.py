from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path

import psutil
import pytest
from support import wait_until

from service.device.linux.cpu import LinuxForeignCpu
from service.device.linux.pressure import LinuxPressure
from service.device.linux.processes import LinuxProcesses
from service.device.linux.temperature import LinuxTemperature
from service.device.memory import LinuxMemory
from service.device.portable import FreeDisk, LocalTime
from service.device.psutil_sensors import PsutilMemory, PsutilProcesses
from service.device.reading import Moment

linux = pytest.mark.skipif(sys.platform != "linux", reason="Linux's /proc and /sys")
ZONE, CHIP = "class/thermal/thermal_zone0", "class/hwmon/hwmon0"


def psi(avg10):
    return (
        f"some avg10={avg10} avg60=0.53 avg300=0.18 total=3589590\n"
        "full avg10=99.00 avg60=0.00 avg300=0.00 total=0"
    )


@linux
def test_pressure_is_the_some_line_of_each_resource(tree, clock, by_name):
    root = tree(
        {
            "pressure/cpu": psi("1.34"),
            "pressure/memory": psi("0.00"),
            "pressure/io": psi("12.50"),
        },
        root="proc",
    )
    readings = by_name(LinuxPressure(root).read(clock.now()))
    assert readings["cpu_pressure_percent"].value == 1.34
    assert readings["memory_pressure_percent"].value == 0
    assert readings["io_pressure_percent"].value == 12.5
    assert readings["io_pressure_percent"].source == str(root / "pressure" / "io")


@pytest.mark.parametrize("content", ["", "1 2 3 4", "cpu  many", "some avg10=x", "MemAvailable: x"])
def test_what_the_kernel_would_not_write_is_unknown_and_says_so(tree, clock, content):
    files = {"meminfo": content, "stat": content, "pressure/cpu": content, "self/stat": content}
    root = tree(files, root="proc")
    pressure, *_ = LinuxPressure(root).read(clock.now())
    sensor = LinuxForeignCpu(root, clock.now())
    found = (pressure, *LinuxMemory(root, root).read(clock.now()), *sensor.read(clock.now()))
    assert [reading.value for reading in found] == [None, None, None]
    assert all(reading.detail for reading in found)


def test_a_kernel_without_pressure_is_unknown_with_a_remedy(tmp_path, clock):
    for reading in LinuxPressure(tmp_path).read(clock.now()):
        assert reading.value is None
        assert "psi=1 may switch it on" in reading.detail


def test_memory_is_mem_available_in_bytes(tree, clock):
    root = tree({"meminfo": "MemTotal: 999 kB\nMemFree: 1 kB\nMemAvailable: 2048 kB"}, root="proc")
    (reading,) = LinuxMemory(root, root).read(clock.now())
    assert (reading.value, reading.unit) == (2 * 2**20, "B")


def test_memory_without_mem_available_is_unknown(tree, clock):
    root = tree({"meminfo": "MemFree: 1 kB"}, root="proc")
    (reading,) = LinuxMemory(root, root).read(clock.now())
    assert reading.value is None
    assert reading.detail == "the kernel tells no MemAvailable"


def test_psutil_tells_memory_elsewhere(clock):
    (reading,) = PsutilMemory().read(clock.now())
    assert reading.value > 0


@linux
def test_the_hottest_sensor_counts_and_is_named(tree, clock):
    root = tree(
        {
            f"{ZONE}/temp": "48000",
            f"{CHIP}/name": "coretemp",
            f"{CHIP}/temp1_input": "61500",
            f"{CHIP}/temp2_input": "55000",
        }
    )
    (reading,) = LinuxTemperature(root).read(clock.now())
    assert (reading.value, reading.unit) == (61.5, "°C")
    assert reading.source == str(root / CHIP / "temp1_input")


@pytest.mark.parametrize("nonsense", ["-273200", "0", "255000", "127500000", "", "hot"])
def test_nonsense_is_ignored(tree, clock, nonsense):
    root = tree({f"{ZONE}/temp": "48000", "class/thermal/thermal_zone1/temp": nonsense})
    assert LinuxTemperature(root).read(clock.now())[0].value == 48


@pytest.mark.parametrize(
    "extra",
    [
        {"temp2_fault": "1"},
        {"temp2_label": "AUXTIN0"},
        {"name": "drivetemp"},
    ],
)
def test_broken_and_unconnected_sensors_are_ignored(tree, clock, extra):
    chip = {"name": "nct6775", "temp2_input": "118000", **extra}
    root = tree({f"{ZONE}/temp": "48000", **{f"{CHIP}/{key}": chip[key] for key in chip}})
    assert LinuxTemperature(root).read(clock.now())[0].value == 48


def test_a_cooling_device_is_no_sensor(tree, clock):
    root = tree({"class/thermal/cooling_device0/temp": "90000"})
    (reading,) = LinuxTemperature(root).read(clock.now())
    assert reading.value is None
    assert reading.detail == "no temperature sensor"


def test_free_disk_is_that_of_the_data_folder(tmp_path, clock):
    (reading,) = FreeDisk(tmp_path).read(clock.now())
    free = shutil.disk_usage(tmp_path).free
    assert reading.value == pytest.approx(free, abs=256 * 2**20)
    assert reading.source == str(tmp_path)


def test_a_data_folder_that_is_gone_is_unknown(tmp_path, clock):
    (reading,) = FreeDisk(tmp_path / "gone").read(clock.now())
    assert reading.value is None
    assert "gone" in reading.detail


@linux
def test_watched_processes_are_found_by_name(tree, clock):
    files = {"1/comm": "systemd", "20/comm": "steam", "21/comm": "game with space"}
    sensor = LinuxProcesses(tree(files, root="proc"))
    sensor.watched = ("zoom", "game with spaces", "steam")
    (reading,) = sensor.read(clock.now())
    assert reading.value == ("game with spaces", "steam")


@linux
def test_without_a_watch_list_nothing_is_looked_at(tmp_path, clock):
    (reading,) = LinuxProcesses(tmp_path / "gone").read(clock.now())
    assert reading.value == ()


@linux
def test_processes_are_unknown_where_none_are_listed(tmp_path, clock):
    sensor = LinuxProcesses(tmp_path)
    sensor.watched = ("steam",)
    assert sensor.read(clock.now())[0].value is None


@linux
@pytest.mark.parametrize("kind", ["proc", "psutil"])
def test_a_real_program_is_found_while_it_runs(tmp_path, kind):
    program = tmp_path / "hone-watched-program"
    shutil.copy(shutil.which("sleep"), program)
    sensor = LinuxProcesses(Path("/proc")) if kind == "proc" else PsutilProcesses()
    sensor.watched = (program.name,)
    process = start_a_stranger(program)
    wait_until(
        lambda: sensor.read(Moment.now())[0].value == (program.name,), "the program to be found"
    )
    process.kill()
    process.wait()
    assert sensor.read(Moment.now())[0].value == ()


@linux
@pytest.mark.parametrize("kind", ["proc", "psutil"])
def test_a_program_of_our_own_is_never_meant(tmp_path, kind):
    """The training child is a `python3`, which a person may have named."""
    program = tmp_path / "hone-own-program"
    shutil.copy(shutil.which("sleep"), program)
    sensor = LinuxProcesses(Path("/proc")) if kind == "proc" else PsutilProcesses()
    sensor.watched = (program.name,)
    command = [shutil.which("sh"), "-c", f"{program} 60 & {program} 61"]
    with subprocess.Popen(command) as shell:
        grandchildren = psutil.Process(shell.pid).children
        wait_until(
            lambda: [each.name() for each in grandchildren()] == [program.name] * 2,
            "both to run",
        )
        assert sensor.read(Moment.now())[0].value == ()
        stranger = start_a_stranger(program)
        wait_until(
            lambda: sensor.read(Moment.now())[0].value == (program.name,), "a stranger's to count"
        )
        for process in (stranger, *grandchildren()):
            process.kill()


def start_a_stranger(program):
    """Its parent has ended, so it is no descendant of ours."""
    started = subprocess.run(
        ["sh", "-c", f"{program} 60 >/dev/null 2>&1 & echo $!"],
        capture_output=True,
        text=True,
        check=True,
    )
    return psutil.Process(int(started.stdout))


@pytest.fixture
def zone(monkeypatch):
    """Move the device to another time zone."""
    if not hasattr(time, "tzset"):
        pytest.skip("this platform has no tzset")
    if not Path("/usr/share/zoneinfo/Europe/Berlin").exists():
        pytest.skip("the system has no time zones: apt-get install tzdata")
    yield lambda name: monkeypatch.setenv("TZ", name)
    monkeypatch.undo()
    time.tzset()


def local(utc):
    (reading,) = LocalTime().read(Moment(utc, 0.0))
    return reading


def test_local_time_knows_daylight_saving(zone):
    zone("Europe/Berlin")
    before = datetime(2026, 3, 29, 0, 59, tzinfo=timezone.utc)
    assert local(before).value.strftime("%H:%M %z") == "01:59 +0100"
    after = local(before + timedelta(minutes=1))
    assert after.value.strftime("%H:%M %z") == "03:00 +0200"
    assert after.source == "TZ=Europe/Berlin"


def test_a_changed_time_zone_is_seen_at_the_next_reading(zone):
    noon = datetime(2026, 1, 1, 12, 0, tzinfo=timezone.utc)
    zone("Europe/Berlin")
    assert local(noon).value.hour == 13
    zone("Asia/Tokyo")
    assert local(noon).value.hour == 21
    assert local(noon).value == noon


@linux
@pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0 or shutil.which("unshare") is None,
    reason="changing /etc/localtime for one process needs root and unshare",
)
def test_a_changed_zone_file_is_seen_by_a_running_process(tmp_path):
    script = """
import subprocess, sys
from datetime import datetime, timezone
from service.device.portable import FreeDisk, LocalTime
from service.device.reading import Moment
noon = Moment(datetime(2026, 1, 1, 12, 0, tzinfo=timezone.utc), 0.0)
for zone in ("Europe/Berlin", "Asia/Tokyo"):
    path = "/usr/share/zoneinfo/" + zone
    subprocess.run(["mount", "--bind", path, "/etc/localtime"], check=True)
    print(LocalTime().read(noon)[0].value.hour)
"""
    environment = {name: value for name, value in os.environ.items() if name != "TZ"}
    ran = subprocess.run(
        ["unshare", "--mount", sys.executable, "-c", script],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if "mount" in ran.stderr or "unshare" in ran.stderr:
        pytest.skip(f"mounting is not allowed here: {ran.stderr.splitlines()[-1]}")
    assert ran.stdout.split() == ["13", "21"], ran.stderr
