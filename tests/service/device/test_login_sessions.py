from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest

from service.device.login_sessions import REPORT_HOLDS_S, Session, SessionUserIdle, process_behind
from service.errors import NoSession

DAY_S = 86400.0
YEAR_S = 365 * DAY_S
ANNA, BERT = Session(2, "anna"), Session(3, "bert")


class Table:
    """Sessions as the test wants them; `asking` is the session of the process that reports."""

    def __init__(self) -> None:
        self.present = []
        self.asking = 0
        self.own = None
        self.fault = None

    def sessions(self):
        if self.fault:
            raise self.fault
        return self.present

    def session_of(self, pid):
        assert pid == os.getpid()
        if self.fault:
            raise self.fault
        return self.asking

    def idle_s(self, session_id):
        return self.own if session_id == self.asking else None

    def uptime_s(self):
        return DAY_S


@pytest.fixture
def table():
    return Table()


@pytest.fixture
def connection():
    """The two ends of a real connection of this process, named as a daemon sees them."""
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        socket.create_connection(listener.getsockname()) as client,
        listener.accept()[0] as accepted,
    ):
        yield {"peer": client.getsockname(), "own": accepted.getsockname()}


@pytest.fixture
def idle(table, by_name):
    sensor = SessionUserIdle(table)
    read = lambda now: by_name(sensor.read(now))  # noqa: E731
    read.sensor = sensor
    return read


@pytest.fixture
def report(idle, table, connection, clock):
    """The helper of a session reports: report(ANNA, idle_s)."""

    def send(session, idle_s):
        table.asking = session.id
        idle.sensor.hear(idle_s, clock.now(), **connection)

    return send


def test_a_device_where_nobody_is_logged_in_is_idle_since_it_started(idle, clock):
    readings = idle(clock.now())
    assert readings["user_idle_s"].value == DAY_S
    assert readings["last_input_s"].value is None
    assert readings["last_input_s"].detail == "no input was seen yet"


def test_a_report_counts_from_the_moment_it_was_heard(idle, table, report, clock):
    table.present = [ANNA]
    report(ANNA, 600)
    readings = idle(clock.advance(10))
    assert (readings["user_idle_s"].value, readings["last_input_s"].value) == (610, 610)


def test_the_device_is_as_idle_as_the_session_that_is_least_so(idle, table, report, clock):
    table.present = [ANNA, BERT]
    report(ANNA, 600)
    report(BERT, 20)
    assert idle(clock.now())["user_idle_s"].value == 20


def test_a_session_without_a_helper_is_unknown_and_named(idle, table, report, clock):
    table.present = [ANNA, BERT]
    report(ANNA, 600)
    readings = idle(clock.now())
    assert readings["user_idle_s"].value is None
    assert readings["user_idle_s"].detail == (
        "session 3 of bert does not report its input; run `honed watch-input` in it"
    )
    assert readings["last_input_s"].value == 600


def test_a_stale_report_makes_idle_unknown_and_the_next_one_known(idle, table, report, clock):
    table.present = [ANNA]
    report(ANNA, 600)
    assert idle(clock.advance(REPORT_HOLDS_S))["user_idle_s"].value == 600 + REPORT_HOLDS_S
    stale = idle(clock.advance(1))
    assert stale["user_idle_s"].value is None
    assert stale["last_input_s"].value == 601 + REPORT_HOLDS_S
    report(ANNA, 700)
    assert idle(clock.now())["user_idle_s"].value == pytest.approx(601 + REPORT_HOLDS_S)


@pytest.mark.parametrize("seconds", [YEAR_S, -YEAR_S])
def test_a_wall_clock_that_jumps_changes_nothing(idle, table, report, clock, seconds):
    table.present = [ANNA]
    report(ANNA, 5)
    clock.jump(seconds)
    assert idle(clock.advance(10))["user_idle_s"].value == 15


def test_a_session_that_is_gone_was_active_until_its_last_input(idle, table, report, clock):
    table.present = [ANNA]
    report(ANNA, 5)
    idle(clock.now())
    table.present = []
    assert idle(clock.advance(30))["user_idle_s"].value == 35


def test_a_session_that_comes_back_under_the_same_number_has_to_report(idle, table, report, clock):
    table.present = [ANNA]
    report(ANNA, 600)
    table.present = []
    idle(clock.advance(1))
    table.present = [Session(ANNA.id, "carl")]
    assert idle(clock.advance(1))["user_idle_s"].value is None


def test_nobody_lies_for_another_session(idle, table, report, clock):
    table.present = [ANNA, BERT]
    report(ANNA, 5)
    report(BERT, 1_000_000)
    assert idle(clock.now())["user_idle_s"].value == 5


def test_a_lie_takes_back_no_input_that_was_seen(idle, table, report, clock):
    table.present = [ANNA]
    report(ANNA, 5)
    idle(clock.now())
    report(ANNA, 1_000_000)
    assert idle(clock.advance(1))["user_idle_s"].value == 6


def test_a_lie_reaches_back_to_the_devices_start_at_most(idle, table, report, clock):
    table.present = [ANNA]
    report(ANNA, 4e9)
    assert idle(clock.now())["user_idle_s"].value == DAY_S


def test_the_daemons_own_session_needs_no_helper(idle, table, clock):
    table.present, table.asking, table.own = [ANNA], ANNA.id, 90.0
    assert idle(clock.now())["user_idle_s"].value == 90


def test_a_platform_that_does_not_answer_is_unknown(idle, table, clock):
    table.fault = OSError("the RPC server is unavailable")
    reading = idle(clock.now())["user_idle_s"]
    assert reading.value is None
    assert reading.detail == "the sessions cannot be asked (the RPC server is unavailable)"


def test_a_report_from_the_session_of_services_is_refused(report):
    with pytest.raises(NoSession, match="session 0 is that of services"):
        report(Session(0, ""), 5)


def test_a_process_that_may_not_be_looked_at_is_refused_with_the_remedy(report, table):
    table.fault = PermissionError("Access is denied")
    with pytest.raises(NoSession, match="run the daemon as LocalSystem"):
        report(ANNA, 5)


@pytest.mark.parametrize(
    "wrong",
    [
        {"peer": ("127.0.0.1", 1)},
        {"own": ("127.0.0.1", 1)},
        {"peer": ("192.0.2.7", 4000)},
    ],
)
def test_ends_that_no_process_holds_are_refused(idle, connection, clock, wrong):
    with pytest.raises(NoSession, match="no process of this device"):
        idle.sensor.hear(5, clock.now(), **{**connection, **wrong})


def test_the_process_behind_a_connection_is_the_one_that_made_it():
    program = "import socket, sys; s = socket.create_connection(('127.0.0.1', int(sys.argv[1])))"
    with socket.create_server(("127.0.0.1", 0)) as listener:
        command = [sys.executable, "-c", f"{program}; input()", str(listener.getsockname()[1])]
        with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
            accepted, peer = listener.accept()
            with accepted:
                own = accepted.getsockname()
                assert process_behind(peer, own) == process.pid
                assert process_behind(own, peer) == os.getpid()
                process.communicate(b"\n")
                assert process_behind(peer, own) is None
