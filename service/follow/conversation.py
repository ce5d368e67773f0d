"""The daemon's end of the child that asks a source."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from service.errors import ChildDied
from service.follow.messages import (
    LAST_MESSAGES,
    FetchMessage,
    Inquiry,
    line,
    message_in,
)
from service.processes.children import Children
from service.processes.exits import ErrorTail, describe_exit

MOST_LINE_BYTES = 4 << 20
SILENCE_S = 300.0
"""A child that reports nothing for so long hangs: it reports a download every second, and its
requests time out."""


class Conversation:
    """One inquiry. Belongs to the event loop."""

    def __init__(self, children: Children) -> None:
        self._children = children
        self._process: asyncio.subprocess.Process | None = None
        self.interrupted = False

    def interrupt(self) -> None:
        """End it; what was downloaded stays. The messages then end without a last one."""
        self.interrupted = True
        if self._process is not None and self._process.returncode is None:
            self._process.kill()

    async def messages(self, inquiry: Inquiry) -> AsyncGenerator[FetchMessage, None]:
        """Up to the last. Raises ChildDied, Busy."""
        process = await self._children.spawn("service.follow", buffer_bytes=MOST_LINE_BYTES)
        self._process = process
        assert process.stdin is not None
        assert process.stderr is not None
        errors = ErrorTail(process.stderr)
        if self.interrupted:
            process.kill()
        try:
            process.stdin.write(line(inquiry))
            while (message := await self._next(process, errors)) is not None:
                yield message
                if isinstance(message, LAST_MESSAGES):
                    return
        finally:
            if process.returncode is None:
                process.kill()
            await process.wait()
            await errors.wait()

    async def _next(
        self, process: asyncio.subprocess.Process, errors: ErrorTail
    ) -> FetchMessage | None:
        """None once interrupted, or at the end of an answer without a last message."""
        assert process.stdout is not None
        try:
            text = await asyncio.wait_for(process.stdout.readline(), SILENCE_S)
        except asyncio.TimeoutError:
            raise ChildDied(
                f"the child that asks a source said nothing for {SILENCE_S:g} s"
            ) from None
        if self.interrupted:
            return None
        if text:
            return message_in(text)
        code = await process.wait()
        await errors.wait()
        if code == 0:
            return None
        raise ChildDied(f"the child that asks a source {describe_exit(code)}{errors.quote()}")
