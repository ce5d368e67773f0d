"""HTTP/1.1: uvicorn's, but the kernel sends files, and connections can be aborted.

uvicorn has no sendfile. h11 supports it: a placeholder passes through its framing, and the file
goes to the socket in its place (https://h11.readthedocs.io/en/latest/api.html#support-for-sendfile).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Iterable
from typing import Any, BinaryIO

import h11
from starlette.types import Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from api.connections import MAX_STALL_S, MAX_WAIT_S, RESERVED, max_connections
from service.access.peers import OWN_USERS, peer_uid
from service.access.principal import Principal, of_user

ZERO_COPY = "http.response.zerocopysend"
"""ASGI extension: sends part of an open file as the body (asgi.readthedocs.io, Extensions)."""
ABORT = "honed.abort"
"""Our extension: `{"abort": callable}` closes the connection at once and drops unsent bytes."""

HELD = "honed.held"
"""Our extension: `{"by": callable}` takes the `Principal` whose request the connection answers."""

ENDS = "honed.ends"
"""Our extension: `{"peer": address, "own": address}` of the socket. The scope's `client` is not it:
uvicorn puts there what a header says (X-Forwarded-For)."""


PRINCIPAL = "honed.principal"
"""Our key of the ASGI scope: the `Principal` that makes the request, None on an open path."""
IS_HEAD = "honed.is_head"
"""Our key of the ASGI scope: present for a HEAD, which the app answers as a GET."""
AUDIT_FACTS = "honed.audit_facts"
"""Our key of the ASGI scope: facts about an answer's content for the audit log, as JSON."""
AUDIT_MODEL = "honed.audit_model"
"""Our key of the ASGI scope: the model that a request concerns, where its path does not name it."""
USAGE = "honed.usage"
"""Our key of the ASGI scope: the `Usage` of the request's token; absent for the admin token."""
ON_DISK = "honed.on_disk"
"""Our key of the ASGI scope: raises StorageFull once the body may not grow further on the disk."""
IN_MEMORY = "honed.in_memory"
"""Our key of the ASGI scope: takes the bytes of the body in memory; absent for the admin token."""
PEER_UID = "honed.peer_uid"
"""Our extension: `{"uid": n}` of the process at the other end of a Unix socket."""

READS = ("GET", "HEAD")
METHODS = (*READS, "POST", "PUT", "PATCH", "DELETE")
SLICE_BYTES = 2**20
"""The part of a file that a client must receive within MAX_STALL_S."""


def announced_bytes(scope: Scope) -> int:
    """The length of a request's body by its headers, where h11 lets nothing but a number pass; 0 if
    it tells none.
    """
    return int(dict(scope["headers"]).get(b"content-length", 0))


