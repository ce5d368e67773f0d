"""Which user's program listens on a port of this machine.

While the daemon is down, any user may listen in its place and would be handed the token.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path

ROOT = 0
LISTENS = "0A"
"""State of a socket, as in the kernel's include/net/tcp_states.h."""

Address = IPv4Address | IPv6Address


def strangers(host: str, port: int, *, data_dir: Path, procfs_root: Path) -> set[int]:
    """Users whose programs listen there, but for this one, root and the data folder's owner.

    Empty where the system does not tell (it does on Linux), and where nobody listens.
    """
    trusted = {ROOT, *_owner(data_dir)}
    if hasattr(os, "geteuid"):
        trusted.add(os.geteuid())
    reached = _resolved(host)
    return {
        uid
        for address, listening, uid in _listeners(procfs_root)
        if listening == port and (address.is_unspecified or address in reached)
    } - trusted


def _resolved(host: str) -> set[Address]:
    """Every address that a client may try."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return set()
    return {_plain(ip_address(str(sockaddr[0]).partition("%")[0])) for *_, sockaddr in found}


def _owner(folder: Path) -> set[int]:
    try:
        return {folder.stat().st_uid}
    except OSError:
        return set()


def _listeners(procfs_root: Path) -> Iterator[tuple[Address, int, int]]:
    """Address, port and user of every socket that listens (proc(5))."""
    for name in ("tcp", "tcp6"):
        try:
            lines = (procfs_root / "net" / name).read_text("ascii").splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            if fields[3] == LISTENS:
                address, _, port = fields[1].partition(":")
                yield _address(address), int(port, 16), int(fields[7])


def _address(text: str) -> Address:
    """An address in the kernel's form: hexadecimal words of four bytes, in the machine's order."""
    words = [bytes.fromhex(text[at : at + 8])[::-1] for at in range(0, len(text), 8)]
    return _plain(ip_address(b"".join(words)))


def _plain(address: Address) -> Address:
    """An IPv4 address that is written as an IPv6 one, as itself."""
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address
