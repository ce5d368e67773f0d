"""A minimal HTTP client, which takes less processor time than what it measures."""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit

from bench.daemon import Served

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


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
