"""Limits on connections, so that idle ones cannot exhaust the daemon.

A connection waits until it has sent the complete headers of a request. It then works until its
answer is complete, and waits again. It is stalled while its client neither sends the rest of a body
nor receives the answer. Where there are too many, the holder of the most loses the oldest, so that
nobody's streams, however many, keep others out.
"""

from __future__ import annotations

import socket
import sys
from collections import Counter
from collections.abc import Collection, Iterable
from contextlib import suppress
from typing import Protocol

MAX_CONNECTIONS = 512
RESERVED = 32
"""So many connections of the administrators, and at most half of all, are only closed for others of
theirs."""
MAX_DESCRIPTORS = 65_536
"""More are never needed, and some programs that a hook may start close every possible one."""
MAX_WAIT_S = 10.0
"""How long a connection may wait."""
KEEP_ALIVE_S = 8
"""How long one may be idle between requests: less than MAX_WAIT_S, and more than the 5 s for which
httpx keeps connections, or a request would meet the end of its connection."""
MAX_STALL_S = 20.0
"""How long a client may stall a body or an answer."""
ACCEPTED_AT_ONCE = 32
"""asyncio accepts this many before it reports the first, so the limit is briefly exceeded."""
QUEUED_BY_SYSTEM = 1024
"""The backlog: how many connections the system queues until they are accepted."""


class Connection(Protocol):
    """What the limits need to know of a connection."""

    waiting_since: float | None
    since: float

    @property
    def holder(self) -> str:
        """Who occupies it: whose request it answers; before that, what the kernel tells."""

    @property
    def is_reserved(self) -> bool:
        """Whether its holder may end what others do, and must always get in."""

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
    """If there are too many, close the oldest of the holder who has the most.

    The oldest is the one that has waited or been answered for the longest time.
    """
    if len(connections) <= (most := max_connections()):
        return
    counts = Counter(connection.holder for connection in connections)
    reserved = min(RESERVED, most // 2)
    counts.subtract({each.holder: reserved for each in connections if each.is_reserved})
    greediest, _ = counts.most_common(1)[0]
    min((each for each in connections if each.holder == greediest), key=_since).abort()


def _since(connection: Connection) -> float:
    return connection.since


def close_overdue(connections: Iterable[Connection], *, now: float) -> None:
    """Close connections that have waited or stalled for too long."""
    for connection in list(connections):
        since = connection.waiting_since
        waits = since is not None and now - since > MAX_WAIT_S and not connection.is_sending
        if connection.stalled_s(now) > MAX_STALL_S or waits:
            connection.abort()


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
    for listener in sockets:
        listener.listen(QUEUED_BY_SYSTEM)
