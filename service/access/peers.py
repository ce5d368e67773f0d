"""Local users who connect through the Unix socket: the kernel identifies them."""

from __future__ import annotations

import os
import socket
import struct
import sys
from collections.abc import Iterable, Mapping

from service.access.principal import EVERY_SCOPE, Principal, Scope, of_user
from service.errors import BadSetting

ROOT = 0
GROUP = "honed"
"""Its members may open the socket; HONED_SOCKET_USERS sets what they may do."""
EVERYTHING = "*"
"""Every scope, in the setting."""
OWN_USERS: Mapping[int, str] = (
    {ROOT: "root", os.geteuid(): "the daemon's user"} if hasattr(os, "geteuid") else {}
)
"""Those who may do everything unless the setting says less."""
UCRED = struct.Struct("iII")
"""Process, user and group: unix(7)."""


def principals_of(users: Mapping[str, Iterable[str]]) -> dict[int, Principal]:
    """By uid, who may do what without a token: the daemon's own user and root everything, unless
    the setting says less. Who is not there may do nothing.

    users: name or uid of a user → scopes. Raises BadSetting for a user that the system lacks.
    """
    known = {uid: _principal(uid, name, (EVERYTHING,)) for uid, name in OWN_USERS.items()}
    for user, scopes in users.items():
        uid = _uid(user)
        known[uid] = _principal(uid, user, scopes)
    return known


def peer_uid(connection: socket.socket) -> int | None:
    """The user who opened the other end of a Unix socket; None for other sockets."""
    if sys.platform != "linux" or connection.family != socket.AF_UNIX:
        return None
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, UCRED.size)
    uid: int = UCRED.unpack(credentials)[1]
    return uid


def group_id() -> int | None:
    """Id of the group whose members may open the socket; None if it does not exist."""
    if sys.platform == "win32":
        return None
    import grp

    try:
        return grp.getgrnam(GROUP).gr_gid
    except KeyError:
        return None


def _principal(uid: int, name: str, scopes: Iterable[str]) -> Principal:
    names = frozenset(scopes)
    rights = EVERY_SCOPE if EVERYTHING in names else frozenset(map(Scope, names))
    return Principal(of_user(uid), name, rights)


def _uid(user: str) -> int:
    if user.isdecimal():
        return int(user)
    if sys.platform != "win32":
        import pwd

        try:
            return pwd.getpwnam(user).pw_uid
        except KeyError:
            pass
    raise BadSetting(f"HONED_SOCKET_USERS: there is no user {user!r}; give a name or a number")
