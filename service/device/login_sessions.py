"""Idle time of a device whose sessions hide their input from a service.

On Windows a process sees only its own session's input. So a helper in each session, `honed
watch-input`, reports the seconds since the last input. It reports over HTTP without a token,
because it runs as the logged-in user. It does not identify itself: the kernel knows which process
holds the other end of the connection, and that process's session.
"""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from typing import Protocol

from msgspec import Struct

from service.device.linux.idle import ActivityLog
from service.device.reading import Moment, Reading
from service.errors import NoSession
from storage.errors import in_words

Address = tuple[str, int]
"""IP address and port."""
REPORT_HOLDS_S = 45.0
"""How long a report is valid. The helper sends one every 15 s, or sooner."""
SERVICES = 0
"""The session of services, which has no user."""
SOURCE = "honed watch-input"


class Session(Struct, frozen=True):
    """A person's session that accepts input: one with a screen and a keyboard, local or remote."""

    id: int
    user: str

    @property
    def title(self) -> str:
        """The session's name for people."""
        return f"session {self.id} of {self.user}"


class SessionTable(Protocol):
    """The platform's table of sessions. Every method raises OSError if the platform cannot tell."""

    def sessions(self) -> Sequence[Session]:
        """All that accept input now; not switched-away or disconnected sessions."""

    def session_of(self, pid: int) -> int:
        """The session of a process."""

    def idle_s(self, session_id: int) -> float | None:
        """Seconds since the last input of our own session; None for another."""

    def uptime_s(self) -> float:
        """Seconds since the device was started."""


class Report(Struct, frozen=True):
    """A helper's report. Both times are on the daemon's monotonic clock, which nobody can set."""

    heard_at_s: float
    last_input_s: float


class SessionUserIdle:
    """The sessions of a table, each with its helper's newest report.

    user_idle_s: seconds without input in any session; unknown while one that accepts input has no
    report from the last 45 s. last_input_s: seconds since the last reported input. A false report
    affects only the sender's own session.
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
        """Why sessions give no signal; empty if all do. Raises OSError."""
        sessions = self._table.sessions()
        reports = self._reports_of({session.id for session in sessions})
        reasons = [self._read_session(login, reports.get(login.id), now) for login in sessions]
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
        """The newest reports; those of ended sessions are dropped."""
        with self._lock:
            self._reports = {
                id_: report for id_, report in self._reports.items() if id_ in session_ids
            }
            return dict(self._reports)

    def _read_session(self, session: Session, report: Report | None, now: Moment) -> str:
        """Record the session's last input; returns why it is unknown, or an empty string."""
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

    From the kernel's table of sockets, which no process can write. Raises OSError.
    """
    if peer[0] != own[0]:
        return None  # A connection within the device comes from the address that it goes to.
    import psutil

    try:
        table = psutil.net_connections(kind="tcp")
    except psutil.Error as error:
        raise OSError(str(error)) from error
    owners = [entry.pid for entry in table if (entry.laddr, entry.raddr) == (peer, own)]
    pid: int | None = next(filter(None, owners), None)
    return pid