class Joining:
    """The transport of one answer: what follows the head is written with it.

    Two writes are two packets, and wake up the client twice.
    """

    def __init__(self, transport: asyncio.Transport, conn: h11.Connection) -> None:
        self._transport = transport
        self._conn = conn
        self._head = b""
        self.holds = False

    def write(self, data: bytes) -> None:
        """Write, or hold the data back until the next write."""
        self._head += data
        if not self.holds:
            self._transport.write(self._head)
            self._head = b""

    def close(self) -> None:
        """Close it, unless a body is still being sent: that would reset it, and lose the answer."""
        if self._conn.their_state is not h11.SEND_BODY:
            self._transport.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class FileProtocol(H11Protocol):
    """One connection. Offers ZERO_COPY, ABORT, HELD, ENDS and PEER_UID to the app."""

    is_waiting: bool = True
    """Whether it waits for a request's headers, or has begun to answer one."""
    since: float
    """When it began to do so."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._plain_app: Any = self.app
        self.app = self._extended_app
        self._peer_uid: int | None = None
        self._principal: Principal | None = None
        self.since = self.loop.time()
        self._heard = 0
        self._seen = (0, 0)
        self._moved_at = self.loop.time()

    @property
    def holder(self) -> str:
        """Who occupies it: whose request it answers; before that, what the kernel tells."""
        if self._principal is not None:
            return self._principal.id
        return "nobody" if self._peer_uid is None else of_user(self._peer_uid)

    @property
    def is_reserved(self) -> bool:
        """Whether its holder may end what others do, and must always get in."""
        if self._principal is not None:
            return self._principal.is_administrator
        return self._peer_uid in OWN_USERS

    def is_overdue(self, now: float) -> bool:
        """Whether it has waited, or its client has stalled, for too long.

        Measures from call to call whether the client sends the rest of a body, or receives.
        """
        unsent_bytes = self.transport.get_write_buffer_size()
        seen = (unsent_bytes, self._heard)
        owes = self.cycle is not None and self.cycle.more_body and not self.cycle.response_complete
        is_its_turn = unsent_bytes > 0 or (owes and not self.flow.read_paused)
        if seen != self._seen or not is_its_turn:
            self._seen, self._moved_at = seen, now
        if now - self._moved_at > MAX_STALL_S:
            return True
        return self.is_waiting and unsent_bytes == 0 and now - self.since > MAX_WAIT_S

    def abort(self) -> None:
        """Close it immediately; it is no longer one of the server's."""
        self.connections.discard(self)
        self.transport.abort()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin a connection; at the limit, close another one."""
        super().connection_made(transport)
        self._peer_uid = peer_uid(transport.get_extra_info("socket"))
        make_room(self.connections)  # type: ignore[arg-type]  # all are of this class

    def data_received(self, data: bytes) -> None:
        """Process more bytes of a request, or drop the rest of one that was answered."""
        self._heard += len(data)
        if self.conn.our_state is not h11.CLOSED:
            super().data_received(data)

    def _get_upgrade(self) -> bytes | None:
        """None: no offer is taken (RFC 9110, section 7.8). uvicorn would warn of each, and some
        clients make one with every request, Java's HttpClient by default.
        """
        return None

    def send_400_response(self, msg: str) -> None:
        """Answer bytes that are not HTTP; an unfinished request counts as disconnected."""
        is_head = False
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
            is_head = self.cycle.scope["method"] == "HEAD"
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response("" if is_head else msg)
        else:
            self.transport.close()

    def on_response_complete(self) -> None:
        """Begin to wait for the next request."""
        self.is_waiting, self.since = True, self.loop.time()
        self._principal = None
        super().on_response_complete()

    async def _extended_app(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.is_waiting, self.since = False, self.loop.time()
        scope["extensions"] = {
            ZERO_COPY: {},
            ABORT: {"abort": self.transport.abort},
            HELD: {"by": self._hold},
            ENDS: {"peer": self.client, "own": self.server},
        }
        if self._peer_uid is not None:
            scope["extensions"][PEER_UID] = {"uid": self._peer_uid}

        begin: Message | None = None
        self.cycle.transport = joining = Joining(self.transport, self.conn)  # type: ignore[assignment]

        async def send_extended(message: Message) -> None:
            nonlocal begin
            if message["type"] == "http.response.start" and self.cycle.response_started:
                self.cycle.disconnected = True  # a second answer: of a stop that cuts off the first
                self.transport.abort()
                return
            if message["type"] == "http.response.start" and _is_followed(message):
                begin = message
                return
            if begin is not None:
                joining.holds = message["type"] != ZERO_COPY
                await send(begin)
                begin, joining.holds = None, False
            if message["type"] == ZERO_COPY:
                await self._send_file(message, receive)
            else:
                await send(message)

        await self._plain_app(scope, receive, send_extended)

    def _hold(self, principal: Principal) -> None:
        self._principal = principal

    async def _send_file(self, message: Message, receive: Receive) -> None:
        """Send `count` bytes of `file` from `offset`; returns early if the client goes away."""
        if self.cycle.disconnected:
            return
        count: int = message["count"]
        placeholder: Any = range(count)  # h11 counts its length, and hands it back
        try:
            for piece in self.conn.send_with_data_passthrough(h11.Data(data=placeholder)) or []:
                if piece is not placeholder:
                    self.transport.write(piece)
                elif not self.transport.is_closing():
                    await self._send_slices(message["file"], message["offset"], count)
        except (ConnectionError, asyncio.TimeoutError):
            self.transport.abort()
            while (await receive())["type"] != "http.disconnect":
                pass

    async def _send_slices(self, file: BinaryIO, offset: int, count: int) -> None:
        """Send bytes of the file. Raises TimeoutError if the client does not receive them."""
        end = offset + count
        while offset < end:
            size = min(SLICE_BYTES, end - offset)
            sending = self.loop.sendfile(self.transport, file, offset, size)
            sent = await asyncio.wait_for(sending, MAX_STALL_S)
            if sent < size:
                raise ConnectionAbortedError(f"the file ends {end - offset - sent} bytes early")
            offset += sent


def make_room(connections: Collection[FileProtocol]) -> None:
    """If there are too many, close the oldest of the holder who has the most.

    The oldest is the one that has waited or been answered for the longest time.
    """
    if len(connections) <= (most := max_connections()):
        return
    counts = Counter(connection.holder for connection in connections)
    reserved = min(RESERVED, most // 2)
    counts.subtract({each.holder: reserved for each in connections if each.is_reserved})
    greediest, _ = counts.most_common(1)[0]
    own = (each for each in connections if each.holder == greediest)
    min(own, key=lambda connection: connection.since).abort()


def close_overdue(connections: Iterable[FileProtocol], *, now: float) -> None:
    """Close connections that have waited or stalled for too long."""
    for connection in list(connections):
        if connection.is_overdue(now):
            connection.abort()


def _is_followed(begin: Message) -> bool:
    """Whether the body comes at once: it is complete. The head of a stream is not held back."""
    return any(name.lower() == b"content-length" for name, _ in begin.get("headers", ()))
