"""The daemon's address, the credentials, and its errors."""

from __future__ import annotations

import json
import os
import socket
import ssl
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

DEFAULT_URL = "http://127.0.0.1:8471"
SOCKET_OF_SERVICE = Path("/run/honed/api.sock")
ROOT = 0
TIMEOUT = httpx.Timeout(600.0, connect=5.0)
"""Checking a large model takes minutes, as may waiting for a newer one."""


class HonedError(Exception):
    """The daemon refused. code: docs/errors.md lists them. errors: pointer and detail of each.

    status: of HTTP; 200 for what fails once an answer has begun.
    """

    def __init__(self, status: int, document: dict[str, Any]) -> None:
        self.status = status
        self.code: str = document.get("code", "")
        self.detail: str = document.get("detail") or document.get("title") or f"HTTP {status}"
        self.errors: list[dict[str, str]] = document.get("errors") or []
        faults = "".join(f"; {error['pointer']}: {error['detail']}" for error in self.errors[:5])
        super().__init__(self.detail + faults)


class Unreachable(Exception):
    """No daemon answers there."""


def options(url: str | None, token: str | None) -> dict[str, Any]:
    """The arguments for an httpx client.

    url: None for $HONED_URL, or if that is unset for this machine's daemon: by its Unix socket,
    where the kernel identifies the user; if there is none, http://127.0.0.1:8471 with the token of
    the data folder. token: None for $HONED_TOKEN.
    """
    url = url or os.environ.get("HONED_URL")
    token = token or os.environ.get("HONED_TOKEN")
    path = None if url else living_socket()
    if url is None and path is None and token is None:
        token = _token_of_this_machine()
    url = url or (DEFAULT_URL if path is None else "http://localhost")
    return {
        "base_url": url,
        "headers": {"Authorization": f"Bearer {token.strip()}"} if token else {},
        "timeout": TIMEOUT,
        "trust_env": False,  # no proxy between an app and its device
        "verify": _trusted(url),
        "uds": None if path is None else str(path),
    }


def _trusted(url: str) -> ssl.SSLContext:
    """Whom the system trusts, and SSL_CERT_FILE names: read, in 30 ms, only for TLS."""
    if url.lower().startswith("http:"):
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # a new one trusts nobody
    context = httpx.create_ssl_context(trust_env=False)
    context.load_default_certs()
    return context


def living_socket() -> Path | None:
    """The Unix socket of this machine's daemon; None if nobody listens, or if not on Linux.

    Raises Unreachable if another user listens than this one, root or the folder's owner.
    """
    if sys.platform != "linux":
        return None
    named = os.environ.get("HONED_SOCKET")
    own = [Path(named).expanduser()] if named else [data_dir() / "api.sock", SOCKET_OF_SERVICE]
    for path in own:
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(5)
            try:
                probe.connect(str(path))
                owner = path.parent.stat().st_uid
            except OSError:
                continue
            credentials = probe.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        _, uid, _ = struct.unpack("iII", credentials)
        if uid not in {ROOT, os.geteuid(), owner}:
            raise Unreachable(f"a program of another user (uid {uid}) listens on {path}")
        return path
    return None


def data_dir() -> Path:
    """$HONED_DATA_DIR, else the platform's folder for user data, as the daemon chooses it."""
    if named := os.environ.get("HONED_DATA_DIR"):
        return Path(named).expanduser()
    home = Path.home()
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", home / "AppData" / "Local")) / "honed"
    if sys.platform == "darwin":
        return home / "Library" / "Application Support" / "honed"
    return Path(os.environ.get("XDG_DATA_HOME") or home / ".local" / "share") / "honed"


def _token_of_this_machine() -> str | None:
    """The token; None on Linux, where the socket needs none and another user may have the port."""
    if sys.platform == "linux":
        return None
    try:
        return (data_dir() / "admin.token").read_text("ascii")
    except OSError:
        return None


@contextmanager
def reaching(where: str) -> Iterator[None]:
    """Raises Unreachable for transport errors. where: the daemon's address."""
    try:
        yield
    except httpx.TransportError as error:
        raise Unreachable(
            f"no daemon answers at {where}: {error or type(error).__name__}"
        ) from error


def checked(response: httpx.Response) -> httpx.Response:
    """The answer, whose body must have been read. Raises HonedError."""
    if not response.is_error:
        return response
    is_json = "json" in response.headers.get("content-type", "")
    raise HonedError(response.status_code, response.json() if is_json else {})


class Events:
    """Server-sent events, read line by line. status: of their answer."""

    def __init__(self, status: int) -> None:
        self._status = status
        self._is_error = False

    def read(self, line: str) -> Any:
        """The event that a line holds, None for none. Raises HonedError for an error's."""
        name, _, value = line.partition(": ")
        if name == "event":
            self._is_error = value == "error"
        if name != "data":
            return None
        event = json.loads(value)
        if self._is_error:
            raise HonedError(self._status, event)
        return event
