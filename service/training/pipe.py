"""The child's ends of its pipes: messages out, the order and then commands in."""

from __future__ import annotations

import io
import logging
import os
import threading
from collections.abc import Callable
from typing import Literal

from service.training.messages import (
    Cancel,
    Line,
    Message,
    Order,
    Pause,
    Prepare,
    Train,
    decode,
    encode,
)

logger = logging.getLogger(__name__)

StopReason = Literal["paused", "cancelled", "orphaned"]


class Interrupted(Exception):
    """The order ends early because the parent asked for it, or is gone."""

    def __init__(self, reason: StopReason) -> None:
        super().__init__(reason)
        self.reason = reason


def claim_stdout() -> int:
    """A private descriptor for messages; whatever else prints to fd 1 lands on stderr."""
    messages = os.dup(1)
    os.dup2(2, 1)
    return messages


class Pipe:
    """Both directions of the talk with the parent. Only the main thread sends.

    stop: what the parent wants since it last spoke; a plain attribute, because the loop reads it
    at every step. Once `orphaned` it stays so.
    """

    def __init__(self, *, stdin: int, stdout: int) -> None:
        # Unbuffered: a buffered reader's lock, held by the waiting thread, breaks interpreter exit.
        self._stdin = io.FileIO(stdin, "rb", closefd=False)
        self._stdout = stdout
        self.stop: StopReason | None = None

    def send(self, message: Message) -> None:
        """Raises Interrupted if nobody reads any more."""
        rest = memoryview(encode(message))
        try:
            while rest:
                rest = rest[os.write(self._stdout, rest) :]
        except OSError as error:
            raise Interrupted("orphaned") from error

    def read_order(self) -> Order:
        """The first line. Raises Interrupted at end of file, ValueError if it is no order."""
        line = self._stdin.readline()
        if not line:
            raise Interrupted("orphaned")
        order = decode(line)
        if not isinstance(order, Prepare | Train):
            raise ValueError(f"the first line is a {order.kind!r} message; it must be an order")
        return order

    def listen(self, *, on_orphaned: Callable[[], None] | None = None) -> None:
        """Take commands from now on, in a thread; on_orphaned runs in it at end of file."""
        threading.Thread(
            target=self._take_commands, args=(on_orphaned,), name="commands", daemon=True
        ).start()

    def _take_commands(self, on_orphaned: Callable[[], None] | None) -> None:
        for line in self._stdin:
            command = _command(line)
            if isinstance(command, Cancel):
                self.stop = "cancelled"
            elif isinstance(command, Pause) and self.stop is None:
                self.stop = "paused"
        self.stop = "orphaned"
        if on_orphaned is not None:
            on_orphaned()


def _command(line: bytes) -> Line | None:
    try:
        return decode(line)
    except ValueError as error:
        logger.warning("command_ignored error=%s", error)
        return None
