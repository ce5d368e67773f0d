"""Idle time of the device. Without a signal it is unknown, never idle."""

from __future__ import annotations

from pathlib import Path

from service.device.linux import logind
from service.device.linux.bus import SystemBus
from service.device.linux.files import list_folder, read_attribute
from service.device.linux.logind import LogindSession
from service.device.reading import Moment, Reading
from storage.errors import in_words

TERMINALS = "terminals' access times"
UNSEEN = "no input was seen yet"


class ActivityLog:
    """Records when each source of input was last active, on the monotonic clock.

    Sources give wall-clock timestamps. A timestamp's age is computed once, when the source first
    appears; from then on only its changes count, so that a jump of the clock makes nobody idle.
    """

    def __init__(self) -> None:
        self._stamps: dict[str, float] = {}
        self.last_active_s: float | None = None

    def saw(self, source: str, stamp_s: float, now: Moment) -> None:
        """`source` says that it was last active at `stamp_s`, seconds since the epoch."""
        known = self._stamps.get(source)
        if known is None:
            self.was_active(now.monotonic_s - max(0.0, now.wall.timestamp() - stamp_s))
        elif known != stamp_s:
            self.was_active(now.monotonic_s)
        self._stamps[source] = stamp_s

    def began(self, source: str, now: Moment) -> None:
        """`source` shows that somebody left: active when it first appears, and never again."""
        if source not in self._stamps:
            self.was_active(now.monotonic_s)
            self._stamps[source] = 0.0

    def was_active(self, at_s: float) -> None:
        """Record that somebody was active then, on the monotonic clock."""
        known_s = self.last_active_s
        self.last_active_s = at_s if known_s is None else max(at_s, known_s)

    def forget_others(self, sources: set[str]) -> None:
        """Remove sources that have disappeared; their last activity still counts."""
        self._stamps = {name: at for name, at in self._stamps.items() if name in sources}

    def readings(
        self, now: Moment, *, booted_s: float, source: str, blind: str
    ) -> tuple[Reading, ...]:
        """user_idle_s and last_input_s.

        booted_s: on the monotonic clock; nobody was active before. blind: why somebody may be
        active unseen, or empty.
        """
        last_active_s = self.last_active_s
        since_s = booted_s if last_active_s is None else max(booted_s, last_active_s)
        idle_s = max(0.0, now.monotonic_s - since_s)
        seen = last_active_s is not None
        return (
            Reading("user_idle_s", None if blind else idle_s, "s", source, now, blind),
            Reading(
                "last_input_s", idle_s if seen else None, "s", source, now, "" if seen else UNSEEN
            ),
        )


class LinuxUserIdle:
    """Sessions of logind and the access times of terminals, which change with each key press.

    user_idle_s: seconds without input from anybody; unknown while a session gives no signal.
    last_input_s: seconds since the last detected input; the true idle time is not longer.
    """

    def __init__(self, *, procfs: Path, dev: Path, bus: SystemBus) -> None:
        self._uptime = str(procfs / "uptime")
        self._dev = str(dev)
        self._bus = bus
        self._log = ActivityLog()
        self._booted_s: float | None = None

    def read(self, now: Moment) -> tuple[Reading, ...]:
        """user_idle_s and last_input_s."""
        if self._booted_s is None:
            self._booted_s = now.monotonic_s - self._uptime_s()
        sources = self._read_terminals(now)
        blind = "; ".join(self._read_sessions(now, sources))
        self._log.forget_others(sources)
        source = f"{logind.SERVICE}, {TERMINALS}"
        return self._log.readings(now, booted_s=self._booted_s, source=source, blind=blind)

    def _read_sessions(self, now: Moment, sources: set[str]) -> list[str]:
        """Why sessions give no signal; empty if all do."""
        try:
            sessions = logind.sessions(self._bus, now)
        except OSError as error:
            return [f"logind cannot be asked ({in_words(error)})"]
        reasons = [self._read_session(session, now, sources) for session in sessions]
        return [reason for reason in reasons if reason]

    def _read_terminals(self, now: Moment) -> set[str]:
        consoles = [f"{self._dev}/{name}" for name in list_folder(self._dev) if _is_console(name)]
        pseudo = f"{self._dev}/pts"
        paths = consoles + [f"{pseudo}/{name}" for name in list_folder(pseudo) if name.isdigit()]
        return {path for path in paths if self._saw_terminal(path, now)}

    def _saw_terminal(self, path: str, now: Moment) -> bool:
        try:
            self._log.saw(path, Path(path).stat().st_atime, now)
        except OSError:
            return False
        return True

    def _read_session(self, session: LogindSession, now: Moment, sources: set[str]) -> str:
        """Record the session's last activity; returns why it gives no signal, or an empty text."""
        source = f"session {session.id}"
        if not session.is_graphical:
            return self._read_text_session(session, now, sources)
        if not session.is_active:
            return ""
        if session.is_locked:
            source = f"{source} locked"
            self._log.began(source, now)
        elif session.idle_hint_at_s <= 0:
            return f"the desktop of {session.title} does not say when it is idle"
        elif session.is_idle:
            self._log.saw(source, session.idle_hint_at_s, now)
        else:
            self._log.was_active(now.monotonic_s)
        sources.add(source)
        return ""

    def _read_text_session(self, session: LogindSession, now: Moment, sources: set[str]) -> str:
        path = f"{self._dev}/{session.tty}"
        if session.tty and (path in sources or self._saw_terminal(path, now)):
            sources.add(path)
            return ""
        if session.tty:
            return f"terminal {session.tty} of {session.title} cannot be read"
        return f"{session.title} has no terminal and no desktop to ask"

    def _uptime_s(self) -> float:
        text = read_attribute(self._uptime)
        return float(text.split()[0]) if text else 0.0


def _is_console(name: str) -> bool:
    return name.startswith("tty") and name[3:].isdigit() and name != "tty0"
