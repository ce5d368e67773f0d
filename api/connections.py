"""Limits on connections, so that idle ones cannot exhaust the daemon.

A connection waits until it has sent the complete headers of a request. It then works until its
answer is complete, and waits again. It is stalled while its client neither sends the rest of a body
nor receives the answer.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Collection, Iterable
from contextlib import suppress
from typing import Protocol

MAX_CONNECTIONS = 512
MAX_DESCRIPTORS = 65_536
"""More are never needed, and some programs that a hook may start close every possible one."""
MAX_WAIT_S = 10.0
"""How long a connection may wait; uvicorn ends one that is idle between requests after 5 s."""
MAX_STALL_S = 20.0
"""How long a client may stall a body or an answer."""
ACCEPTED_AT_ONCE = 32
"""asyncio accepts this many before it reports the first, so the limit is briefly exceeded."""
QUEUED_BY_SYSTEM = 1024
"""The backlog: how many connections the system queues until they are accepted."""


class Connection(Protocol):
    """What the limits need to know of a connection."""

    waiting_since: float | None

    @property
    def is_answering(self) -> bool:
        """Whether a complete request has arrived and its answer is still being sent."""

    @property
    def is_sending(self) -> bool:
        """Whether bytes for its client are still to be received."""

    def stalled_s(self, now: float) -> float:
        """How long its client has made no progress although it is its turn."""

    def abort(self) -> None:
        """Close it immediately; it is no longer one of the server's."""


def max_connections() -> int:
    """How many may be open: a quarter of the descriptors, since each may also hold a file open."""
    if sys.platform == "win32":
        return MAX_CONNECTIONS
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MAX_CONNECTIONS if soft == resource.RLIM_INFINITY else min(MAX_CONNECTIONS, soft // 4)


def make_room(connections: Collection[Connection]) -> None:
    """Close the connection that has waited longest if there are too many.

    One that is sending a body is closed only if none waits for headers; one that is being answered
    (an event stream, a long poll) is never closed.
    """
    if len(connections) <= max_connections():
        return
    waiting = [each for each in connections if each.waiting_since is not None]
    idle = waiting or [each for each in connections if not each.is_answering]
    if idle:
        min(idle, key=lambda each: each.waiting_since or 0.0).abort()


def close_overdue(connections: Iterable[Connection], *, now: float) -> None:
    """Close connections that have waited or stalled for too long."""
    for each in list(connections):
        since = each.waiting_since
        waits = since is not None and now - since > MAX_WAIT_S and not each.is_sending
        if each.stalled_s(now) > MAX_STALL_S or waits:
            each.abort()


def raise_descriptor_limit() -> None:
    """Allow this process as many open files as the system permits, up to MAX_DESCRIPTORS."""
    if sys.platform == "win32":
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    infinite = resource.RLIM_INFINITY
    wanted = MAX_DESCRIPTORS if hard == infinite else min(hard, MAX_DESCRIPTORS)
    if soft != infinite and soft < wanted:
        # macOS allows fewer than its hard limit, and raises ValueError beyond.
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def widen_queue(sockets: Iterable[socket.socket]) -> None:
    """Make the system queue more connections than are accepted at once."""
    for each in sockets:
        each.listen(QUEUED_BY_SYSTEM)
