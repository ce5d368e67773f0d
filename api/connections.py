"""Limits on connections, so that idle ones cannot exhaust the daemon.

A connection waits until it has sent the complete headers of a request. It then works until its
answer is complete, and waits again. It is stalled while its client neither sends the rest of a body
nor receives the answer. Where there are too many, the holder of the most loses the oldest, so that
nobody's streams, however many, keep others out. `api.protocol` closes them.
"""

from __future__ import annotations

import sys
from contextlib import suppress

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


def max_connections() -> int:
    """How many may be open: a quarter of the descriptors, since each may also hold a file open."""
    if sys.platform == "win32":
        return MAX_CONNECTIONS
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MAX_CONNECTIONS if soft == resource.RLIM_INFINITY else min(MAX_CONNECTIONS, soft // 4)


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
