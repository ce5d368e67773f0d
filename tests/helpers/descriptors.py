"""A shortage of file descriptors, as one of memory or processes is: for this process alone."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest


class Descriptors:
    """Takes every descriptor that this process may have, and gives them back."""

    def __init__(self) -> None:
        self._resource = pytest.importorskip("resource")
        self._before = self._resource.getrlimit(self._resource.RLIMIT_NOFILE)
        self._taken: list[int] = []

    def take_all(self) -> None:
        """None is left, and few more may be opened once some are closed."""
        lowest = os.dup(0)
        os.close(lowest)
        self._resource.setrlimit(
            self._resource.RLIMIT_NOFILE, (max(lowest + 8, 64), self._before[1])
        )
        with contextlib.suppress(OSError):
            while True:
                self._taken.append(os.open(os.devnull, os.O_RDONLY))

    def give_back(self) -> None:
        """As many as before may be opened."""
        while self._taken:
            os.close(self._taken.pop())
        self._resource.setrlimit(self._resource.RLIMIT_NOFILE, self._before)


@contextmanager
def no_descriptor_left() -> Iterator[None]:
    """While the block runs, this process cannot open anything."""
    descriptors = Descriptors()
    descriptors.take_all()
    try:
        yield
    finally:
        descriptors.give_back()
