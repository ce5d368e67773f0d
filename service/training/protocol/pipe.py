"""The child's ends of its pipes: the task, then commands in; messages and heartbeats out."""

from __future__ import annotations

import io
import logging
import os
import threading
from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING, Literal

from service.training.protocol.messages.lines import decode_command, decode_task, encode
from service.training.protocol.messages.shared import Working

if TYPE_CHECKING:  # a child needs those of its own task only
    from service.training.protocol.messages.unions import Command, Message, Task

logger = logging.getLogger(__name__)

HEARTBEAT_S = 5.0
StopReason = Literal["paused", "cancelled", "orphaned"]


class Interrupted(Exception):
    """The task ends early because the parent wants that, or is gone."""

    def __init__(self, reason: StopReason) -> None:
        super().__init__(reason)
        self.reason = reason


def claim_stdout() -> int:
    """A private descriptor for messages; any other output to fd 1 goes to stderr."""
    messages = os.dup(1)
    os.dup2(2, 1)
    return messages


class Pipe:
    """Both directions of communication with the parent. Only the main thread sends.

    stop, held: the parent's latest commands; plain attributes, because the loop reads them at every
    step. Once stop is `orphaned`, it stays so.
    """

    def __init__(self, *, stdin: int, stdout: int) -> None:
        # Unbuffered: a buffered reader's lock, held by the waiting thread, breaks interpreter exit.
        self._stdin = io.FileIO(stdin, "rb", closefd=False)
        self._stdout = stdout
        self.stop: StopReason | None = None
        self.held = False
        self._heard = threading.Event()

    def send(self, message: Message) -> None:
        """Raises Interrupted if the parent no longer reads."""
        rest = memoryview(encode(message))
        try:
            while rest:
                rest = rest[os.write(self._stdout, rest) :]
        except OSError as error:
            raise Interrupted("orphaned") from error

    def read_task(self) -> Task:
        """The first line. Raises Interrupted at end of file, ValueError if it is not a task."""
        line = self._stdin.readline()
        if not line:
            raise Interrupted("orphaned")
        return decode_task(line)

    def listen(self, *, on_orphaned: Callable[[], None] | None = None) -> None:
        """Receive commands from now on in a thread, which calls on_orphaned at end of file."""
        threading.Thread(
            target=self._take_commands, args=(on_orphaned,), name="commands", daemon=True
        ).start()

    def wait(self, timeout_s: float) -> None:
        """Sleep until a command arrives, or for timeout_s."""
        self._heard.wait(timeout_s)
        self._heard.clear()

    def _take_commands(self, on_orphaned: Callable[[], None] | None) -> None:
        for line in self._stdin:
            self._obey(_command(line))
            self._heard.set()
        self.stop = "orphaned"
        self._heard.set()
        if on_orphaned is not None:
            on_orphaned()

    def _obey(self, command: Command | None) -> None:
        match command and command.kind:
            case "cancel":
                self.stop = "cancelled"
            case "pause" if self.stop is None:
                self.stop = "paused"
            case "hold":
                self.held = True
            case "continue":
                self.held = False


class Heartbeat:
    """Sends heartbeats during work other than training, and obeys commands."""

    def __init__(self, pipe: Pipe) -> None:
        self._pipe = pipe
        self._due = monotonic() + HEARTBEAT_S
        self._done = 0

    def __call__(self, samples: int = 0) -> None:
        """samples: measured since the last call. Raises Interrupted."""
        self._done += samples
        while self._pipe.held and self._pipe.stop is None:
            self._pipe.wait(HEARTBEAT_S)
            self._say()
        if self._pipe.stop is not None:
            raise Interrupted(self._pipe.stop)
        if monotonic() >= self._due:
            self._say()

    def _say(self) -> None:
        self._due = monotonic() + HEARTBEAT_S
        self._pipe.send(Working(self._done))


def _command(line: bytes) -> Command | None:
    try:
        return decode_command(line)
    except ValueError as error:
        logger.warning("command_ignored error=%s", error)
        return None
