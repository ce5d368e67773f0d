"""The sockets that the daemon listens on: Unix, TCP, or passed by systemd.

uvicorn would leave its Unix socket open to every user, so ours are created here and passed to it.
"""

from __future__ import annotations

import logging
import os
import socket
import ssl
import stat
import sys
from contextlib import ExitStack
from ipaddress import ip_address
from pathlib import Path

from service.access.peers import GROUP, group_id
from service.errors import BadSetting, CannotListen
from service.logs import event
from service.settings import Settings, socket_path
from storage.errors import in_words

logger = logging.getLogger(__name__)

FIRST_PASSED = 3
"""The first descriptor that systemd passes: sd_listen_fds(3)."""
MAX_PATH_BYTES = 107
"""The kernel's sun_path holds 108, with a zero at the end: unix(7)."""
PROBE_TIMEOUT_S = 1.0


def passed_by_systemd() -> list[socket.socket]:
    """The listening sockets that systemd has passed to this process."""
    for_us = os.environ.pop("LISTEN_PID", "") == str(os.getpid())
    count = os.environ.pop("LISTEN_FDS", "")
    os.environ.pop("LISTEN_FDNAMES", None)
    if not for_us or not count.isdecimal():
        return []
    passed = [socket.socket(fileno=FIRST_PASSED + n) for n in range(int(count))]
    for listener in passed:
        listener.set_inheritable(False)
    return passed


def listen_on_tcp(settings: Settings) -> socket.socket:
    """Raises CannotListen if the address is not available."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # The protocol is given because asyncio sets TCP_NODELAY only then: without it, Nagle's
    # algorithm delays the body of an answer by 40 ms.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        if hasattr(socket, "SO_EXCLUSIVEADDRUSE"):
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_EXCLUSIVEADDRUSE, 1)
        else:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((settings.host, settings.port))
    except OSError as error:
        listener.close()
        where = f"{settings.host}:{settings.port}"
        raise CannotListen(
            f"cannot listen on {where} (HONED_HOST, HONED_PORT): {error.strerror or error}"
        ) from error
    return listener


def require_private(listener: socket.socket, settings: Settings) -> None:
    """Raises BadSetting if tokens sent here would cross a network unencrypted."""
    address = ip_address(listener.getsockname()[0].partition("%")[0])
    address = getattr(address, "ipv4_mapped", None) or address
    if address.is_loopback or settings.tls_certificate is not None or settings.insecure_bind:
        return
    raise BadSetting(
        f"{address} (HONED_HOST) can be reached from other machines, and tokens and samples would "
        "cross the network in the clear. Give a certificate and its key (HONED_TLS_CERTIFICATE, "
        "HONED_TLS_KEY), or listen on 127.0.0.1 only; HONED_INSECURE_BIND=true allows it as it is, "
        "where nobody else is on that network, as in a container of its own"
    )


def tls_context(settings: Settings) -> ssl.SSLContext | None:
    """The TLS context for TCP; None without a certificate. Raises BadSetting.

    That is CannotListen where the files do not go together, as while somebody renews them.
    """
    certificate, key = settings.tls_certificate, settings.tls_key
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        raise BadSetting("HONED_TLS_CERTIFICATE and HONED_TLS_KEY belong together: set both")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(certificate, key, password="")  # so that OpenSSL asks nobody
    except (OSError, ssl.SSLError) as error:
        raise CannotListen(
            f"cannot use {certificate} with {key} (HONED_TLS_CERTIFICATE, HONED_TLS_KEY): "
            f"{error.strerror or error}; both are PEM files, the key without a password"
        ) from error
    return context


class LocalSocket:
    """The daemon's own Unix socket. is_private: whether it is in the data folder.

    Only the daemon's user may connect, and the group `honed` if it exists; in the data folder,
    which nobody else can enter, only the user. Raises BadSetting if a socket is required but
    impossible.
    """

    def __init__(self, settings: Settings) -> None:
        self.path = socket_path(settings)
        self.is_private = self.path.parent == settings.data_dir
        self._made: tuple[int, int] | None = None
        obstacle = self._obstacle()
        self._is_possible = obstacle is None
        if obstacle is not None and (settings.socket is not None or not settings.tcp):
            raise BadSetting(obstacle)
        if obstacle is not None and sys.platform == "linux":
            event(logger, logging.WARNING, "socket.not_made", detail=obstacle)

    def listen(self) -> socket.socket | None:
        """Bind it, replacing one left by a killed daemon. Raises BadSetting."""
        if not self._is_possible:
            return None
        with ExitStack() as on_failure:
            listener = on_failure.enter_context(socket.socket(socket.AF_UNIX))
            try:
                _remove_stale(self.path)
                os.fchmod(listener.fileno(), 0o600)  # the file is created with this mode
                listener.bind(str(self.path))
                status = self.path.stat()
                self._made = (status.st_dev, status.st_ino)
            except OSError as error:
                raise CannotListen(
                    f"cannot make the socket {self.path} (HONED_SOCKET): {in_words(error)}"
                ) from error
            if not self.is_private:
                self._open_to_group()
            on_failure.pop_all()
        return listener

    def remove(self) -> None:
        """Remove its file, unless that was replaced by another."""
        try:
            status = self.path.stat()
            if (status.st_dev, status.st_ino) == self._made:
                self.path.unlink()
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:  # the next start replaces it
            event(logger, logging.WARNING, "socket.left", detail=in_words(error))

    def _open_to_group(self) -> None:
        group = group_id()
        if group is None:
            return
        try:
            os.chown(self.path, -1, group)
            self.path.chmod(0o660)
        except PermissionError as error:
            detail = f"{in_words(error)}; add the daemon's user to the group {GROUP}"
            event(logger, logging.WARNING, "socket.not_for_group", detail=detail)

    def _obstacle(self) -> str | None:
        if sys.platform != "linux":
            return "Unix sockets are for Linux: unset HONED_SOCKET and HONED_TCP"
        size = len(os.fsencode(self.path))
        if size > MAX_PATH_BYTES:
            return (
                f"{self.path} has {size} bytes, and a Unix socket's path at most {MAX_PATH_BYTES}; "
                "set HONED_SOCKET to a shorter one"
            )
        return None


def _remove_stale(path: Path) -> None:
    """Remove a dead socket. Raises CannotListen for one alive, BadSetting for none; OSError."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        if stat.S_ISDIR(mode):
            raise BadSetting(f"{path} is a folder: set HONED_SOCKET to a path in it, or elsewhere")
        raise BadSetting(f"{path} is no socket: remove it, or set HONED_SOCKET to another path")
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(PROBE_TIMEOUT_S)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:  # its process has ended
            path.unlink()
            return
    raise CannotListen(
        f"another program listens on {path}: stop it, or set HONED_SOCKET to another path"
    )
