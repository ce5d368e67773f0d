from __future__ import annotations

import os
import sys
import time

import pytest

from service.device.linux.bus import SystemBus
from service.device.linux.idle import ActivityLog, LinuxUserIdle
from service.device.reading import Moment

linux = pytest.mark.skipif(sys.platform != "linux", reason="terminals as Linux has them")
SERVICE = "org.freedesktop.login1"
SESSION = f"{SERVICE}.Session"
MINUTE_S = 60
HOUR_S = 3600


@pytest.fixture
def terminal(tmp_path, clock):
    """Press a key on a terminal so many seconds ago: terminal("pts/0", ago_s)."""

    def press(name, ago_s=0.0, *, at=None):
        path = tmp_path / "dev" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        stamp = (at or clock.now()).wall.timestamp() - ago_s
        os.utime(path, (stamp, stamp))

    return press


@pytest.fixture
def idle(tmp_path, tree, by_name, monkeypatch):
    """A sensor on a machine that has been up for a day."""
    if "DBUS_SYSTEM_BUS_ADDRESS" not in os.environ:
        monkeypatch.setenv("DBUS_SYSTEM_BUS_ADDRESS", "unix:path=/nowhere/bus")
    (tmp_path / "dev").mkdir(exist_ok=True)
    procfs = tree({"uptime": "86400.00 1.00"}, root="proc")
    bus = SystemBus()
    sensor = LinuxUserIdle(procfs=procfs, dev=tmp_path / "dev", bus=bus)
    yield lambda now: by_name(sensor.read(now))
    bus.close()


@pytest.fixture
def logind(mock):
    return mock("logind", SERVICE, "/org/freedesktop/login1")


def add_session(logind, name="7", **properties):
    """A session of anna; properties as D-Bus has them: Type=("s", "wayland")."""
    (path,) = logind.call("AddSession", "ssusb", name, "seat0", 1000, "anna", True)
    logind.set(path, SESSION, **{"Type": ("s", "wayland"), **properties})
    return path


def hinted(idle, at_s):
    return {"IdleHint": ("b", idle), "IdleSinceHint": ("t", int(at_s * 1e6))}


def test_a_stamps_age_counts_once_and_then_only_its_changes(clock):
    log = ActivityLog()
    log.saw("tty", clock.wall.timestamp() - 30, clock.now())
    assert log.last_active_s == pytest.approx(clock.monotonic_s - 30)
    clock.jump(365 * 24 * HOUR_S)
    log.saw("tty", clock.wall.timestamp() - 365 * 24 * HOUR_S - 30, clock.now())
    assert log.last_active_s == pytest.approx(clock.monotonic_s - 30)
    clock.advance(10)
    log.saw("tty", clock.wall.timestamp(), clock.now())
    assert log.last_active_s == clock.monotonic_s


def test_a_stamp_of_the_future_is_activity_now(clock):
    log = ActivityLog()
    log.saw("tty", clock.wall.timestamp() + HOUR_S, clock.now())
    assert log.last_active_s == clock.monotonic_s


@linux
def test_without_logind_idle_is_unknown_but_a_key_is_seen(idle, terminal, clock):
    terminal("pts/0", 90)
    terminal("pts/1", HOUR_S)
    terminal("tty1", HOUR_S)
    terminal("ttyS0", 1)
    readings = idle(clock.now())
    assert readings["user_idle_s"].value is None
    assert "logind cannot be asked" in readings["user_idle_s"].detail
    assert readings["last_input_s"].value == pytest.approx(90, abs=1)


@linux
def test_without_any_terminal_no_input_was_seen(idle, clock):
    readings = idle(clock.now())
    assert readings["last_input_s"].value is None
    assert readings["last_input_s"].detail == "no input was seen yet"


@pytest.mark.needs_dbusmock
def test_a_device_where_nobody_is_logged_in_is_idle_since_it_started(logind, idle, clock):
    assert idle(clock.now())["user_idle_s"].value == pytest.approx(86400)


@pytest.mark.needs_dbusmock
def test_a_desktop_that_says_idle_is_idle_since_then(logind, idle, clock):
    add_session(logind, **hinted(True, clock.wall.timestamp() - 10 * MINUTE_S))
    readings = idle(clock.now())
    assert readings["user_idle_s"].value == pytest.approx(10 * MINUTE_S, abs=1)
    assert readings["user_idle_s"].unit == "s"


@pytest.mark.needs_dbusmock
def test_a_desktop_that_takes_its_hint_back_is_in_use(logind, idle, clock):
    path = add_session(logind, **hinted(True, clock.wall.timestamp() - 10 * MINUTE_S))
    idle(clock.now())
    clock.advance(5)
    logind.set(path, SESSION, **hinted(False, clock.wall.timestamp()))
    assert idle(clock.now())["user_idle_s"].value == 0


@pytest.mark.needs_dbusmock
def test_a_desktop_that_never_gave_a_hint_is_unknown_and_not_idle(logind, idle, clock):
    add_session(logind, **hinted(False, 0))
    reading = idle(clock.now())["user_idle_s"]
    assert reading.value is None
    assert reading.detail == "the desktop of session 7 of anna does not say when it is idle"


