"""How long nobody has used a device whose sessions hide their input from a service.

On Windows a process sees the input of its own session alone. So a helper in each session,
`honed watch-input`, reports the seconds since the last one. It reports over HTTP without a token,
because it runs as whoever is logged in. In return it says nothing of who it is: the kernel knows
which process holds the other end of the connection, and in which session that process lives.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Protocol

from service.device.linux.idle import ActivityLog
from service.device.reading import Moment, Reading
from service.errors import NoSession
from storage.errors import in_words

Address = tuple[str, int]
"""IP address and port."""
REPORT_HOLDS_S = 45.0
"""A report says nothing about what comes after it. The helper sends one every 15 s, or sooner."""
SERVICES = 0
"""The session of services, in which nobody sits."""
SOURCE = "honed watch-input"


@dataclass(frozen=True, slots=True)
class Session:
    """A person's session that takes input: one with a screen and a keyboard, local or remote."""

    id: int
    user: str

    @property
    def title(self) -> str:
        """How the session is called in front of people."""
        return f"session {self.id} of {self.user}"


class SessionTable(Protocol):
    """What the platform knows of sessions. Every method raises OSError where it does not."""

    def sessions(self) -> Sequence[Session]:
        """All that take input now. A person who is switched away or disconnected gives none."""

    def session_of(self, pid: int) -> int:
        """The session in which a process lives."""

    def idle_s(self, session_id: int) -> float | None:
        """Seconds since the last input of our own session; None for another."""

    def uptime_s(self) -> float:
        """Seconds since the device was started."""


@dataclass(frozen=True, slots=True)
class Report:
    """What a helper said. Both on the daemon's monotonic clock, so no clock can be set wrong."""

    heard_at_s: float
    last_input_s: float


class SessionUserIdle:
    """The sessions of a table, each by its helper's newest report.

    user_idle_s: seconds without input in any session; unknown while one that takes input has no
    report of the last 45 s. last_input_s: seconds since the last input that was reported.
    Whoever lies in a report lies about a session of his own.
    """

    def __init__(self, table: SessionTable) -> None:
        self._table = table
        self._log = ActivityLog()
        self._booted_s: float | None = None
        self._reports: dict[int, Report] = {}
        self._lock = Lock()

    def hear(self, idle_s: float, now: Moment, *, peer: Address, own: Address) -> None:
        """Take a report from the process at the other end of a connection; from any thread.

        idle_s: ≥ 0, at the moment `now`. Raises NoSession.
        """
        session_id = self._session_behind(peer, own)
        with self._lock:
            self._reports[session_id] = Report(now.monotonic_s, now.monotonic_s - idle_s)

    def read(self, now: Moment) -> tuple[Reading, ...]:
        """user_idle_s and last_input_s."""
        try:
            if self._booted_s is None:
                self._booted_s = now.monotonic_s - self._table.uptime_s()
            blind = "; ".join(self._read_sessions(now))
        except OSError as error:
            blind = f"the sessions cannot be asked ({in_words(error)})"
        booted_s = now.monotonic_s if self._booted_s is None else self._booted_s
        return self._log.readings(now, booted_s=booted_s, source=SOURCE, blind=blind)

    def _read_sessions(self, now: Moment) -> list[str]:
        """Why sessions give no sign; empty if all do. Raises OSError."""
        sessions = self._table.sessions()
        reports = self._reports_of({session.id for session in sessions})
        reasons = [self._read_session(each, reports.get(each.id), now) for each in sessions]
        return [reason for reason in reasons if reason]

    def _session_behind(self, peer: Address, own: Address) -> int:
        try:
            pid = process_behind(peer, own)
            session_id = None if pid is None else self._table.session_of(pid)
        except OSError as error:
            raise NoSession(
                f"the session of the process that reports cannot be told ({in_words(error)}); "
                "run the daemon as LocalSystem, or as the person who is logged in"
            ) from error
        if session_id is None:
            raise NoSession("no process of this device holds the connection; report from it")
        if session_id == SERVICES:
            raise NoSession("session 0 is that of services; report from a person's session")
        return session_id

    def _reports_of(self, session_ids: set[int]) -> dict[int, Report]:
        """The newest reports; those of sessions that are gone are forgotten."""
        with self._lock:
            self._reports = {
                id_: report for id_, report in self._reports.items() if id_ in session_ids
            }
            return dict(self._reports)

    def _read_session(self, session: Session, report: Report | None, now: Moment) -> str:
        """Note the session's last input; the answer says why it is not known, or is empty."""
        own_idle_s = self._table.idle_s(session.id)
        if own_idle_s is not None:
            self._log.was_active(now.monotonic_s - own_idle_s)
            return ""
        if report is None or now.monotonic_s - report.heard_at_s > REPORT_HOLDS_S:
            return f"{session.title} does not report its input; run `{SOURCE}` in it"
        self._log.was_active(report.last_input_s)
        return ""


def process_behind(peer: Address, own: Address) -> int | None:
    """The process that connected from `peer` to `own`; None if it is not of this device.

    The kernel's table of sockets says so, which no process can write. Raises OSError.
    """
    if peer[0] != own[0]:
        return None  # A device that calls itself calls from the address that it calls.
    import psutil

    try:
        table = psutil.net_connections(kind="tcp")
    except psutil.Error as error:
        raise OSError(str(error)) from error
    owners = [entry.pid for entry in table if (entry.laddr, entry.raddr) == (peer, own)]
    pid: int | None = next(filter(None, owners), None)
    return pid
