"""How a child process ended: its exit code or signal, and the end of what it wrote to stderr."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable

from service.logs import event

logger = logging.getLogger(__name__)

MAX_TAIL_BYTES = 4096
LAST_WORDS = "; its last words: "
TRACEBACK = "Traceback (most recent call last)"


class ErrorTail:
    """The last 4 KiB of a stream, read continuously so that the writer never blocks.

    A traceback in them is logged. on_read: called with the whole stream, chunk by chunk.
    """

    def __init__(
        self, stream: asyncio.StreamReader, on_read: Callable[[bytes], None] = lambda _: None
    ) -> None:
        self._stream = stream
        self._on_read = on_read
        self._tail = b""
        self._reading = asyncio.create_task(self._read())

    async def wait(self) -> None:
        """Return once the stream has ended."""
        await asyncio.wait({self._reading})

    def quote(self) -> str:
        """The text, as the second half of a sentence; empty if there is none.

        Only the last line of a traceback: the quote may be sent to an app, and the other lines
        contain paths of the installation. The log has all of them.
        """
        words = self._words
        if TRACEBACK in words:
            words = words.rpartition("\n")[2]
        return f"{LAST_WORDS}{words}" if words else ""

    @property
    def _words(self) -> str:
        return self._tail.decode(errors="replace").strip()

    async def _read(self) -> None:
        while chunk := await self._stream.read(MAX_TAIL_BYTES):
            self._tail = (self._tail + chunk)[-MAX_TAIL_BYTES:]
            self._on_read(chunk)
        if TRACEBACK in self._words:
            event(logger, logging.ERROR, "child.traceback", text=self._words)


def describe_exit(code: int) -> str:
    """`ended with exit code 3`, or `was ended by SIGKILL` with a possible cause.

    code: as from subprocess; a negative one is a signal.
    """
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    hint = " (the system may be out of memory)" if name == "SIGKILL" else ""
    return f"was ended by {name}{hint}"