@pytest.mark.needs_dbusmock
def test_a_locked_desktop_without_hints_is_idle_since_it_was_seen_locked(logind, idle, clock):
    add_session(logind, LockedHint=("b", True), **hinted(False, 0))
    assert idle(clock.now())["user_idle_s"].value == 0
    assert idle(clock.advance(300))["user_idle_s"].value == pytest.approx(300)


@pytest.mark.needs_dbusmock
def test_a_session_in_the_background_takes_no_input(logind, idle, clock):
    add_session(logind, Active=("b", False), **hinted(False, 0))
    assert idle(clock.now())["user_idle_s"].value == pytest.approx(86400)


@pytest.mark.needs_dbusmock
def test_greeters_and_closing_sessions_are_nobody(logind, idle, clock):
    add_session(logind, "c1", Class=("s", "greeter"), **hinted(False, 0))
    add_session(logind, "9", State=("s", "closing"), **hinted(False, 0))
    assert idle(clock.now())["user_idle_s"].value == pytest.approx(86400)


@pytest.mark.needs_dbusmock
def test_an_ssh_session_is_as_idle_as_its_terminal(logind, idle, terminal, clock):
    terminal("pts/3", 120)
    add_session(logind, Type=("s", "tty"), TTY=("s", "pts/3"), Remote=("b", True))
    assert idle(clock.now())["user_idle_s"].value == pytest.approx(120, abs=1)
    terminal("pts/3", at=clock.advance(60))
    assert idle(clock.now())["user_idle_s"].value == 0


@pytest.mark.needs_dbusmock
def test_an_ssh_session_without_a_terminal_is_unknown(logind, idle, clock):
    add_session(logind, Type=("s", "tty"), TTY=("s", ""), Remote=("b", True))
    reading = idle(clock.now())["user_idle_s"]
    assert reading.value is None
    assert "has no terminal and no desktop to ask" in reading.detail


@pytest.mark.needs_dbusmock
def test_somebody_who_logs_out_was_active_until_then(logind, idle, terminal, clock):
    terminal("pts/3", 0)
    path = add_session(logind, Type=("s", "tty"), TTY=("s", "pts/3"))
    idle(clock.now())
    logind.call("RemoveObject", "s", path)
    assert idle(clock.advance(30))["user_idle_s"].value == pytest.approx(30)


@pytest.mark.needs_dbusmock
def test_a_clock_that_jumps_a_year_makes_nobody_idle(logind, idle, terminal, clock):
    terminal("pts/3", 5)
    add_session(logind, Type=("s", "tty"), TTY=("s", "pts/3"))
    idle(clock.now())
    clock.jump(365 * 24 * HOUR_S)
    assert idle(clock.advance(5))["user_idle_s"].value == pytest.approx(10, abs=1)


@pytest.mark.needs_dbusmock
def test_a_logind_that_hangs_costs_half_a_second_and_then_nothing(logind, idle, clock):
    idle(clock.now())
    logind.stop()
    began_s = time.monotonic()
    assert idle(clock.advance(5))["user_idle_s"].value is None
    assert 0.4 < time.monotonic() - began_s < 2.0
    began_s = time.monotonic()
    for _ in range(5):
        assert idle(clock.advance(5))["user_idle_s"].value is None
    assert time.monotonic() - began_s < 0.3


@pytest.mark.needs_dbusmock
def test_a_bus_that_comes_back_is_used_again(private_bus, mock, by_name, clock, idle):
    assert idle(clock.now())["user_idle_s"].value is None
    mock("logind", SERVICE, "/org/freedesktop/login1")
    assert idle(clock.advance(31))["user_idle_s"].value is not None


def test_a_bus_that_is_not_there_is_an_oserror(monkeypatch):
    monkeypatch.setenv("DBUS_SYSTEM_BUS_ADDRESS", "unix:path=/nowhere/bus")
    with pytest.raises(OSError, match=r"^D-Bus system bus: No such file or directory$"):
        SystemBus().properties(Moment.now(), service=SERVICE, path="/", interface=SESSION)


@linux
@pytest.mark.parametrize("address", ["tcp:host=localhost,port=1", "nonsense"])
def test_a_bus_address_that_cannot_be_used_is_an_oserror(monkeypatch, address):
    monkeypatch.setenv("DBUS_SYSTEM_BUS_ADDRESS", address)
    with pytest.raises(OSError, match="D-Bus system bus"):
        SystemBus().properties(Moment.now(), service=SERVICE, path="/", interface=SESSION)


@pytest.mark.needs_dbusmock
def test_four_sessions_cost_five_messages_on_the_connection_that_is_open(
    logind, idle, clock, monkeypatch
):
    for name in ("1", "2", "3", "4"):
        add_session(logind, name, **hinted(True, clock.wall.timestamp() - 60))
    idle(clock.now())
    from jeepney import HeaderFields  # late: only Linux has it
    from jeepney.io.blocking import DBusConnection

    sent = []
    send = DBusConnection.send_and_get_reply

    def counted(connection, message, **options):
        sent.append(message.header.fields[HeaderFields.member])
        return send(connection, message, **options)

    monkeypatch.setattr(DBusConnection, "send_and_get_reply", counted)
    idle(clock.advance(5))
    assert sent == ["ListSessions", *["GetAll"] * 4]
