"""Signs of life of a child between the steps of work that is not training."""

from __future__ import annotations

from time import monotonic

from service.training.protocol.messages.shared import Working
from service.training.protocol.pipe import Interrupted, Pipe

HEARTBEAT_S = 5.0


class Heartbeat:
    """Says from time to time that the child lives, and obeys the parent."""

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
