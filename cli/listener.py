"""Finds which user's program listens on a port or Unix socket of this machine.

While the daemon is down, any user may listen in its place, and would receive token and samples.
"""

from __future__ import annotations

import os
import socket
import stat
import sys
from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path

from cli.errors import Failure
from service.access.peers import peer_uid
from service.settings import Settings, socket_path

ROOT = 0
LISTENS = "0A"
"""State of a socket, as in the kernel's include/net/tcp_states.h."""

SOCKET_OF_SERVICE = Path("/run/honed/api.sock")
"""Socket of the daemon as a service, as in systemd/honed.socket."""
CONNECT_TIMEOUT_S = 5.0

Address = IPv4Address | IPv6Address


def strangers(host: str, port: int, settings: Settings) -> set[int]:
    """Users whose programs listen there, except this one, root and the data folder's owner.

    Empty if the system does not report them (Linux does), or if nobody listens.
    """
    trusted = {ROOT, *_owner(settings.data_dir)}
    if hasattr(os, "geteuid"):
        trusted.add(os.geteuid())
    reached = _resolved(host)
    return {
        uid
        for address, listening, uid in _listeners(settings.procfs_root)
        if listening == port and (address.is_unspecified or address in reached)
    } - trusted


def living_socket(settings: Settings) -> Path | None:
    """The Unix socket on which this machine's daemon listens; None if there is none.

    A user without a data folder uses the daemon that runs as a service. Raises Failure unless the
    listener's user is this user, root, or the owner of folder and socket.
    """
    if sys.platform != "linux":
        return None
    paths = [socket_path(settings)]
    # Path.exists raises if a folder may not be searched.
    if settings.socket is None and not os.path.exists(settings.data_dir):  # noqa: PTH110
        paths.append(SOCKET_OF_SERVICE)
    for path in paths:
        uid = _listening_user(path)
        if uid is None:
            continue
        if uid not in {ROOT, os.geteuid(), *_owners(path)}:
            raise Failure(
                f"a program of another user (uid {uid}) listens on {path}; nothing was sent\n"
                "Stop that program and start the daemon, or give --url if it is the right one"
            )
        return path
    return None


def _owners(path: Path) -> set[int]:
    """Owner of the folder, and of the socket if nobody else could have created it."""
    owners = _owner(path.parent)
    try:
        is_open = bool(path.parent.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH))
    except OSError:
        return owners
    return owners if is_open else owners | _owner(path)


def _listening_user(path: Path) -> int | None:
    """User whose program listens on a Unix socket; None if nobody does, or access is denied."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(CONNECT_TIMEOUT_S)
        try:
            probe.connect(str(path))
            return peer_uid(probe)
        except OSError:
            return None


def _resolved(host: str) -> set[Address]:
    """Every address that a client may try."""
    try:
        addresses = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return set()
    return {_plain(ip_address(str(sockaddr[0]).partition("%")[0])) for *_, sockaddr in addresses}


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
