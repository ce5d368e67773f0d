"""Locks of models, and one that many threads share or one holds alone.

For a model's packs: small uploads and readers share it, since appending changes no byte that a row
names; threads that erase, move or remove bytes hold it alone.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar
from weakref import WeakValueDictionary

_Lock = TypeVar("_Lock")


class LockByModel(Generic[_Lock]):
    """A lock for each model; make: of a new one."""

    def __init__(self, make: Callable[[], _Lock]) -> None:
        self._make = make
        self._guard = threading.Lock()
        # Weak: a lock that nobody holds or waits for goes, so deleted models leave none.
        self._locks: WeakValueDictionary[int, _Lock] = WeakValueDictionary()

    def of(self, model_id: int) -> _Lock:
        """The model's; the caller keeps it alive."""
        with self._guard:
            return self._locks.setdefault(model_id, self._make())


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
