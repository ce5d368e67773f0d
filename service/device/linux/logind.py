"""Sessions of logind, over D-Bus."""

from __future__ import annotations

from msgspec import Struct

from service.device.linux.bus import SystemBus
from service.device.reading import Moment

SERVICE = "org.freedesktop.login1"
GRAPHICAL = frozenset({"x11", "wayland", "mir"})


class LogindSession(Struct, frozen=True):
    """A person's session.

    is_active: in the foreground of its seat; always for one without a seat, as over ssh.
    is_idle, idle_hint_at_s: the desktop's last hint and its time, seconds since the epoch; 0 if it
    never gave one, as with KDE. tty: `pts/3`, or empty.
    """

    id: str
    user: str
    is_graphical: bool
    is_active: bool
    is_idle: bool
    idle_hint_at_s: float
    is_locked: bool
    tty: str

    @property
    def title(self) -> str:
        """The session's name for people."""
        return f"session {self.id} of {self.user}"


def sessions(bus: SystemBus, now: Moment) -> list[LogindSession]:
    """Sessions in which a person may be working: not greeters, services or closing sessions.

    Raises OSError if logind does not answer.
    """
    (listed,) = bus.call(
        now,
        service=SERVICE,
        path="/org/freedesktop/login1",
        interface=f"{SERVICE}.Manager",
        method="ListSessions",
    )
    open_sessions = []
    for session_id, _, user, _, path in listed:
        properties = bus.properties(now, service=SERVICE, path=path, interface=f"{SERVICE}.Session")
        if not str(properties["Class"]).startswith("user") or properties["State"] == "closing":
            continue
        open_sessions.append(
            LogindSession(
                id=session_id,
                user=user,
                is_graphical=properties["Type"] in GRAPHICAL,
                is_active=properties["Active"],
                is_idle=properties["IdleHint"],
                idle_hint_at_s=properties["IdleSinceHint"] / 1e6,
                is_locked=properties.get("LockedHint", False),
                tty=properties["TTY"],
            )
        )
    return open_sessions
