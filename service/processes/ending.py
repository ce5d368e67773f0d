"""How a child process ended: its exit code or signal, and the end of what it wrote to stderr."""

from __future__ import annotations

import asyncio
import signal

MAX_TAIL_BYTES = 4096


class ErrorTail:
    """The last 4 KiB of a stream, read as they come so that the writer never blocks."""

    def __init__(self, stream: asyncio.StreamReader) -> None:
        self._stream = stream
        self._tail = b""
        self._reading = asyncio.create_task(self._read())

    async def wait(self) -> None:
        """Return once the stream has ended."""
        await asyncio.wait({self._reading})

    def quote(self) -> str:
        """The words, as the second half of a sentence; nothing if there are none."""
        words = self._tail.decode(errors="replace").strip()
        return f"; its last words: {words}" if words else ""

    async def _read(self) -> None:
        while chunk := await self._stream.read(MAX_TAIL_BYTES):
            self._tail = (self._tail + chunk)[-MAX_TAIL_BYTES:]


def describe_exit(code: int) -> str:
    """`ended with exit code 3`, or `was ended by SIGKILL` with what that may mean.

    code: as subprocess gives it; a negative one is a signal.
    """
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    hint = " (the system may be out of memory)" if name == "SIGKILL" else ""
    return f"was ended by {name}{hint}"
