"""A zip that is sent while it is written."""

from __future__ import annotations

import io
from typing import Any


class ForwardBuffer(io.RawIOBase):
    """Takes what a zip writes forward, until somebody takes it away."""

    def __init__(self) -> None:
        self._written = bytearray()

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._written += data
        return len(data)

    def take(self) -> bytes:
        taken, self._written = bytes(self._written), bytearray()
        return taken
