"""A real training child, and everything that it said."""

from __future__ import annotations

import queue
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from support import DEADLINE_S

from service.training.protocol.messages.lines import encode
from service.training.protocol.messages.unions import Last, Line, decode_message


def limit_memory(pid: int, limit_bytes: int) -> None:
    """As the daemon limits its children."""
    import resource

    resource.prlimit(pid, resource.RLIMIT_DATA, (limit_bytes, resource.RLIM_INFINITY))


@dataclass
class Child:
    """A training child and everything that it said; all waits end at a deadline."""

    process: subprocess.Popen[bytes]
    said: list[Line] = field(default_factory=list)
    _lines: queue.Queue[bytes] = field(default_factory=queue.Queue)

    def __post_init__(self) -> None:
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put(b"")

    def send(self, line: Line) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(encode(line))
        self.process.stdin.flush()

    def hang_up(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()

    def wait_for(self, wanted: Callable[[Line], bool]) -> Line:
        """The next message that is wanted; fails if the child ends before."""
        deadline = time.monotonic() + DEADLINE_S
        while True:
            line = self._lines.get(timeout=max(0.0, deadline - time.monotonic()))
            if not line:
                raise AssertionError(f"the child ended; it said {self.said[-3:]}; {self.errors()}")
            message = decode_message(line)
            self.said.append(message)
            if wanted(message):
                return message

    def last(self) -> Line:
        return self.wait_for(lambda message: isinstance(message, Last))

    def end(self) -> int:
        """Wait for the exit code."""
        return self.process.wait(DEADLINE_S)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(DEADLINE_S)

    def errors(self) -> str:
        assert self.process.stderr is not None
        self.process.wait(DEADLINE_S)
        return self.process.stderr.read().decode()

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(DEADLINE_S)
        self._thread.join(DEADLINE_S)
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()
