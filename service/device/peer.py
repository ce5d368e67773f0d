"""Which process of this device holds the other end of a TCP connection."""

from __future__ import annotations

Address = tuple[str, int]
"""IP address and port."""


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
