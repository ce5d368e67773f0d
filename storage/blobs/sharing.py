"""A lock that many threads share or one holds alone.

For a model's packs: small uploads and readers share it, since appending changes no byte that a row
names; threads that erase, move or remove bytes hold it alone.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class SharedLock:
    """A thread that wants it alone waits for those that share it; later ones wait behind it."""

    def __init__(self) -> None:
        self._door = threading.Lock()
        self._left = threading.Condition()
        self._inside = 0

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Hold it alone while the block runs."""
        with self._door:
            with self._left:
                self._left.wait_for(lambda: self._inside == 0)
            yield

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Share it while the block runs."""
        with self._door, self._left:
            self._inside += 1
        try:
            yield
        finally:
            with self._left:
                self._inside -= 1
                self._left.notify_all()
