"""Minimal HTTP clients, which take less processor time than what they measure."""

from __future__ import annotations

import asyncio
import http.client
import json
from typing import Any
from urllib.parse import urlsplit

from bench.daemon import Served

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Poster:
    """Posts to a path, one body per call, on a connection that stays open."""

    def __init__(
        self, daemon: Served, path: str, *, kind: str = "application/json", expected: int = 200
    ) -> None:
        self._path, self._expected = path, expected
        self._headers = {"Authorization": f"Bearer {daemon.token}", "Content-Type": kind}
        self._connection = http.client.HTTPConnection(daemon.url.removeprefix("http://"))

    def __call__(self, body: str | bytes) -> Any:
        """The answer, which is JSON."""
        self._connection.request("POST", self._path, body, self._headers)
        answer = self._connection.getresponse()
        content = answer.read()
        assert answer.status == self._expected, content
        return json.loads(content)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


class PlainHttp:
    """Requests with the admin token to one daemon, over connections that the caller holds."""

    def __init__(self, daemon: Served) -> None:
        address = urlsplit(daemon.url)
        self._address = (address.hostname, address.port)
        self._head = f"Host: {address.netloc}\r\nAuthorization: Bearer {daemon.token}\r\n"

    async def connect(self) -> Connection:
        """A new connection."""
        return await asyncio.open_connection(*self._address)

    async def ask(
        self,
        connection: Connection,
        line: str,
        body: bytes = b"",
        *,
        headers: str = "Content-Type: application/json\r\n",
    ) -> int:
        """Send a request, read the whole answer; returns its status. line: method and path."""
        reader, writer = connection
        length = f"Content-Length: {len(body)}\r\n" if body else ""
        writer.write(f"{line} HTTP/1.1\r\n{self._head}{headers}{length}\r\n".encode() + body)
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        status = int(head.split(b" ")[1])
        if status != 304:
            await reader.readexactly(int(head.partition(b"content-length:")[2].split(b"\r\n")[0]))
        return status
